//! Files that the user names, or a file that he has named: on the command line, or as a member of a thin archive.
//!
//! What has a name may be a terminal, which would become that of a daemon that has none (open(2), `O_NOCTTY`; who has it is ended when it hangs up), a device that
//! does something when it is opened, or a FIFO, which is waited for until somebody writes. So a name is looked up by a descriptor that only marks the place (`O_PATH`),
//! and what stands there is opened by that descriptor, if it is a regular file: that very one, without waiting for whoever holds a lease on it (`O_NONBLOCK`).
//! Names that watched programs choose are [`foreign`](super::foreign).

mod readers;
mod writers;

use std::{
    fs::{File, FileType},
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::{
            ffi::OsStrExt as _,
            fs::{FileTypeExt as _, MetadataExt as _},
        },
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::stat::Mode,
};

pub use readers::ReadersError;
pub use writers::WritersError;

/// The device that is `/dev/null`, by `Documentation/admin-guide/devices.txt`.
const NULL: (u32, u32) = (1, 3);
/// The longest text that is read. Lists of suppressions have some kilobytes.
const LONGEST_TEXT: u64 = 16 << 20;

/// What has a name, not opened yet.
#[derive(Debug)]
pub struct Named {
    place: File,
    kind: FileType,
    device: u64,
}

impl Named {
    /// Looks up a name, links included, and opens nothing.
    ///
    /// # Errors
    /// Fails where open(2) does.
    pub fn find(path: &Path) -> io::Result<Self> {
        let place = File::from(open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?);
        let about = place.metadata()?;
        Ok(Self {
            kind: about.file_type(),
            device: about.rdev(),
            place,
        })
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> FileType {
        self.kind
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Fails where open(2) does, and for anything else.
    pub fn open(&self) -> io::Result<File> {
        if self.kind.is_file() {
            self.open_again()
        } else {
            let (what, mend) = no_file(self.kind);
            Err(io::Error::other(format!(
                "it is {what}, not a file: {mend}"
            )))
        }
    }

    fn open_again(&self) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        // Of the thread: it may have descriptors of its own.
        let own = format!("/proc/thread-self/fd/{}", self.place.as_raw_fd());
        Ok(open(own.as_str(), flags, Mode::empty())?.into())
    }

    /// Reads a text of so many bytes at most, as [`read_text`] does, but of no pipe.
    ///
    /// # Errors
    /// Fails where open(2) or read(2) does, and for what is no file, no UTF-8, or longer.
    pub fn read_text(&self, longest: u64) -> io::Result<String> {
        if self.is_null() {
            return Ok(String::new());
        }
        text_of(self.open()?, longest)
    }

    fn is_null(&self) -> bool {
        self.kind.is_char_device() && (libc::major(self.device), libc::minor(self.device)) == NULL
    }
}

/// What something is that has a name but no bytes of its own, and what to give instead.
#[must_use]
pub fn no_file(kind: FileType) -> (&'static str, &'static str) {
    let copy = "copy what it gives into a file, and give that";
    match kind {
        kind if kind.is_dir() => ("a directory", "give the files in it: DIR/*"),
        kind if kind.is_fifo() => ("a FIFO", copy),
        kind if kind.is_socket() => ("a socket", copy),
        _ => ("a device", copy),
    }
}

/// Opens a regular file for reading.
///
/// # Errors
/// As [`Named::find`] and [`Named::open`].
pub fn open_file(path: &Path) -> io::Result<File> {
    Named::find(path)?.open()
}

/// Reads a text, of a regular file, or of a pipe that the user has handed over as a descriptor (`<(command)` of shells), who then waits for its end himself. `/dev/null`
/// is empty.
///
/// # Errors
/// As [`open_file`], and for what is no UTF-8 or no text by its length.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_text_within(path, LONGEST_TEXT)
}

/// The same of a text of so many bytes at most.
///
/// # Errors
/// As [`read_text`].
pub fn read_text_within(path: &Path, longest: u64) -> io::Result<String> {
    let named = Named::find(path)?;
    if named.kind.is_fifo() && is_descriptor(path) {
        text_of(Waiting(named.open_again()?), longest)
    } else {
        named.read_text(longest)
    }
}

fn text_of(source: impl io::Read, longest: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        let cause = format!("it has more than {longest} bytes, which is no file of this kind");
        return Err(io::Error::other(cause));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Whether a name is that of an open descriptor of this process.
fn is_descriptor(path: &Path) -> bool {
    let name = path.as_os_str().as_bytes();
    let number = [&b"/dev/fd/"[..], b"/proc/self/fd/"]
        .into_iter()
        .find_map(|folder| name.strip_prefix(folder));
    name == b"/dev/stdin" || number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

/// A pipe that is waited for, although opening it was not.
struct Waiting(File);

impl io::Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut one = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
                    match poll(&mut one, PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        fs,
        io::Write as _,
        os::fd::{FromRawFd as _, OwnedFd},
        path::PathBuf,
        process::{Command, Stdio},
    };

    use nix::unistd::mkfifo;

    use super::*;

    /// A terminal: its two ends, and the name of the one that programs have.
    fn terminal() -> (OwnedFd, PathBuf) {
        // SAFETY: the calls touch no memory but the buffer, and the descriptor is nobody else's.
        unsafe {
            let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
            assert!(master >= 0);
            assert_eq!(libc::grantpt(master) | libc::unlockpt(master), 0);
            let mut name = [0u8; 64];
            assert_eq!(
                libc::ptsname_r(master, name.as_mut_ptr().cast(), name.len()),
                0
            );
            let end = name.iter().position(|&byte| byte == 0).unwrap();
            (
                OwnedFd::from_raw_fd(master),
                OsStr::from_bytes(&name[..end]).into(),
            )
        }
    }

    /// Check that what is no file is not opened, and told with what to give instead; that files and links to them are read.
    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| folder.path().join(name));
        fs::write(&file, "text\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        for path in [&file, &link] {
            assert_eq!(read_text(path).unwrap(), "text\n");
            assert!(open_file(path).unwrap().metadata().unwrap().is_file());
        }
        let (_master, slave) = terminal();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, what) in [
            (folder.path(), "a directory"),
            (&fifo, "a FIFO"),
            (&socket, "a socket"),
            (&slave, "a device"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            for error in [open_file(path).unwrap_err(), read_text(path).unwrap_err()] {
                let error = error.to_string();
                assert!(error.contains(what) && error.contains("give"), "{error}");
            }
        }
        assert_eq!(read_text(Path::new("/dev/null")).unwrap(), "");
        let absent = read_text(&folder.path().join("absent")).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        fs::write(&file, [0xff]).unwrap();
        assert!(read_text(&file).is_err());
        File::create(&file)
            .unwrap()
            .set_len(LONGEST_TEXT + 1)
            .unwrap();
        let long = read_text(&file).unwrap_err().to_string();
        assert!(long.contains("bytes"), "{long}");
    }

    /// Check that a pipe which the user hands over as a descriptor is read to its end, however late its writer comes.
    #[test]
    fn pipes_of_ones_own_are_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_fd().as_raw_fd()));
        let late = std::thread::spawn(move || read_text(&path).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        writer.write_all(b"race:").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        writer.write_all(b"name\n").unwrap();
        drop(writer);
        assert_eq!(late.join().unwrap(), "race:name\n");
    }

    /// Check that a session without a terminal has none after a terminal was named, while opening that name as others do gives it one.
    #[test]
    fn no_terminal_becomes_ours() {
        const CHILD: &str = "GWP_RACE_TEST_TERMINAL";
        /// Whether this session has a terminal: `/dev/tty` is it.
        fn has_terminal() -> bool {
            File::open("/dev/tty").is_ok()
        }
        if let Some(slave) = std::env::var_os(CHILD) {
            let slave = Path::new(&slave);
            nix::unistd::setsid().unwrap();
            assert!(!has_terminal());
            assert!(open_file(slave).is_err() && read_text(slave).is_err());
            let named = Named::find(slave).unwrap().open_again().unwrap();
            assert!(!has_terminal());
            drop(named);
            let _usual = File::open(slave).unwrap();
            assert!(has_terminal(), "this test cannot fail");
            return;
        }
        let (_master, slave) = terminal();
        let name = format!("{}::no_terminal_becomes_ours", module_path!());
        let (_, name) = name.split_once("::").unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, slave)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }
}
