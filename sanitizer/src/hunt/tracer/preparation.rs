//! What a tracer does before it is told which process to watch.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use crate::hunt::bounds;
use crate::hunt::wire::{self, Preparation};
use crate::kernel::calibrate::trap_cost_ns;
use crate::kernel::gates::{GateLog, Gates};
use crate::kernel::{open_files, process};
use crate::tracee;

use super::Ready;

/// Does everything that does not depend on the process that is to be watched.
pub(super) fn prepare(socket: &mut UnixStream) -> Result<Ready, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    process::die_with_parent().map_err(|error| text(&error))?;
    process::keep_private();
    open_files::raise_files();
    let news = process::child_news().map_err(|error| text(&error))?;
    let preparation = read_preparation(socket)?;
    socket.set_nonblocking(true).map_err(|error| text(&error))?;
    check_proc()?;
    open_files::need_files(open_files::FILES_OF_TRACER).map_err(|error| text(&error))?;
    let log = if preparation.gate_log {
        GateLog::Debug
    } else {
        GateLog::Off
    };
    let (gates, refusal) = match Gates::load(log) {
        Ok(gates) => (gates, None),
        // What is left is enough for programs of one's own.
        Err(error) if error.is_refusal() => {
            let gates = Gates::in_user_space().map_err(|error| text(&error))?;
            (gates, Some(text(&error)))
        }
        Err(error) => return Err(text(&error)),
    };
    let trap_cost_ns = trap_cost_ns(&gates).map_err(|error| text(&error))?;
    Ok(Ready {
        preparation,
        gates,
        refusal,
        trap_cost_ns,
        news,
    })
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
