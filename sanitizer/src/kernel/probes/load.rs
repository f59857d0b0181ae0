//! Loading the programs and their maps. aya makes the maps; the programs it cannot load, as it knows no kind of them that is attached to many places at once
//! (`BPF_TRACE_UPROBE_MULTI`).

use std::{
    collections::{HashSet, VecDeque},
    ffi::CStr,
    io,
    os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    sync::{Arc, atomic::AtomicBool, atomic::Ordering::SeqCst},
};

use aya::maps::Map;
use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_type};
use gwp_race_abi::probes::{self as abi, PROBES, USES};
use nix::sys::utsname::uname;

use crate::kernel::gates::{Gates, is_refusal, shared};
use crate::kernel::object::{self, GATES_OBJECT, PROBES_OBJECT};
use crate::kernel::process::{Bell, Employer, WorkClock};
use crate::kernel::shared::SharedArray;
use crate::kernel::{KernelError, fault, settings};

use super::{Probes, Programs, Shared};

/// Before it, the kernel compares threads where a process is meant, so that all threads but one are missed, and keeps that of a
/// thread that has ended (commit 46ba0e49b642, "bpf: fix multi-uprobe PID filtering logic").
pub const OLDEST_KERNEL: (u32, u32) = (6, 10);

/// The program of bursts in the object of the probes, and that of those that stand in the one of the gates.
const BURST: &str = "probe";
const STANDING: &str = "probe_gate";

/// Whether the running kernel is [`OLDEST_KERNEL`] or a newer one.
#[must_use]
pub fn is_new_enough() -> bool {
    let running = uname().ok();
    let version = running.and_then(|system| settings::version(&system.release().to_string_lossy()));
    version.is_some_and(|version| version >= OLDEST_KERNEL)
}

impl Probes {
    /// Loads the programs. What is worked for them is handed over to the clock. Nothing is probed yet, and no thread started: the calling process may still split. The gates must have run once in the pid
    /// namespace whose ids are meant ([`trap_cost_ns`](crate::kernel::calibrate::trap_cost_ns) has them run).
    ///
    /// # Errors
    /// Fails without the object, gates in the kernel, the rights or the features.
    pub fn load(gates: &Gates, clock: WorkClock) -> Result<Self, KernelError> {
        let failed =
            |what: &str, why: &str| KernelError::other("loading the probes", what, why.to_owned());
        if !is_new_enough() {
            return Err(failed("the running kernel", "it is older than Linux 6.10"));
        }
        if PROBES_OBJECT.is_empty() {
            let why = "it was built without its eBPF objects: build it with `cargo xtask build`";
            return Err(failed("this gwp-race", why));
        }
        let (known, offsets) = (&gates.control().namespace, gates.control().offsets);
        if known.pointer.load(SeqCst) == 0 {
            return Err(failed("the pid namespace", "the gates have not run yet"));
        }
        let refused = |call, cause: &(dyn std::error::Error + 'static)| {
            let error = KernelError::caused(call, "the eBPF object of the probes", cause);
            if is_refusal(cause) || settings::forbid_ebpf() {
                error.into_refusal()
            } else {
                error
            }
        };
        fault::before("bpf(BPF_MAP_CREATE)", || {
            "the eBPF object of the probes".to_owned()
        })?;
        let ebpf = object::load(PROBES_OBJECT, &0)
            .map_err(|cause| refused("loading the probes", &cause))?;
        let map = |name: &str| {
            ebpf.map(name)
                .ok_or_else(|| failed(name, "the object has no such map"))
        };
        let control = shared(map("CONTROL")?, 1, "CONTROL")?;
        let probes = shared(map("PROBES_OF_BURST")?, PROBES, "PROBES_OF_BURST")?;
        let uses = shared(map("USES_OF_BURST")?, USES, "USES_OF_BURST")?;
        let own = |name: &'static str| match ebpf.map(name) {
            Some(Map::Array(data)) => Ok((name, data.fd().as_fd().as_raw_fd())),
            _ => Err(failed(name, "the object has no such map")),
        };
        let maps = [
            own("CONTROL")?,
            own("PROBES_OF_BURST")?,
            own("USES_OF_BURST")?,
        ];
        let loaded = |object, name, maps: &[(&str, RawFd)]| {
            let instructions =
                instructions(object, name, maps).map_err(|why| failed(name, &why))?;
            fault::before("bpf(BPF_PROG_LOAD)", || name.to_owned())?;
            load(name, &instructions).map_err(|cause| refused("bpf(BPF_PROG_LOAD)", &cause))
        };
        let lent = gates.lent();
        let programs = Programs {
            burst: loaded(PROBES_OBJECT, BURST, &maps)?,
            standing: loaded(GATES_OBJECT, STANDING, &lent)?,
        };
        let standing = lent.iter().find(|(name, _)| *name == "PROBED");
        let (_, standing) = standing.ok_or_else(|| failed("PROBED", "there are no gates"))?;
        let standing = SharedArray::map(standing, abi::STANDING, "PROBED")?;
        let shared = Shared {
            control,
            probes,
            uses,
            standing,
            employer: Employer {
                bell: Arc::new(Bell::new()?),
                clock,
            },
            stop: AtomicBool::new(false),
        };
        if let Some(control) = shared.control.pointer(0) {
            // SAFETY: the pointer is into the mapping; the program is not attached to anything yet.
            unsafe { (*control).offsets = offsets };
        }
        let own = &shared.control().namespace;
        own.level.store(known.level.load(SeqCst), SeqCst);
        own.pointer.store(known.pointer.load(SeqCst), SeqCst);
        Ok(Self {
            _ebpf: ebpf,
            programs,
            shared: Arc::new(shared),
            thread: None,
            is_busy: false,
            changes: VecDeque::new(),
            outcome: None,
            bursts: 0,
            pid: 0,
        })
    }
}

/// A program's instructions in an object, with the descriptors of the maps that it names.
fn instructions(
    object: &[u8],
    program: &str,
    maps: &[(&str, RawFd)],
) -> Result<Vec<bpf_insn>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut object = aya_obj::Object::parse(object).map_err(|error| text(&error))?;
    let named: Vec<_> = object.maps.clone().into_iter().collect();
    let with_descriptors = named.iter().filter_map(|(name, map)| {
        let (name, fd) = maps.iter().find(|(known, _)| known == name)?;
        Some((*name, *fd, map))
    });
    let sections: HashSet<usize> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    // Others name other maps.
    let others: HashSet<_> = object
        .programs
        .iter()
        .filter(|(name, _)| *name != program)
        .map(|(_, other)| other.function_key())
        .collect();
    object.programs.retain(|name, _| name == program);
    object.functions.retain(|key, _| !others.contains(key));
    let wanted = object.programs.get(program);
    let key = wanted
        .ok_or("the object has no such program")?
        .function_key();
    object
        .relocate_maps(with_descriptors, &sections)
        .map_err(|error| text(&error))?;
    object
        .relocate_calls(&sections)
        .map_err(|error| text(&error))?;
    let function = object.functions.get(&key);
    Ok(function
        .ok_or("it has no instructions")?
        .instructions
        .clone())
}

/// `BPF_PROG_LOAD` (bpf(2)).
fn load(name: &str, instructions: &[bpf_insn]) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"Dual MIT/GPL";
    /// `BPF_OBJ_NAME_LEN` of `include/uapi/linux/bpf.h`, but for the zero at the end.
    const NAME_LENGTH: usize = 15;
    // SAFETY: all of its members are integers, for which 0 is valid.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: as above, whichever member of the union is used.
    let program = unsafe { &mut attr.__bindgen_anon_3 };
    program.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
    program.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    program.insns = instructions.as_ptr() as u64;
    program.insn_cnt = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
    program.license = LICENSE.as_ptr() as u64;
    for (to, from) in program
        .prog_name
        .iter_mut()
        .zip(name.bytes().take(NAME_LENGTH))
    {
        *to = from as libc::c_char;
    }
    call(bpf_cmd::BPF_PROG_LOAD, &attr)
}

/// A call of bpf(2) that makes a descriptor.
pub(super) fn call(command: bpf_cmd, attr: &bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes and what they point to, which live through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as u32,
            std::ptr::from_ref(attr),
            size_of::<bpf_attr>(),
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the call has made it, and nobody else knows of it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
