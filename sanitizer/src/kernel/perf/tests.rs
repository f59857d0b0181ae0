//! Events of this thread itself.

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

use super::{EventOptions, PerfEvent, WatchKind};
use crate::addr::RuntimeAddr;

/// How often the watchpoint has trapped.
fn traps(event: &PerfEvent) -> u64 {
    let mut count = [0; 8];
    let read = nix::unistd::read(&event.fd, &mut count).expect("it can be read");
    assert_eq!(read, count.len());
    u64::from_ne_bytes(count)
}

/// Check that a watchpoint traps while it is armed and not after it was disarmed, however often it is disarmed, armed again, and made one of another kind.
#[test]
fn armed_and_disarmed() {
    let mut word = Box::new(0_u64);
    let address = RuntimeAddr(&raw const *word as u64);
    let tid = nix::unistd::gettid().as_raw().cast_unsigned();
    // Other tests may have all breakpoints for a while.
    let event = (0..1000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        PerfEvent::breakpoint(tid, EventOptions::SILENT).ok()
    });
    let mut event = event.expect("a breakpoint is to be had");
    let mut write = || {
        *black_box(&mut *word) += 1;
    };
    event.disable().expect("it is off");
    // Whatever is asked of this one fails: nothing is asked to have off what is off.
    let none = std::fs::File::open("/dev/null").expect("it can be opened");
    let its_own = std::mem::replace(&mut event.fd, none.into());
    event.disable().expect("it is off");
    event.may_be_on.store(true, Relaxed);
    event.disable().expect_err("there is no event");
    event.may_be_on.store(false, Relaxed);
    event.fd = its_own;
    for _ in 0..3 {
        let before = traps(&event);
        event.watch(address, 8, WatchKind::Writes).expect("armed");
        assert!(event.may_be_on.load(Relaxed));
        write();
        let after = traps(&event);
        assert!(after > before);
        for _ in 0..2 {
            event.disable().expect("disarmed");
            assert!(!event.may_be_on.load(Relaxed));
            write();
            assert_eq!(traps(&event), after);
        }
    }
    event.watch(address, 8, WatchKind::Writes).expect("armed");
    let armed = traps(&event);
    event.disarm_as(WatchKind::Writes).expect("disarmed");
    write();
    assert!(!event.may_be_on.load(Relaxed) && traps(&event) == armed);
    event.enable().expect("enabled");
    write();
    assert!(traps(&event) > armed);
    event.disable().expect("disarmed");
    let after = traps(&event);
    write();
    assert_eq!(traps(&event), after);
}
