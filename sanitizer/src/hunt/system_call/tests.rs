use gwp_race_abi::TrapRegs;
use gwp_race_abi::system_call::moves_data;

use super::*;
use crate::insn::AccessKind;

fn hit(number: u64, arguments: [u64; 6]) -> Hit {
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    Hit {
        generation: 1,
        time_ns: 0,
        tid: 2,
        comm: [0; 16],
        stopping: false,
        in_kernel: true,
        early: false,
        value: 0,
        regs: TrapRegs {
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            orig_rax: number,
            rip: 0x1002,
            ..TrapRegs::default()
        },
        fs_base: 0,
        stack: Vec::new(),
    }
}

/// The code of the hits above, and nothing else.
fn nothing(address: RuntimeAddr, to: &mut [u8]) -> bool {
    let is_code = address.0 == 0x1000 && to.len() == SYSCALL.len();
    if is_code {
        to.copy_from_slice(&SYSCALL);
    }
    is_code
}

/// Memory with these words from an address on.
fn words(start: u64, words: &[u64]) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool {
    let bytes: Vec<u8> = words.iter().copied().flat_map(u64::to_le_bytes).collect();
    move |address, to| {
        if nothing(address, to) {
            return true;
        }
        let Ok(offset) = usize::try_from(address.0.wrapping_sub(start)) else {
            return false;
        };
        let from = bytes.get(offset..).and_then(|rest| rest.get(..to.len()));
        if let Some(from) = from {
            to.copy_from_slice(from);
        }
        from.is_some()
    }
}

/// Check that the gate lets those calls through, and those only, that the table knows.
#[test]
fn the_gate_knows_the_table() {
    let numbers: Vec<u64> = CALLS.iter().map(|call| call.number).collect();
    let let_through: Vec<u64> = (0..1024).filter(|&number| moves_data(number)).collect();
    assert_eq!(numbers, let_through);
    // What the kernel has in that place where a thread came by an exception or an interrupt.
    assert!(!moves_data(u64::MAX));
    // futex, set_robust_list, rseq, set_tid_address
    for shared in [202, 273, 334, 218] {
        assert!(!moves_data(shared));
    }
}

/// Check the numbers and names against the C library's.
#[test]
fn numbers_are_those_of_the_kernel() {
    for (name, number) in [
        ("read", libc::SYS_read),
        ("recvmsg", libc::SYS_recvmsg),
        ("getsockopt", libc::SYS_getsockopt),
        ("newfstatat", libc::SYS_newfstatat),
        ("epoll_pwait", libc::SYS_epoll_pwait),
        ("pwritev2", libc::SYS_pwritev2),
        ("statx", libc::SYS_statx),
        ("getrandom", libc::SYS_getrandom),
        ("waitid", libc::SYS_waitid),
        ("getdents64", libc::SYS_getdents64),
    ] {
        let call = CALLS.iter().find(|call| call.name == name).unwrap();
        assert_eq!(call.number, number.cast_unsigned(), "{name}");
    }
}

/// Check that a plain buffer counts from its first to its last byte.
#[test]
fn buffers() {
    let read = hit(0, [3, 0x8000, 100, 0, 0, 0]);
    let made = of_hit(&read, (0x8000, 8), &nothing).unwrap();
    assert_eq!((made.name, made.pc), ("read", 0x1000));
    assert_eq!((made.access.address, made.access.size), (0x8000, 100));
    assert_eq!(made.access.kind, AccessKind::Write);
    assert!(of_hit(&read, (0x8063, 1), &nothing).is_some());
    assert!(of_hit(&read, (0x8064, 8), &nothing).is_none());
    assert!(of_hit(&read, (0x7ff8, 8), &nothing).is_none());

    let write = hit(1, [3, 0x8000, 1 << 40, 0, 0, 0]);
    let made = of_hit(&write, (0x9000, 8), &nothing).unwrap();
    assert_eq!(
        (made.access.kind, made.access.size),
        (AccessKind::Read, u32::MAX)
    );

    let stat = hit(5, [3, 0x8000, 0, 0, 0, 0]);
    assert!(of_hit(&stat, (0x8088, 8), &nothing).is_some());
    assert!(of_hit(&stat, (0x8090, 8), &nothing).is_none());

    let wait = hit(232, [3, 0x8000, 2, 0, 0, 0]);
    assert!(of_hit(&wait, (0x8010, 8), &nothing).is_some());
    assert!(of_hit(&wait, (0x8018, 8), &nothing).is_none());
}

/// Check lengths, vectors and messages that are in memory, and that nothing is made up where they are not.
#[test]
fn buffers_behind_pointers() {
    let memory = words(0x100, &[16, 0x8000, 8, 0x9000, 24]);
    let option = hit(55, [3, 1, 2, 0x8000, 0x100, 0]);
    let made = of_hit(&option, (0x8008, 8), &memory).unwrap();
    assert_eq!((made.access.address, made.access.size), (0x8000, 16));
    assert!(of_hit(&option, (0x8010, 8), &memory).is_none());
    assert!(of_hit(&option, (0x8008, 8), &nothing).is_none());

    let vector = hit(19, [3, 0x108, 2, 0, 0, 0]);
    let made = of_hit(&vector, (0x9010, 8), &memory).unwrap();
    assert_eq!((made.access.address, made.access.size), (0x9000, 24));
    assert!(of_hit(&vector, (0x8008, 8), &memory).is_none());
    // More elements than there is memory: it ends.
    let endless = hit(19, [3, 0x108, u64::MAX, 0, 0, 0]);
    assert!(of_hit(&endless, (0xa000, 8), &memory).is_none());

    let message = words(0x200, &[0, 0, 0x220, 1, 0x8000, 64]);
    let receive = hit(47, [3, 0x200, 0, 0, 0, 0]);
    let made = of_hit(&receive, (0x8038, 8), &message).unwrap();
    assert_eq!((made.name, made.access.size), ("recvmsg", 64));
    assert!(of_hit(&receive, (0x8040, 8), &message).is_none());
}

/// Check that the copy of the stack is preferred to what the memory holds by now.
#[test]
fn the_stack_of_that_time() {
    let mut receive = hit(47, [3, 0x200, 0, 0, 0, 0]);
    receive.regs.rsp = 0x200;
    let message = [0u64, 0, 0x220, 1, 0x8000, 64];
    receive.stack = message.map(u64::to_le_bytes).concat();
    let later = words(0x200, &[0; 6]);
    let made = of_hit(&receive, (0x8038, 8), &later).unwrap();
    assert_eq!(made.access.address, 0x8000);
}

/// Check that a thread that came into the kernel in another way has made no such call.
#[test]
fn other_ways_into_the_kernel() {
    let read = hit(0, [3, 0x8000, 100, 0, 0, 0]);
    let int_0x80 = |address: RuntimeAddr, to: &mut [u8]| {
        to.fill(0x80);
        address.0 == 0x1000
    };
    assert!(of_hit(&read, (0x8000, 8), &int_0x80).is_none());
}

/// Check that a call that is not in the table is no evidence.
#[test]
fn other_calls() {
    assert!(of_hit(&hit(202, [0x8000, 0, 0, 0, 0, 0]), (0x8000, 4), &nothing).is_none());
}
