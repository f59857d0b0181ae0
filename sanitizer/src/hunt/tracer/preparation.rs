//! What a tracer does before it is told which process to watch.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use crate::hunt::bounds;
use crate::hunt::wire::{self, Preparation};
use crate::kernel::calibrate::trap_cost_ns;
use crate::kernel::gates::{GateLog, Gates};
use crate::kernel::passing::take_descriptor;
use crate::kernel::process::{self, Ear};
use crate::kernel::{KernelError, open_files};
use crate::tracee;

use super::Ready;

/// Does everything that does not depend on the process that is to be watched.
pub(super) fn prepare(socket: &mut UnixStream) -> Result<Ready, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    process::die_with_parent().map_err(|error| text(&error))?;
    process::keep_private();
    open_files::raise_files();
    let preparation = read_preparation(socket)?;
    let slots = usize::from(preparation.slots);
    // Before there is any other thread.
    let ears = Ear::several(slots).map_err(|error| text(&error))?;
    let sockets = read_sockets(socket, slots - 1).map_err(|error| text(&error))?;
    for socket in std::iter::once(&*socket).chain(&sockets) {
        socket.set_nonblocking(true).map_err(|error| text(&error))?;
    }
    check_proc()?;
    let files = open_files::FILES_OF_TRACER * u64::from(preparation.slots);
    open_files::need_files(files).map_err(|error| text(&error))?;
    let log = if preparation.gate_log {
        GateLog::Debug
    } else {
        GateLog::Off
    };
    let (gates, refusal) = match Gates::load_several(slots, log) {
        Ok(gates) => (gates, None),
        // What is left is enough for programs of one's own.
        Err(error) if error.is_refusal() => (without_gates(slots)?, Some(text(&error))),
        Err(error) => return Err(text(&error)),
    };
    let mut cost_ns = 0;
    for gates in &gates {
        // Each learns in which namespace ids are said.
        cost_ns = trap_cost_ns(gates).map_err(|error| text(&error))?;
    }
    Ok(Ready {
        preparation,
        gates,
        sockets,
        refusal,
        trap_cost_ns: cost_ns,
        ears,
    })
}

fn without_gates(slots: usize) -> Result<Vec<Gates>, String> {
    let gates = (0..slots).map(|_| Gates::in_user_space());
    gates
        .collect::<Result<_, KernelError>>()
        .map_err(|error| error.to_string())
}

/// The sockets of all slots but the first one.
fn read_sockets(socket: &UnixStream, count: usize) -> std::io::Result<Vec<UnixStream>> {
    let sockets = (0..count).map(|_| take_descriptor(socket).map(UnixStream::from));
    sockets.collect()
}

/// The first message, as far as a tracer goes.
pub(super) fn read_preparation(socket: &mut UnixStream) -> Result<Preparation, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut prefix = [0; 4];
    socket.read_exact(&mut prefix).map_err(text)?;
    let len = u32::from_le_bytes(prefix) as usize;
    if len > wire::MAX_MESSAGE {
        return Err("the daemon is of another version; start both from one file".to_owned());
    }
    let mut body = vec![0; len];
    socket.read_exact(&mut body).map_err(text)?;
    let preparation: Preparation =
        postcard::from_bytes(&body).map_err(|error| error.to_string())?;
    bounds::check_deadline(preparation.stop_deadline_ns)?;
    bounds::check_slots(preparation.slots)?;
    Ok(preparation)
}

/// What `/proc` tells must be about the processes that this one means by their ids.
fn check_proc() -> Result<(), String> {
    if tracee::procfs::proc_is_ours() {
        return Ok(());
    }
    Err(
        "/proc is that of another pid namespace, or not mounted; mount the present one: \
         mount -t proc proc /proc"
            .to_owned(),
    )
}
