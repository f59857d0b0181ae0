//! Names that lead out of a root, to what is no file, and to file systems that do not answer.

use std::{
    fs,
    io::Read as _,
    os::unix::{fs::symlink, net::UnixListener},
};

use super::*;
use crate::{
    kernel::foreign::testing::{Opens, ServedByNobody},
    tracee::testing::Child,
};

fn root_at(folder: &Path) -> Root {
    Root::at(folder, None, folder.to_owned()).expect("a root")
}

fn content(root: &Root, path: &str) -> Result<String, ForeignError> {
    let mut text = String::new();
    let mut file = root.file(Path::new(path), Purpose::Debug)?.open()?;
    file.read_to_string(&mut text).expect("text");
    Ok(text)
}

fn errno(root: &Root, path: &str) -> i32 {
    let error = content(root, path).expect_err(path);
    error.errno().unwrap_or_else(|| panic!("{path}: {error}"))
}

/// Check that names, with links and `..`, mean in a root what they mean to a process whose root it is, and never what they mean outside.
#[test]
fn names_stay_inside() {
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("file"), "outside").expect("write");
    let jail = outside.path().join("jail");
    fs::create_dir_all(jail.join("lib/deep")).expect("create");
    fs::write(jail.join("lib/deep/file"), "inside").expect("write");
    symlink("/lib/deep", jail.join("absolute")).expect("link");
    symlink("../../../../lib", jail.join("lib/up")).expect("link");
    symlink(outside.path().join("file"), jail.join("leads-out")).expect("link");
    symlink("../file", jail.join("leads-up")).expect("link");
    symlink("loop", jail.join("loop")).expect("link");
    let root = root_at(&jail);
    for path in [
        "/lib/deep/file",
        "lib/./deep/file",
        "/../../lib/deep/../deep/file",
        "/absolute/file",
        "/lib/up/up/deep/file",
        "/absolute/../deep/file",
    ] {
        let content = content(&root, path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(content, "inside", "{path}");
    }
    for path in ["/leads-out", "/leads-up", "/file", "../file", "/missing"] {
        assert_eq!(errno(&root, path), libc::ENOENT, "{path}");
    }
    assert_eq!(errno(&root, "/lib/deep/file/more"), libc::ENOTDIR);
    assert_eq!(errno(&root, "/loop"), libc::ELOOP);
    assert_eq!(errno(&root, &"/lib/..".repeat(1000)), libc::ENAMETOOLONG);
    let name = jail.join("lib/file");
    assert_eq!(root.inside(&name), Some(Path::new("lib/file")));
    assert_eq!(root.inside(Path::new("/elsewhere")), None);
}

/// Check that what is no regular file is not opened: a FIFO, a socket, a folder and, where one can be made, a device.
#[test]
fn only_files_are_opened() {
    let jail = tempfile::tempdir().expect("a folder");
    let at = |name| jail.path().join(name);
    nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).expect("a FIFO");
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    fs::create_dir(at("folder")).expect("create");
    fs::write(at("file"), "text").expect("write");
    let mut names = vec!["fifo", "socket", "folder", "."];
    let kind = nix::sys::stat::SFlag::S_IFCHR;
    // Nobody has a driver for it.
    let nothing = nix::sys::stat::makedev(250, 250);
    match nix::sys::stat::mknod(&at("device"), kind, Mode::S_IRWXU, nothing) {
        Ok(()) => names.push("device"),
        Err(error) => println!("without a device: {error}"),
    }
    let root = root_at(jail.path());
    let mut opens = Opens::of(jail.path());
    for name in names {
        let error = content(&root, name).expect_err(name);
        assert!(matches!(error, ForeignError::NoFile { .. }), "{error}");
    }
    assert_eq!(opens.take(), Vec::<OsString>::new());
    // They would have been seen.
    assert_eq!(content(&root, "file").expect("a file"), "text");
    assert_eq!(opens.take(), ["file"]);
}

/// Check that interfaces of the kernel and devices are not even reached, however they are named.
#[test]
fn interfaces_are_not_reached() {
    let root = Root::ours().expect("a root");
    let jail = tempfile::tempdir().expect("a folder");
    let link = jail.path().join("link");
    symlink("/proc/self/exe", &link).expect("link");
    let link = link.to_str().expect("a name").to_owned();
    for path in [
        "/proc/self/mem",
        "/proc/self/exe",
        "/sys/kernel/notes",
        &link,
    ] {
        let error = content(&root, path).expect_err(path);
        let ForeignError::FileSystem { kind, .. } = &error else {
            panic!("{path}: {error}");
        };
        assert!(["proc", "sysfs"].contains(&kind.as_str()), "{path}: {kind}");
    }
    // Where /dev is no file system of its own, it has devices all the same.
    for path in ["/dev/ptmx", "/dev/null", "/dev/pts/ptmx"] {
        let error = content(&root, path).expect_err(path);
        let is_refused = matches!(
            error,
            ForeignError::FileSystem { .. } | ForeignError::NoFile { .. }
        );
        assert!(is_refused, "{path}: {error}");
    }
}

/// Check that a file stays the one that was found, whatever takes its name.
#[test]
fn files_stay_what_they_are() {
    let jail = tempfile::tempdir().expect("a folder");
    let path = jail.path().join("file");
    fs::write(&path, "first").expect("write");
    let root = root_at(jail.path());
    let found = root
        .file(Path::new("/file"), Purpose::Code)
        .expect("a file");
    fs::remove_file(&path).expect("remove");
    nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a FIFO");
    let mut text = String::new();
    let mut file = found.open().expect("the file");
    file.read_to_string(&mut text).expect("text");
    assert_eq!(text, "first");
}

/// Check that the root of another process is its own, that it outlives the process, and that what lies outside cannot be named in it.
#[test]
fn roots_of_processes() {
    let jail = tempfile::tempdir().expect("a folder");
    fs::write(jail.path().join("file"), "inside").expect("write");
    let mut child = std::process::Command::new("sleep")
        .arg("100")
        .spawn()
        .expect("a process");
    let root = Root::of(child.id()).expect("its root");
    let ours = Root::ours().expect("a root");
    assert!(root.is(&ours));
    child.kill().expect("kill");
    child.wait().expect("wait");
    let path = jail.path().join("file");
    let path = path.to_str().expect("a name");
    assert_eq!(content(&root, path).expect("a file"), "inside");
    assert!(Root::of(child.id()).is_err());
}

/// Check that a file system which a process serves that never answers is not asked for anything when debug files are looked for, nor
/// for code where somebody else serves it, or for somebody who may not wait, who is told.
#[test]
fn nobody_is_waited_for() {
    let jail = tempfile::tempdir().expect("a folder");
    let folder = jail.path().join("served");
    fs::create_dir(&folder).expect("create");
    symlink("served/file", jail.path().join("link")).expect("link");
    let root = root_at(jail.path());
    let another = nix::unistd::geteuid().as_raw() + 77;
    for (user, purpose) in [
        (0, Purpose::Debug),
        (another, Purpose::Code),
        (0, Purpose::Promptly),
        (another, Purpose::Promptly),
    ] {
        let served = match ServedByNobody::mount(&folder, user) {
            Ok(served) => served,
            Err(error) => {
                println!("FUSE cannot be mounted here: {error}");
                return;
            }
        };
        for path in ["served/file", "served", "link", "served/../link"] {
            let error = root.file(Path::new(path), purpose).expect_err(path);
            match &error {
                ForeignError::FileSystem { kind, .. } => assert_eq!(kind, "fuse", "{path}"),
                ForeignError::Served { .. } => assert!(error.served().is_some(), "{path}"),
                _ => panic!("{path}: {error}"),
            }
            let may_others = (user, purpose) == (0, Purpose::Promptly);
            assert_eq!(error.served().is_some(), may_others, "{path}");
        }
        // The kernel's own greeting only.
        assert_eq!(served.requests(), [ServedByNobody::GREETING]);
    }
}

/// Check that a file that another process holds a lease on is not waited for.
#[test]
fn leases_are_not_waited_for() {
    let jail = tempfile::tempdir().expect("a folder");
    let path = jail.path().join("file");
    fs::write(&path, "text").expect("write");
    let source = format!(
        "#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         int main() {{ signal(SIGIO, SIG_IGN); int fd = open(\"{}\", O_RDWR);\n\
           puts(fcntl(fd, F_SETLEASE, F_WRLCK) ? \"refused\" : \"held\"); fflush(stdout); pause(); }}",
        path.display()
    );
    let holder = Child::run(&source, &["-D_GNU_SOURCE"]);
    assert_eq!(holder.read_line().trim(), "held");
    let root = root_at(jail.path());
    assert_eq!(errno(&root, "file"), libc::EWOULDBLOCK);
}
