//! Loading the programs and maps of the gates.

use std::os::fd::AsFd as _;

use aya::maps::Map;
use aya::programs::{PerfEvent as PerfEventProgram, RawTracePoint};
use gwp_race_abi::{HITS, PREEMPTED, SPACE_RANGES};

use crate::kernel::error::chain;
use crate::kernel::object::{self, GATES_OBJECT};
use crate::kernel::shared::SharedArray;
use crate::kernel::tables::Tables;
use crate::kernel::{KernelError, btf, fault, heap, rights, settings};

use super::lent::Lent;
use super::preempted::Switches;
use super::{Gate, GateLog, Gates, Home, Programs};

pub(in crate::kernel) fn shared<T>(
    map: &Map,
    len: usize,
    name: &str,
) -> Result<SharedArray<T>, KernelError> {
    match map {
        Map::Array(data)
            if data
                .info()
                .is_ok_and(|info| info.value_size() as usize == size_of::<T>()) =>
        {
            SharedArray::map(&data.fd().as_fd(), len, name)
        }
        _ => Err(KernelError::other(
            "loading the gates",
            name,
            "the eBPF object is of another version than this program",
        )),
    }
}

/// Whether what has failed was not permitted.
pub(in crate::kernel) fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    !rights::may_load_gates() || is_denied(error)
}

fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Where the kernel keeps what the gates read.
fn offsets() -> Result<btf::KernelOffsets, KernelError> {
    btf::KernelOffsets::load()
        .map_err(|cause| KernelError::other("reading BTF", "the running kernel", cause.to_string()))
}

impl Gates {
    /// Loads the programs and maps, and attaches the tracepoint that tells of new threads.
    ///
    /// # Errors
    /// Fails without the object, the kernel's BTF, the rights or the features.
    pub fn load(log: GateLog) -> Result<Self, KernelError> {
        Self::load_by(offsets()?, log)
    }

    /// So many, each for a process of its own. None knows of the others, so that none can take another one's process for its own; the kernel's type information is read
    /// once.
    ///
    /// # Errors
    /// As [`Gates::load`].
    pub fn load_several(count: usize, log: GateLog) -> Result<Vec<Self>, KernelError> {
        let offsets = offsets()?;
        let loaded = (0..count).map(|_| Self::load_by(offsets, log)).collect();
        // Whoever has asked goes on for long, as two processes.
        heap::give_back();
        loaded
    }

    fn load_by(offsets: btf::KernelOffsets, log: GateLog) -> Result<Self, KernelError> {
        let failed = |call, what: &str, cause: &dyn std::fmt::Display| {
            KernelError::other(call, what.to_owned(), cause.to_string())
        };
        let refused = |call, what: &str, cause: &(dyn std::error::Error + 'static)| {
            let error = KernelError::caused(call, what, cause);
            // A function that may not be called is as unknown to the verifier.
            if is_refusal(cause) || settings::forbid_ebpf() {
                error.into_refusal()
            } else {
                error
            }
        };
        if GATES_OBJECT.is_empty() {
            return Err(failed(
                "loading the gates",
                "this gwp-race",
                &"it was built without its eBPF object: build it with `cargo xtask build`",
            ));
        }
        let level = if log == GateLog::Debug { &5 } else { &0 };
        fault::before("bpf(BPF_MAP_CREATE)", || "the eBPF object".to_owned())?;
        let mut ebpf = object::load(GATES_OBJECT, level)
            .map_err(|cause| refused("loading the gates", "the eBPF object", &cause))?;
        for gate in Gate::ALL {
            let program: &mut PerfEventProgram = ebpf
                .program_mut(gate.name())
                .ok_or("the object has no such program")
                .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
                .map_err(|cause| failed("loading", gate.name(), &cause))?;
            fault::before("bpf(BPF_PROG_LOAD)", || gate.name().to_owned())?;
            program
                .load()
                .map_err(|cause| refused("bpf(BPF_PROG_LOAD)", gate.name(), &cause))?;
        }
        for (name, tracepoint) in [("newtask", "task_newtask"), ("exec", "sched_process_exec")] {
            let program: &mut RawTracePoint = ebpf
                .program_mut(name)
                .ok_or("the object has no such program")
                .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
                .map_err(|cause| failed("loading", name, &cause))?;
            program
                .load()
                .map_err(|cause| refused("bpf(BPF_PROG_LOAD)", name, &cause))?;
            fault::before("bpf(BPF_RAW_TRACEPOINT_OPEN)", || tracepoint.to_owned())?;
            program.attach(tracepoint).map_err(|cause| {
                refused("attaching", &format!("the tracepoint {tracepoint}"), &cause)
            })?;
        }
        // Before the maps are taken away, whose descriptors it needs.
        let switches = Switches::load(&mut ebpf, &offsets);
        let lent = Lent::of(&ebpf).map_err(|cause| failed("loading the gates", "maps", &cause))?;

        let mut take = |name: &str| {
            ebpf.take_map(name)
                .ok_or_else(|| failed("loading the gates", name, &"the object has no such map"))
        };
        let wrong =
            |name: &str, cause: &dyn std::error::Error| failed("bpf map", name, &chain(cause));
        let control = shared(&take("CONTROL")?, 1, "CONTROL")?;
        let records = shared(&take("HIT_RECORDS")?, HITS, "HIT_RECORDS")?;
        let preempted = shared(&take("PREEMPTED")?, PREEMPTED, "PREEMPTED")?;
        let space = shared(&take("SPACE")?, SPACE_RANGES, "SPACE")?;
        let functions = take("FUNCTIONS")?
            .try_into()
            .map_err(|cause| wrong("FUNCTIONS", &cause))?;
        let atomics = take("ATOMICS")?
            .try_into()
            .map_err(|cause| wrong("ATOMICS", &cause))?;
        let events = take("EVENTS")?
            .try_into()
            .map_err(|cause| wrong("EVENTS", &cause))?;
        let creations = take("CREATIONS")?
            .try_into()
            .map_err(|cause| wrong("CREATIONS", &cause))?;
        let standing = take("STANDING")?
            .try_into()
            .map_err(|cause| wrong("STANDING", &cause))?;
        let log = match log {
            GateLog::Off => None,
            GateLog::Debug => Some(
                aya_log::EbpfLogger::init(&mut ebpf)
                    .map_err(|cause| failed("reading the gates' log", "AYA_LOGS", &cause))?,
            ),
        };
        let programs = Programs {
            ebpf,
            records,
            preempted,
            switches,
            lent,
            events,
            creations,
            standing,
            log,
        };
        let gates = Self {
            control,
            tables: Some(Tables::new(space, functions, atomics)),
            home: Home::Kernel(Box::new(programs)),
        };
        gates.set_offsets(offsets);
        Ok(gates)
    }
}
