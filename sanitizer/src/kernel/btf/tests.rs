//! Type information of compiled structures, of the running kernel, and damaged.

use std::process::Command;

use super::*;

/// Builds C source with type information and returns its `.BTF` section.
fn compile(source: &str) -> Vec<u8> {
    use object::{Object, ObjectSection};
    let dir = tempfile::tempdir().unwrap();
    let (c, o) = (dir.path().join("t.c"), dir.path().join("t.o"));
    std::fs::write(&c, source).unwrap();
    let status = Command::new("clang-22")
        .args(["-target", "bpf", "-g", "-O2", "-c", "-o"])
        .args([&o, &c])
        .status()
        .unwrap();
    assert!(status.success());
    let bytes = std::fs::read(&o).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.section_by_name(".BTF")
        .unwrap()
        .data()
        .unwrap()
        .to_vec()
}

/// Check that the offsets are those that the compiler itself gives, for nested, unnamed,
/// qualified and bit-field members.
#[test]
fn offsets_agree_with_the_compiler() {
    let data = compile(
        "typedef struct { int a; struct { char pad[3]; union { long deep; int other; }; }; } inner_t;
             struct outer { char c; const volatile inner_t in; unsigned bits : 3; int last; };
             struct k { int (*handler)(struct outer *); };
             struct outer variable; struct k variable2;",
    );
    let btf = Btf::parse(&data).unwrap();
    let outer = btf.structure("outer").unwrap();
    assert_eq!(btf.member(outer, "c").unwrap(), 0);
    assert_eq!(btf.member(outer, "in").unwrap(), 8);
    assert_eq!(btf.member(outer, "in.a").unwrap(), 8);
    assert_eq!(btf.member(outer, "in.deep").unwrap(), 8 + 16);
    assert_eq!(btf.member(outer, "in.other").unwrap(), 8 + 16);
    assert_eq!(btf.member(outer, "last").unwrap(), 36);
    assert_eq!(btf.size(outer).unwrap(), 40);
    assert!(matches!(
        btf.member(outer, "bits"),
        Err(BtfError::NoMember { .. })
    ));
    assert!(matches!(
        btf.member(outer, "c.x"),
        Err(BtfError::NoMember { .. })
    ));
    let error = btf.member(outer, "absent").unwrap_err().to_string();
    assert!(
        error.contains("`struct outer` has no member `absent`"),
        "{error}"
    );
    assert!(matches!(
        btf.structure("absent"),
        Err(BtfError::NoStruct { .. })
    ));
}

/// Check that what only some kernels have may be missing, and nothing else.
#[test]
fn some_members_may_be_missing() {
    let load = |pid: &str, more: &str| {
        let source = format!(
            "struct sigset {{ unsigned long sig[1]; }};
                 struct sigaction {{ void (*sa_handler)(int); }};
                 struct k_sigaction {{ struct sigaction sa; long rest[3]; }};
                 struct signal_struct {{ int sigcnt, live; }};
                 struct sighand_struct {{ int lock; struct k_sigaction action[64]; }};
                 struct task_struct {{ unsigned ptrace; struct sighand_struct *sighand;
                     struct sigset blocked; int {pid}, tgid; struct task_struct *parent;
                     struct task_struct *group_leader; struct pid *thread_pid;
                     struct signal_struct *signal; {more} }};
                 struct upid {{ int nr; void *ns; }};
                 struct pid {{ int count; unsigned level; struct upid numbers[]; }};
                 struct pid v3; struct task_struct variable; struct sighand_struct variable2;
                 struct signal_struct variable3;"
        );
        KernelOffsets::from_btf(&Btf::parse(&compile(&source)).unwrap())
    };
    let least = load("pid", "").unwrap();
    assert_eq!((least.task_parent, least.task_thread_pid), (32, 48));
    assert_eq!((least.sighand_action, least.k_sigaction_size), (8, 32));
    assert_eq!(least.k_sigaction_handler, 0);
    assert_eq!((least.task_fs_base, least.task_run_delay), (None, None));
    let thread = "struct thread_struct { long sp, fsbase; } thread;";
    assert_eq!(load("pid", thread).unwrap().task_fs_base, Some(72));
    let error = load("id", "").unwrap_err().to_string();
    assert!(error.contains("has no member `pid`"), "{error}");
    assert_eq!((least.task_signal, least.signal_live), (56, 4));
}

/// Check the offsets of the running kernel for what must hold in any kernel.
#[test]
fn running_kernel() {
    let offsets = KernelOffsets::load().unwrap();
    let task = [
        offsets.task_ptrace,
        offsets.task_sighand,
        offsets.task_blocked,
        offsets.task_pid,
        offsets.task_tgid,
        offsets.task_parent,
        offsets.task_signal,
    ];
    let mut distinct = task.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), task.len(), "{offsets:?}");
    assert!(
        task.iter().all(|&offset| offset > 0 && offset % 4 == 0),
        "{offsets:?}"
    );
    assert_eq!(offsets.task_tgid, offsets.task_pid + 4);
    assert_eq!(offsets.k_sigaction_handler, 0);
    assert_eq!(offsets.k_sigaction_size, 32);
    for optional in [offsets.task_fs_base, offsets.task_run_delay] {
        assert!(
            optional.is_some_and(|offset| offset % 8 == 0),
            "{offsets:?}"
        );
    }
}

/// Check that a cut or damaged file is an error, never a panic.
#[test]
fn damaged_input_is_an_error() {
    let data = compile("struct s { int a; struct { int b; }; }; struct s variable;");
    for len in 0..data.len() {
        assert!(Btf::parse(&data[..len]).is_err(), "{len}");
    }
    for at in 0..data.len() {
        for value in [0, 1, 4, 0x7f, 0xff] {
            let mut damaged = data.clone();
            damaged[at] = value;
            let Ok(btf) = Btf::parse(&damaged) else {
                continue;
            };
            if let Ok(id) = btf.structure("s") {
                let _ = btf.member(id, "b");
                let _ = btf.size(id);
            }
        }
    }
    let missing = KernelOffsets::from_path(Path::new("/nonexistent/btf")).unwrap_err();
    assert!(
        missing.to_string().contains("CONFIG_DEBUG_INFO_BTF"),
        "{missing}"
    );
}
