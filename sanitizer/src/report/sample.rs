//! A race for tests: two threads bump a counter, one of them through a library.

use super::finding::{Finding, HeldLock, Holds, LockKind, RaceClass, SideFacts};
use super::hex::Hex;
use super::model::{
    Access, Excerpt, Identity, Location, LocationKind, Lock, LockMode, Race, Role, SCHEMA,
    SourceLine, StackFrame, ThreadCreation, ThreadStart,
};
use crate::insn::{AccessKind, Regs};

fn frame(module: &str, function: &str, file: &str, line: u32, offset: u64) -> StackFrame {
    StackFrame {
        pc: Hex(0x5555_0000_0000 + offset),
        module: Some(module.to_owned()),
        offset: Hex(offset),
        build_id: Some("aabbcc".to_owned()),
        function: Some(function.to_owned()),
        function_line: None,
        file: Some(file.to_owned()),
        line: Some(line),
        column: Some(5),
        inlined: false,
        source: None,
    }
}

/// A complete race.
pub(crate) fn race() -> Race {
    let stalled = Access {
        role: Role::Stalled,
        kind: AccessKind::Write,
        atomic: false,
        size: 4,
        address: Hex(0x5555_0000_4010),
        system_call: None,
        library_frames: 0,
        block: None,
        live_values: Vec::new(),
        holds: vec![Lock {
            kind: LockKind::Mutex,
            mode: LockMode::Write,
            name: Some("cache.lock".to_owned()),
            address: Hex(0x5555_0000_4040),
        }],
        pc: Hex(0x5555_0000_1139),
        tid: 11,
        thread_name: "worker".to_owned(),
        thread_start: Some(ThreadStart {
            function: "main".to_owned(),
            file: Some("/src/main.c".to_owned()),
            line: Some(20),
        }),
        created_by: Some(ThreadCreation {
            tid: 10,
            thread_name: "app".to_owned(),
            function: Some("start_all".to_owned()),
            file: Some("/src/main.c".to_owned()),
            line: Some(31),
        }),
        module: Some("/opt/lib/libwork.so".to_owned()),
        offset: Hex(0x1139),
        introduced_read: false,
        stack_truncated: false,
        stack: vec![
            StackFrame {
                inlined: true,
                source: Some(Excerpt {
                    lines: vec![SourceLine {
                        line: 7,
                        text: "    counter++;".to_owned(),
                    }],
                    changed: true,
                }),
                ..frame("/opt/lib/libwork.so", "bump", "/src/worker.c", 7, 0x1139)
            },
            frame("/opt/lib/libwork.so", "work", "/src/worker.c", 12, 0x1139),
            frame("/opt/bin/app", "main", "/src/main.c", 30, 0x2100),
        ],
    };
    let racing = Access {
        role: Role::Racing,
        kind: AccessKind::Read,
        atomic: true,
        pc: Hex(0x5555_0000_2200),
        tid: 12,
        thread_name: "reader\u{1b}[31m".to_owned(),
        thread_start: None,
        created_by: None,
        holds: Vec::new(),
        module: Some("/opt/bin/app".to_owned()),
        offset: Hex(0x2200),
        introduced_read: true,
        stack_truncated: true,
        stack: vec![StackFrame {
            function: None,
            file: None,
            line: None,
            column: None,
            ..frame("/opt/bin/app", "", "", 0, 0x2200)
        }],
        ..stalled.clone()
    };
    Race {
        schema: SCHEMA,
        fingerprint: "0123456789abcdef0123456789abcdef".to_owned(),
        identity: Identity {
            pair: None,
            race: "r3:00112233445566778899aabbccddeeff".to_owned(),
            issue: "i3:ffeeddccbbaa99887766554433221100".to_owned(),
        },
        known: false,
        verdict: RaceClass::PlainAtomic,
        pid: 10,
        exe: "/opt/bin/app".to_owned(),
        build_id: Some("aabbcc".to_owned()),
        time: "2026-01-02T03:04:05.000000006Z".to_owned(),
        address: Hex(0x5555_0000_4010),
        size: 4,
        location: Location {
            kind: LocationKind::Global,
            name: Some("counter".to_owned()),
            member: None,
            offset: Some(4),
            size: Some(16),
            module: Some("/opt/bin/app".to_owned()),
            module_offset: Some(Hex(0x400c)),
            tid: None,
            variable: None,
            function: None,
            object: None,
        },
        watch_address: Hex(0x5555_0000_4010),
        watch_size: 4,
        value_before: Some("0x0000000a".to_owned()),
        value_after: Some("0x0000000b".to_owned()),
        accesses: [stalled, racing],
        notes: vec!["the racing stack is truncated.".to_owned()],
    }
}

/// A finding without stacks.
pub(crate) fn finding() -> Finding {
    let stalled = SideFacts {
        routine: None,
        system_call: None,
        returns_to: None,
        tid: 11,
        thread_name: "worker".to_owned(),
        pc: 0x1000,
        regs: Regs {
            rip: 0x1000,
            ..Regs::default()
        },
        stack_base: 0,
        stack: Vec::new(),
        kind: AccessKind::Write,
        atomic: false,
        address: 0x8000,
        size: 8,
        introduced_read: false,
        doubtful: None,
        copied_to: None,
        may_be_merged: false,
        mark_may_be_lost: false,
        block: None,
        live: Vec::new(),
        holds: Holds {
            alone: vec![HeldLock {
                address: 0x9000,
                kind: LockKind::Rwlock,
            }],
            written: None,
        },
        creator: None,
    };
    let racing = SideFacts {
        tid: 12,
        thread_name: "reader".to_owned(),
        pc: 0x2000,
        regs: Regs {
            rip: 0x2004,
            ..Regs::default()
        },
        kind: AccessKind::Read,
        address: 0x8004,
        size: 2,
        holds: Holds::default(),
        ..stalled.clone()
    };
    Finding {
        pid: 10,
        exe: "/opt/bin/app".to_owned(),
        time_ns: 1_767_323_045_000_000_006,
        watch_address: 0x8000,
        watch_len: 8,
        class: RaceClass::PlainPlain,
        stalled,
        racing,
        value_before: vec![1, 0, 0, 0, 0, 0, 0, 0],
        value_after: vec![1, 0, 0, 0, 0, 0, 0, 0],
        heap_block: None,
    }
}
