//! Modules of real processes: deleted and replaced files, libraries that come and go, other
//! mount namespaces, every way to link a program.

use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use object::{Object, ObjectSymbol};

use super::{here::Here, *};
use crate::addr::LinkAddr;
use crate::tracee::testing::{Child, compile};

const PAUSE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main() { printf(\"%p\\n\", (void *)main); fflush(stdout); pause(); }";

fn address(line: &str) -> RuntimeAddr {
    RuntimeAddr(u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).unwrap())
}

/// The link address of a symbol, read independently of [`Image`].
fn symbol(image: &Image, name: &str) -> LinkAddr {
    let file = object::File::parse(image.data()).unwrap();
    let symbol = file
        .symbols()
        .find(|symbol| symbol.name() == Ok(name))
        .unwrap();
    LinkAddr(symbol.address())
}

fn read(mut file: std::fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    bytes
}

/// Check the load bias against the address of `main` that the program itself prints.
fn check_program(child: &Child) -> Arc<Module> {
    let main = address(&child.read_line());
    let modules = Modules::scan(child.pid()).unwrap();
    let program = modules.program().unwrap();
    assert!(Arc::ptr_eq(program, modules.find(main).unwrap()));
    assert!(program.contains_code(main));
    assert_eq!(
        program.runtime_address(symbol(&program.image, "main")),
        main
    );
    assert_eq!(program.link_address(main), symbol(&program.image, "main"));
    assert!(
        modules.unreadable().is_empty(),
        "{:?}",
        modules.unreadable()
    );
    program.clone()
}

/// Check programs linked in every way: position-independent or not, static, segments that
/// share pages of the file, large alignment.
#[test]
fn ways_to_link() {
    for flags in [
        &["-pie", "-fPIE"][..],
        &["-no-pie", "-fno-pie"],
        &["-static"],
        &["-static-pie", "-fPIE"],
        &["-fuse-ld=lld-22"],
        &["-fuse-ld=lld-22", "-Wl,--no-rosegment"],
        &["-fuse-ld=lld-22", "-Wl,-z,separate-code"],
        &["-Wl,-z,noseparate-code"],
        &["-Wl,-z,max-page-size=0x200000"],
        &["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-static"],
    ] {
        let child = Child::run(PAUSE, flags);
        let program = check_program(&child);
        assert_eq!(program.path, child.exe(), "{flags:?}");
        assert!(!program.deleted);
        if !flags.contains(&"-fPIE") && flags.contains(&"-static") {
            assert_eq!(program.bias, 0);
        }
    }
}

/// Check that a module covers its variables: data, `.bss`, and read-only data.
#[test]
fn covers_data() {
    let child = Child::run(
        "#include <stdio.h>\n#include <unistd.h>\n\
         const int constant[4] = {1}; int data = 1; char bss[100000];\n\
         int main() { printf(\"%p\\n%p\\n%p\\n\", (void *)constant, (void *)&data,\n\
           (void *)(bss + sizeof bss - 1)); fflush(stdout); pause(); }",
        &[],
    );
    let addresses = [(); 3].map(|()| address(&child.read_line()));
    let modules = Modules::scan(child.pid()).unwrap();
    for address in addresses {
        assert_eq!(modules.find(address).unwrap().path, child.exe());
        assert!(!modules.find(address).unwrap().contains_code(address));
    }
    let paths: Vec<_> = modules
        .all()
        .iter()
        .map(|m| m.path.to_string_lossy())
        .collect();
    assert!(
        paths.iter().any(|path| path.contains("libc.so")),
        "{paths:?}"
    );
    assert!(
        paths.iter().any(|path| path.contains("ld-linux")),
        "{paths:?}"
    );
    assert!(paths.iter().any(|path| path == "[vdso]"), "{paths:?}");
    assert!(
        modules.all().is_sorted_by(|a, b| a.end <= b.start),
        "{paths:?}"
    );
    assert_eq!(
        modules.find(RuntimeAddr(1)).map(|module| &module.path),
        None
    );
}

/// Check that a program deleted, and one replaced by another file, is still read as it was.
#[test]
fn deleted_and_replaced_files() {
    let child = Child::run(PAUSE, &[]);
    let content = std::fs::read(child.exe()).unwrap();
    std::fs::remove_file(child.exe()).unwrap();
    let main = child.read_line();
    let modules = Modules::scan(child.pid()).unwrap();
    let program = modules.program().unwrap();
    assert!(
        program.deleted && program.path == child.exe(),
        "{program:?}"
    );
    assert_eq!(program.image.data(), content);
    assert_eq!(
        program.runtime_address(symbol(&program.image, "main")),
        address(&main)
    );
    assert_eq!(read(program.via.open(Purpose::Code).unwrap()), content);

    std::fs::write(child.exe(), b"something else").unwrap();
    let modules = Modules::scan(child.pid()).unwrap();
    assert!(modules.program().unwrap().deleted);
    assert_eq!(modules.program().unwrap().image.data(), content);
}

/// Check files whose names are hard to print: blanks, line feeds, ` (deleted)`, escapes, bytes
/// that are no UTF-8.
#[test]
fn strange_names() {
    let names: [&[u8]; 5] = [
        b"two words",
        b"line\nfeed",
        b"x (deleted)",
        b"back\\012slash",
        b"\xff\xfe",
    ];
    for name in names {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), "program", PAUSE, &[]);
        let strange = dir.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::rename(program, &strange).unwrap();
        let child = Child::start(dir, Command::new(&strange));
        let program = check_program(&child);
        if name == b"back\\012slash" {
            // The kernel shows this name as it shows a line feed; the file is found all the same.
            assert_eq!(program.image.data(), std::fs::read(&strange).unwrap());
        } else {
            assert_eq!(program.path, strange.canonicalize().unwrap());
            assert!(!program.deleted);
        }
    }
}

/// Loads the library named in its input, then unloads it on the next line, and so on.
const LOADER: &str = "#include <dlfcn.h>\n#include <stdio.h>\n#include <string.h>\n\
    int main() { char line[4096];\n\
      while (puts(\"ready\"), fflush(stdout), fgets(line, sizeof line, stdin)) {\n\
        line[strcspn(line, \"\\n\")] = 0;\n\
        void *lib = dlopen(line, RTLD_NOW);\n\
        printf(\"%p\\n\", lib ? dlsym(lib, \"function\") : 0); fflush(stdout);\n\
        fgets(line, sizeof line, stdin); if (lib) dlclose(lib); } }";

/// Check that loading and unloading libraries is noticed, also one that is deleted or rebuilt
/// under the same name, and that nothing is noticed where nothing changed.
#[test]
fn libraries_come_and_go() {
    let mut child = Child::run(LOADER, &[]);
    child.wait_for_line("ready");
    let mut modules = Modules::scan(child.pid()).unwrap();
    let images = modules.all().len();
    assert!(modules.rescan().unwrap().is_empty());
    for round in 0..3 {
        let source = format!("int function(void) {{ return {round}; }}");
        let library = compile(child.dir(), "lib.so", &source, &["-shared", "-fPIC"]);
        let content = std::fs::read(&library).unwrap();
        child.send_line(library.to_str().unwrap());
        let function = address(&child.read_line());
        if round == 1 {
            std::fs::remove_file(&library).unwrap();
        }
        let changes = modules.rescan().unwrap();
        assert_eq!(
            (changes.added.len(), changes.removed.len()),
            (1, 0),
            "{changes:?}"
        );
        let added = &changes.added[0];
        assert!(added.contains_code(function));
        assert_eq!(added.path.file_name().unwrap(), "lib.so");
        assert_eq!(added.deleted, round == 1);
        assert_eq!(added.image.data(), content);
        assert_eq!(
            added.runtime_address(symbol(&added.image, "function")),
            function
        );
        assert!(Arc::ptr_eq(modules.find(function).unwrap(), added));

        child.send_line("");
        child.wait_for_line("ready");
        let changes = modules.rescan().unwrap();
        assert_eq!(
            (changes.added.len(), changes.removed.len()),
            (0, 1),
            "{changes:?}"
        );
        assert_eq!(changes.removed[0].image.data(), content);
        assert_eq!(modules.find(function).map(|module| &module.path), None);
        let _ = std::fs::remove_file(&library);
    }
    assert_eq!(modules.all().len(), images);
}

/// Check that a library deleted after it was found is handed out anew, with a name by which it
/// can still be opened, and that unloading takes away that object.
#[test]
fn deleted_while_loaded() {
    let mut child = Child::run(LOADER, &[]);
    child.wait_for_line("ready");
    let library = compile(
        child.dir(),
        "lib.so",
        "int function(void) { return 1; }",
        &["-shared", "-fPIC"],
    );
    let content = std::fs::read(&library).unwrap();
    child.send_line(library.to_str().unwrap());
    child.read_line();
    let mut modules = Modules::scan(child.pid()).unwrap();
    let before = modules.all().to_vec();
    std::fs::remove_file(&library).unwrap();
    let changes = modules.rescan().unwrap();
    assert_eq!(
        (changes.added.len(), changes.removed.len()),
        (1, 1),
        "{changes:?}"
    );
    let (old, new) = (&changes.removed[0], &changes.added[0]);
    assert!(before.iter().any(|module| Arc::ptr_eq(module, old)));
    assert!(new.deleted && !old.deleted && new.path == old.path);
    assert_eq!(new.image.data().as_ptr(), old.image.data().as_ptr());
    assert_eq!(read(new.via.open(Purpose::Code).unwrap()), content);

    child.send_line("");
    child.wait_for_line("ready");
    let changes = modules.rescan().unwrap();
    assert_eq!(
        (changes.added.len(), changes.removed.len()),
        (0, 1),
        "{changes:?}"
    );
    assert!(Arc::ptr_eq(&changes.removed[0], new));
}

/// Check that growing memory changes the map but no module, each of which stays the same object.
#[test]
fn unrelated_changes() {
    let mut child = Child::run(
        "#include <stdio.h>\n#include <sys/mman.h>\n\
         int main() { char c; while (puts(\"ready\"), fflush(stdout), c = getchar(), 1)\n\
           mmap(0, 1 << 20, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }",
        &[],
    );
    child.wait_for_line("ready");
    let mut modules = Modules::scan(child.pid()).unwrap();
    let before = modules.clone();
    child.send_line("");
    child.wait_for_line("ready");
    assert!(modules.rescan().unwrap().is_empty());
    assert_ne!(modules.maps(), before.maps());
    for (old, new) in before.all().iter().zip(modules.all()) {
        assert!(Arc::ptr_eq(old, new));
    }
}

/// Check that a program which replaces itself by another one has its modules replaced.
#[test]
fn exec_replaces_modules() {
    let dir = tempfile::tempdir().unwrap();
    let second = compile(dir.path(), "second", PAUSE, &["-static"]);
    let first = format!(
        "#include <stdio.h>\n#include <unistd.h>\n\
         int main() {{ puts(\"ready\"); fflush(stdout); getchar();\n\
           execl(\"{}\", \"second\", (char *)0); }}",
        second.display()
    );
    let first = compile(dir.path(), "program", &first, &[]);
    let mut child = Child::start(dir, Command::new(first));
    child.wait_for_line("ready");
    let mut modules = Modules::scan(child.pid()).unwrap();
    child.send_line("");
    child.read_line();
    let changes = modules.rescan().unwrap();
    assert!(
        changes
            .removed
            .iter()
            .any(|module| module.path == child.exe()),
        "{changes:?}"
    );
    assert_eq!(
        modules.program().unwrap().path.file_name().unwrap(),
        "second"
    );
    assert!(
        !modules
            .all()
            .iter()
            .any(|m| m.path.to_string_lossy().contains("libc.so"))
    );
}

/// Check that a forked child's modules share its parent's images but are opened through the
/// child, and that they outlive the parent.
#[test]
fn forked_child() {
    let child = Child::run(
        "#include <stdio.h>\n#include <unistd.h>\n\
         int main() { int pid = fork(); if (pid) { printf(\"%d\\n\", pid); fflush(stdout); }\n\
           pause(); }",
        &[],
    );
    let fork = Pid::from_raw(child.read_line().trim().parse().unwrap());
    let parents = Modules::scan(child.pid()).unwrap();
    let childs = Modules::scan_like(fork, parents.all());
    nix::sys::signal::kill(fork, nix::sys::signal::Signal::SIGKILL).unwrap();
    let childs = childs.unwrap();
    assert_eq!(childs.all().len(), parents.all().len());
    for (parent, child) in parents.all().iter().zip(childs.all()) {
        assert!(parent.is_same(child), "{parent:?} {child:?}");
        assert_eq!(parent.image.data().as_ptr(), child.image.data().as_ptr());
    }
    let program = childs.program().unwrap_or(&childs.all()[0]);
    assert!(
        matches!(&program.via, Via::Root { id, .. } if id.cast_signed() == fork.as_raw()),
        "{program:?}"
    );
}

/// Check a program whose file exists only in its own mount namespace, where its name means
/// another file outside.
#[test]
fn other_mount_namespace() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "program", PAUSE, &[]);
    let private = dir.path().join("private");
    std::fs::create_dir(&private).unwrap();
    std::fs::write(private.join("program"), "another file of the same name").unwrap();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !nix::unistd::Uid::effective().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["sh", "-ec"]).arg(
        "cd \"$0\"; mount -t tmpfs none private; cp program private; exec \"$0/private/program\"",
    );
    command.arg(dir.path());
    let content = std::fs::read(dir.path().join("program")).unwrap();
    let child = Child::start(dir, command);
    let program = check_program(&child);
    assert!(program.path.ends_with("private/program"), "{program:?}");
    assert_eq!(program.image.data(), content);
    assert!(!program.deleted);
    assert_eq!(read(program.via.open(Purpose::Code).unwrap()), content);
}

/// A jail with a program in it, and the command that starts it there.
fn jail(source: &str) -> (tempfile::TempDir, std::path::PathBuf, Command) {
    let dir = tempfile::tempdir().unwrap();
    let jail = dir.path().canonicalize().unwrap().join("jail");
    std::fs::create_dir(&jail).unwrap();
    let program = compile(&jail, "program", source, &["-static"]);
    let mut command = Command::new("unshare");
    if !nix::unistd::Uid::effective().is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--root").arg(&jail).arg("/program");
    (dir, program, command)
}

/// Check a program in a root of its own: its file is found there, although the kernel shows its name outside.
#[test]
fn jailed_program() {
    let (dir, program, command) = jail(PAUSE);
    let content = std::fs::read(&program).unwrap();
    let child = Child::start(dir, command);
    let module = check_program(&child);
    assert_eq!(module.path, program);
    assert!(!module.deleted);
    let path = module.via.path_in_root();
    assert_eq!(path, Some(Path::new("program")), "{:?}", module.via);
    assert_eq!(read(module.via.open(Purpose::Code).unwrap()), content);
}

/// Check a program that gives up the root in which its file is: the file is found all the same, and only as the very one that is mapped.
#[test]
fn program_outside_of_its_root() {
    let source = PAUSE.replace(
        "{ printf",
        "{ mkdir(\"/cell\", 0700); chroot(\"/cell\"); printf",
    );
    let source = source.replace("<unistd.h>", "<unistd.h>\n#include <sys/stat.h>");
    let (dir, program, command) = jail(&source);
    let content = std::fs::read(&program).unwrap();
    let child = Child::start(dir, command);
    let module = check_program(&child);
    assert_eq!(module.path, program);
    assert!(
        matches!(module.via, Via::Outside { .. }),
        "{:?}",
        module.via
    );
    assert_eq!(read(module.via.open(Purpose::Code).unwrap()), content);
    assert!(module.via.root().unwrap().is_none());
    std::fs::copy(&program, program.with_extension("new")).unwrap();
    std::fs::rename(program.with_extension("new"), &program).unwrap();
    assert!(module.via.open(Purpose::Code).is_err());
}

/// Check that what has taken the name of a mapped file since is neither opened nor waited for: a FIFO, a socket, a folder, an interface of the
/// kernel.
#[test]
fn names_that_mean_something_else_now() {
    let takes: [fn(&Path); 4] = [
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        |path| std::fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/proc/self/mem", path).unwrap(),
    ];
    for take in takes {
        let child = Child::run(PAUSE, &[]);
        let content = std::fs::read(child.exe()).unwrap();
        std::fs::remove_file(child.exe()).unwrap();
        take(&child.exe());
        let main = address(&child.read_line());
        let modules = Modules::scan(child.pid()).unwrap();
        let program = modules.find(main).unwrap();
        assert!(matches!(program.via, Via::Mapping { .. }), "{program:?}");
        assert_eq!(program.image.data(), content);
    }
}

/// Check code that is mapped from files which are no ELF files, or not loaded as such: counted,
/// not made modules, and not opened again at each look.
#[test]
fn code_that_is_no_module() {
    let mut child = Child::run(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
         int main(int c, char **v) {\n\
           int jit = memfd_create(\"jit\", 0); ftruncate(jit, 8192);\n\
           mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, jit, 0);\n\
           mmap(0, 4096, PROT_READ, MAP_PRIVATE, open(v[0], O_RDONLY), 0);\n\
           while (puts(\"ready\"), fflush(stdout), getchar(), 1)\n\
             mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }",
        &["-D_GNU_SOURCE"],
    );
    child.wait_for_line("ready");
    let mut modules = Modules::scan(child.pid()).unwrap();
    assert_eq!(modules.unreadable().len(), 1);
    let reason = modules.unreadable()[0].reason.clone();
    assert!(reason.to_string().contains("not an ELF file"), "{reason}");
    assert_eq!(
        modules
            .all()
            .iter()
            .filter(|module| module.path == child.exe())
            .count(),
        1
    );
    child.send_line("");
    child.wait_for_line("ready");
    assert!(modules.rescan().unwrap().is_empty());
    assert!(Arc::ptr_eq(&reason, &modules.unreadable()[0].reason));
}

/// Check that a library loaded twice by `dlmopen` is two modules.
#[test]
fn loaded_twice() {
    let dir = tempfile::tempdir().unwrap();
    let library = compile(
        dir.path(),
        "lib.so",
        "int function(void) { return 1; }",
        &["-shared", "-fPIC"],
    );
    let source = format!(
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         int main() {{ for (int i = 0; i < 2; i++) {{\n\
           void *lib = dlmopen(LM_ID_NEWLM, \"{}\", RTLD_NOW);\n\
           printf(\"%p\\n\", dlsym(lib, \"function\")); }} fflush(stdout); pause(); }}",
        library.display()
    );
    let program = compile(dir.path(), "program", &source, &["-D_GNU_SOURCE"]);
    let child = Child::start(dir, Command::new(program));
    let functions = [(); 2].map(|()| address(&child.read_line()));
    let modules = Modules::scan(child.pid()).unwrap();
    assert_ne!(functions[0], functions[1]);
    for function in functions {
        let module = modules.find(function).unwrap();
        assert_eq!(
            module.runtime_address(symbol(&module.image, "function")),
            function
        );
    }
}

/// Check a process whose main thread has exited while another runs on.
#[test]
fn leader_gone() {
    let child = Child::run(
        "#include <pthread.h>\n#include <unistd.h>\n\
         void *other(void *p) { pause(); return 0; }\n\
         int main() { pthread_t t; pthread_create(&t, 0, other, 0); pthread_exit(0); }",
        &["-pthread"],
    );
    child.wait_for_state('Z');
    std::fs::remove_file(child.exe()).unwrap();
    let modules = Modules::scan(child.pid()).unwrap();
    assert_eq!(modules.program().unwrap().path, child.exe());
    assert!(
        modules.unreadable().is_empty(),
        "{:?}",
        modules.unreadable()
    );
}

/// Check that a process that ends between two looks is told apart from failures.
#[test]
fn vanished_process() {
    let mut child = Child::run(
        "#include <stdio.h>\nint main() { puts(\"ready\"); fflush(stdout); getchar(); }",
        &[],
    );
    child.wait_for_line("ready");
    let mut modules = Modules::scan(child.pid()).unwrap();
    child.send_line("");
    child.reap();
    assert!(modules.rescan().unwrap_err().is_vanished());
    assert!(!modules.all().is_empty());
    assert_eq!(modules.program().map(|module| &module.path), None);
    assert!(Modules::scan(child.pid()).unwrap_err().is_vanished());
}

/// Reads files, or says why not.
struct Asked {
    refuses: Option<fn() -> ModuleError>,
    asked: usize,
}

impl Reads<Image> for Asked {
    fn is_past(&mut self) -> bool {
        let reason = self.refuses.map(|refuses| refuses());
        matches!(reason, Some(ModuleError::Unasked))
    }

    fn may_read(&mut self, _: &Path, _: FileIdentity) -> Result<(), ModuleError> {
        self.asked += 1;
        self.refuses.map_or(Ok(()), |refuses| Err(refuses()))
    }

    fn file(&mut self, file: OpenFile<'_>) -> Result<Image, ModuleError> {
        Here.file(file)
    }

    fn bytes(&mut self, bytes: Vec<u8>, name: &Path) -> Result<Image, ModuleError> {
        Here.bytes(bytes, name)
    }
}

/// Check that files that cannot be read for now are tried again after a pause that becomes longer, and told of once; those that nobody was asked
/// about are not opened, and looked at again at once.
#[test]
fn files_that_wait_to_be_read() {
    let child = Child::run(PAUSE, &[]);
    child.read_line();
    let mut reads = Asked {
        refuses: Some(|| ModuleError::Unasked),
        asked: 0,
    };
    let mut modules = Modules::scan_with(child.pid(), Vec::new(), &mut reads).unwrap();
    let count = modules.unreadable().len();
    assert!(count > 0 && reads.asked == 0 && modules.is_incomplete());
    reads.refuses = Some(|| ModuleError::NotYet("later".to_owned()));
    let changes = modules.rescan_with(&mut reads).unwrap();
    assert_eq!((changes.unreadable.len(), reads.asked), (count, count));
    let mut pauses = vec![modules.retry.pause().unwrap()];
    for round in 2..5 {
        assert!(!modules.is_incomplete());
        assert!(modules.rescan_with(&mut reads).unwrap().is_empty());
        assert_eq!(reads.asked, (round - 1) * count);
        modules.retry.hurry();
        assert!(modules.is_incomplete());
        let changes = modules.rescan_with(&mut reads).unwrap();
        assert!(changes.is_empty() && changes.unreadable.is_empty());
        assert_eq!(reads.asked, round * count);
        pauses.push(modules.retry.pause().unwrap());
    }
    assert!(pauses.is_sorted() && pauses[0] < pauses[3], "{pauses:?}");
    modules.retry.hurry();
    reads.refuses = None;
    let changes = modules.rescan_with(&mut reads).unwrap();
    assert_eq!(changes.added.len(), count);
    assert!(modules.unreadable().is_empty() && modules.retry.pause().is_none());
}

/// Check that of a process with very many files so many are read and no more, whether or not they are modules, and that those that are known stay.
#[test]
fn very_many_files_that_are_no_modules() {
    let child = Child::run(
        "#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
         int main() { for (int i = 0; i < 1100; i++) {\n\
             int file = memfd_create(\"code\", 0); if (ftruncate(file, 4096)) return 1;\n\
             mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0); close(file); }\n\
           puts(\"ready\"); fflush(stdout); pause(); }",
        &["-D_GNU_SOURCE"],
    );
    child.wait_for_line("ready");
    let mut reads = Asked {
        refuses: None,
        asked: 0,
    };
    let mut modules = Modules::scan_with(child.pid(), Vec::new(), &mut reads).unwrap();
    assert!(reads.asked <= MODULES, "{}", reads.asked);
    let too_many = |code: &Unreadable| matches!(*code.reason, ModuleError::TooMany);
    assert!(modules.unreadable().iter().any(too_many));
    assert!(modules.rescan_with(&mut reads).unwrap().is_empty());
    assert!(reads.asked <= MODULES, "{}", reads.asked);
}
