//! Maps as the kernel prints them, those of real processes, and any text.

use proptest::prelude::*;

use super::*;
use crate::tracee::testing::Child;

fn parse(text: &[u8]) -> Result<Maps, TargetError> {
    Maps::parse(Pid::from_raw(1), text)
}

/// Check all forms of names that the kernel prints.
#[test]
fn names() {
    let maps = parse(
        b"00400000-00401000 r--p 00000000 fd:01 123                                /bin/a b\n\
          00401000-00402000 r-xp 00001000 fd:01 123                                /bin/a b (deleted)\n\
          00402000-00403000 rw-s 00000000 00:01 7                          /memfd:x\\012y (deleted)\n\
          00403000-00404000 ---p 00000000 00:00 0 \n\
          00404000-00405000 rw-p 00000000 00:00 0                          [heap]\n\
          00405000-00406000 rw-p 00000000 00:00 0                          [anon:glibc: malloc]\n\
          00406000-00407000 rw-p 00000000 00:00 0\n\
          7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]\n\
          ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n",
    )
    .unwrap();
    let names: Vec<_> = maps.iter().map(|m| m.name.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "/bin/a b",
            "/bin/a b (deleted)",
            "/memfd:x\ny (deleted)",
            "",
            "[heap]",
            "[anon:glibc: malloc]",
            "",
            "[stack]",
            "[vsyscall]"
        ]
    );
    let all = maps.all();
    assert_eq!(all[0].perms.to_string(), "r--p");
    assert_eq!(all[1].perms.to_string(), "r-xp");
    assert_eq!(all[2].perms.to_string(), "rw-s");
    assert_eq!(all[3].perms.to_string(), "---p");
    assert_eq!(all[1].offset, FileOffset(0x1000));
    assert_eq!(
        (all[1].dev, all[1].inode),
        (nix::sys::stat::makedev(0xfd, 1), 123)
    );
    assert_eq!(all[0].deleted_name(), None);
    assert_eq!(all[1].deleted_name(), Some(Path::new("/bin/a b")));
    let anonymous: Vec<_> = maps.iter().map(Mapping::is_anonymous).collect();
    assert_eq!(
        anonymous,
        [false, false, false, true, true, true, true, true, false]
    );
    assert!(all[2].is_file() && !all[3].is_file() && !all[7].is_file());
    assert_eq!(
        maps.find(RuntimeAddr(0x401fff)).unwrap().start,
        RuntimeAddr(0x401000)
    );
    assert_eq!(maps.find(RuntimeAddr(0x407000)), None);
    assert_eq!(maps.find(RuntimeAddr(0)), None);
}

/// Check that a map that changed while it was read comes out without overlaps.
#[test]
fn overlapping_lines() {
    let maps = parse(
        b"1000-3000 r--p 00000000 00:00 0\n\
          2000-4000 rw-p 00000000 00:00 0\n\
          2000-3000 rw-p 00000000 00:00 0\n\
          5000-6000 rw-p 00000000 00:00 0\n",
    )
    .unwrap();
    let ranges: Vec<_> = maps.iter().map(Mapping::range).collect();
    assert_eq!(ranges, [0x1000..0x2000, 0x2000..0x4000, 0x5000..0x6000]);
}

/// Check that what is kept of a map is bounded: names are kept once, and not beyond a number of bytes; mappings of code are kept although
/// there are too many others before them.
#[test]
fn vast_maps() {
    let line = |number: usize, perms: &str, name: &str| {
        let start = 0x1000 * (number + 1);
        format!(
            "{start:x}-{:x} {perms} 00000000 fd:01 {number} {name}\n",
            start + 0x1000
        )
    };
    let long = "/x".repeat(2000);
    let many = (0..20_000).map(|number| line(number, "r-xp", &long));
    let maps = parse(many.collect::<String>().as_bytes()).unwrap();
    assert_eq!((maps.all().len(), maps.left_out()), (20_000, 0));
    let first = &maps.all()[0].name;
    assert!(maps.iter().all(|mapping| Arc::ptr_eq(&mapping.name, first)));

    let names = (0..3_000).map(|number| line(number, "r--p", &format!("{long}/{number}")));
    let maps = parse(names.collect::<String>().as_bytes()).unwrap();
    let different: HashSet<_> = maps.iter().map(|mapping| &mapping.name).collect();
    let bytes: usize = different.iter().map(|name| name.len()).sum();
    assert!(bytes <= NAME_BYTES + NAMELESS.len(), "{bytes}");
    let last = maps.all().last().unwrap();
    assert_eq!((&*last.name, last.is_file()), (OsStr::new(NAMELESS), true));

    let mut text: String = (0..MAPPINGS + 7)
        .map(|number| line(number, "rw-p", ""))
        .collect();
    text += &line(MAPPINGS + 7, "r-xp", "/lib/code");
    let maps = parse(text.as_bytes()).unwrap();
    assert_eq!((maps.all().len(), maps.left_out()), (MAPPINGS + 1, 7));
    assert_eq!(*maps.all().last().unwrap().name, *OsStr::new("/lib/code"));
}

/// Check that a line that is not one is an error that shows it.
#[test]
fn malformed_lines() {
    for line in [
        "x",
        "1000-",
        "2000-1000 r--p 0 0:0 0",
        "1000-2000 r- 0 0:0 0",
        "1-2 r--p 0 0 0",
    ] {
        let error = parse(line.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(line), "{error}");
    }
}

proptest! {
    /// Check that no text makes the parser panic, and that what it gives is in order.
    #[test]
    fn any_text(text in "([0-9a-f]{0,16}[- :rwxps\n/\\\\]{0,3}){0,40}") {
        if let Ok(maps) = parse(text.as_bytes()) {
            for pair in maps.all().windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
        }
    }
}

/// Check a real process: its program, its stack, and a map that is the same when read twice.
#[test]
fn live_process() {
    let child = Child::run(
        "#include <stdio.h>\n#include <unistd.h>\n\
         int main() { puts(\"ready\"); fflush(stdout); pause(); }",
        &[],
    );
    child.wait_for_line("ready");
    let maps = Maps::read(child.pid()).unwrap();
    assert_eq!(maps, Maps::read(child.pid()).unwrap());
    let program = maps
        .iter()
        .find(|m| m.perms.exec && *m.name == *child.exe().as_os_str())
        .unwrap();
    assert!(program.is_file());
    assert!(maps.iter().any(Mapping::is_main_stack));
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
    let maps = Maps::read(child.pid()).unwrap();
    assert!(maps.iter().any(|m| *m.name == *child.exe().as_os_str()));
}

/// Check that processes that are gone, or zombies, are told apart from failures.
#[test]
fn vanished_process() {
    let mut child = Child::run("int main() { return 0; }", &[]);
    child.wait_for_state('Z');
    assert!(Maps::read(child.pid()).unwrap_err().is_vanished());
    child.reap();
    assert!(Maps::read(child.pid()).unwrap_err().is_vanished());
}
