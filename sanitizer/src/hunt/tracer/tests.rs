//! A tracer in its own process: what it refuses, and what it leaves.

use std::io::{Read as _, Write as _};

use super::super::wire::{self, Command, Setup};
use super::preparation::read_preparation;
use super::*;

/// Check that a tracer which is given a process that has ended meanwhile says so, and is ready for another one.
#[test]
fn who_has_ended_is_told_and_left() {
    const LIMIT: Duration = Duration::from_secs(30);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    let tracer = std::thread::spawn(move || {
        let ready = Ready {
            preparation: Preparation {
                stop_deadline_ns: 20_000_000,
                gate_log: false,
                slots: 1,
            },
            gates: vec![Gates::in_user_space().unwrap()],
            sockets: Vec::new(),
            refusal: None,
            trap_cost_ns: 0,
            ears: Ear::several(1).unwrap(),
        };
        trace(ready, ours)
    });
    let mut writer = theirs.try_clone().unwrap();
    let mut buffer = Vec::new();
    let mut next_notice = || loop {
        if let Some(notice) = wire::decode::<Notice>(&mut buffer).unwrap() {
            return notice;
        }
        let mut chunk = [0; 4096];
        let read = theirs.read(&mut chunk).expect("it says nothing");
        assert_ne!(read, 0);
        buffer.extend_from_slice(&chunk[..read]);
    };
    for _ in 0..3 {
        assert!(matches!(next_notice(), Notice::Ready { .. }));
        let command = Command::Watch(Box::new(Setup::usual(pid)));
        writer.write_all(&wire::encode(&command).unwrap()).unwrap();
        let notice = next_notice();
        assert!(matches!(notice, Notice::Failed(_)), "{notice:?}");
    }
    assert!(matches!(next_notice(), Notice::Ready { .. }));
    writer
        .write_all(&wire::encode(&Command::Stop).unwrap())
        .unwrap();
    assert_eq!(tracer.join().unwrap(), 0);
}

/// Check that a tracer goes by the same limits, whoever has started it, and takes nothing else for its first message.
#[test]
fn limits_are_the_tracers_too() {
    let preparation = Preparation {
        stop_deadline_ns: 20_000_000,
        gate_log: false,
        slots: 1,
    };
    let read = |bytes: &[u8]| {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        drop(theirs);
        read_preparation(&mut ours)
    };
    let usual = read(&wire::encode(&preparation).unwrap()).unwrap();
    assert_eq!(usual.stop_deadline_ns, 20_000_000);
    let unbounded = Preparation {
        stop_deadline_ns: u64::MAX,
        ..preparation
    };
    let error = read(&wire::encode(&unbounded).unwrap()).unwrap_err();
    assert!(error.contains("deadline"), "{error}");
    for nonsense in [
        &b"\x01\0\0\0"[..],
        b"\xff\xff\xff\xff",
        b"\x02\0\0\0\xff\xff",
    ] {
        assert!(read(nonsense).is_err(), "{nonsense:?}");
    }
}
