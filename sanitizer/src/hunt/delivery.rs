//! By which signal threads of a process can be stopped without harm to it.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::Control;

use crate::{
    kernel::{gates::Gates, perf::Delivery},
    tracee::{TargetError, status::Status},
};

/// Linux before this did not let a gate suppress the SIGTRAP of its event (commit c4fcc7d1).
const SIGTRAP_SUPPRESSION: (u32, u32) = (6, 10);

/// What is chosen where nothing is harmless: no gate sends it while the program handles or blocks it.
pub const LAST_RESORT: Delivery = Delivery::GateSignal(libc::SIGURG as u8);

/// How threads of a process can be stopped harmlessly now (invariant I1); `None` where the program itself handles or
/// blocks each of the signals that would do.
///
/// # Errors
/// Fails when the process is gone.
pub fn choose_delivery(pid: u32, gates: &Gates) -> Result<Option<Delivery>, TargetError> {
    let status = Status::of_process(nix::unistd::Pid::from_raw(pid.cast_signed()))?;
    // Without gates nobody would see a program change what it does with SIGTRAP.
    if gates.are_in_kernel()
        && status.ignored.contains_number(libc::SIGTRAP)
        && gates_suppress_sigtrap()
    {
        return Ok(Some(Delivery::Sigtrap));
    }
    let harmless = [libc::SIGURG, libc::SIGWINCH].into_iter().find(|&signal| {
        !status.caught.contains_number(signal) && !status.blocked.contains_number(signal)
    });
    Ok(harmless.map(|signal| Delivery::GateSignal(signal as u8)))
}

/// Tells the gates how threads are stopped.
pub fn tell(control: &Control, delivery: Delivery) {
    let value = match delivery {
        Delivery::Sigtrap => gwp_race_abi::delivery::SIGTRAP,
        Delivery::GateSignal(signal) => u32::from(signal),
    };
    control.events.delivery.store(u64::from(value), SeqCst);
}

/// Whether a gate can hold back an event's own SIGTRAP.
#[must_use]
pub fn gates_suppress_sigtrap() -> bool {
    let Ok(name) = nix::sys::utsname::uname() else {
        return false;
    };
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= SIGTRAP_SUPPRESSION
}
