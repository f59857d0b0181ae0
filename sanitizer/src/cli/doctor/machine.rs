//! What the machine and our own rights allow: each check tries the real thing where it can.

mod capabilities;
mod files;

use nix::sys::utsname::uname;
use nix::unistd::Pid;

use super::Check;
use crate::kernel::KernelError;
use crate::kernel::btf::KernelOffsets;
use crate::kernel::probe::{self, PausedChild};
use crate::kernel::probes as kernel_probes;
use crate::kernel::rights::{CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE};
use crate::kernel::sandbox;
use crate::kernel::setcap::for_own;
use crate::kernel::settings::{self, version};
use crate::tracee::maps::Maps;
use crate::tracee::status::{Seccomp, Status};

use capabilities::{capability_check, has};

use files::open_files;

pub(super) use files::{most_files, threads_for};

/// `sigtrap`, `remove_on_exec` and `inherit_thread` of perf_event_open(2) came with this one.
const OLDEST_KERNEL: (u32, u32) = (5, 13);

/// From this one on a gate can hold back an event's own SIGTRAP (commit c4fcc7d1c41d).
const GOOD_KERNEL: (u32, u32) = (6, 10);

/// One breakpoint to reach an access, one to watch its bytes.
pub(super) const NEEDED_BREAKPOINTS: usize = 2;

/// `PROC_PID_INIT_INO` of linux/proc_ns.h: the initial pid namespace.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// `PROC_USER_INIT_INO` of linux/proc_ns.h: the initial user namespace.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// How a container is started in which everything works.
const CONTAINER: &str = "docker run --cap-add SYS_ADMIN --cap-add SYS_PTRACE --pid=host ... (podman: the same; \
    Kubernetes: these capabilities and hostPID), or run gwp-race outside of the container";

/// Looks at the machine.
pub(super) fn checks() -> Vec<Check> {
    let own = Status::of_process(Pid::this());
    let capabilities = own.as_ref().map_or(0, |status| status.capabilities);
    let mut checks = vec![kernel()];
    match &own {
        Ok(status) => {
            checks.push(capability_check(status.capabilities));
            checks.push(seccomp(status));
        }
        Err(error) => checks.push(Check::fail(
            "/proc",
            error.to_string(),
            "mount -t proc proc /proc",
        )),
    }
    checks.push(namespaces());
    checks.push(btf());
    match PausedChild::start() {
        Ok(child) => {
            let gates = gates(&child);
            // Without gates there are no probes: their line says why.
            let probes = (gates.status == super::Status::Ok).then(|| probes(&child));
            checks.push(gates);
            checks.extend(probes);
            checks.extend(events(&child, capabilities));
            checks.push(ptrace(&child, capabilities));
        }
        Err(error) => checks.push(Check::fail(
            "fork",
            error.to_string(),
            "raise the limit of processes: ulimit -u",
        )),
    }
    checks.push(open_files());
    checks.push(reader());
    checks
}

/// Debug information is read by a process of its own, which tries that out here.
fn reader() -> Check {
    let name = "reading of debug information";
    if let Err(why) = crate::reader::try_out() {
        return Check::warn(
            name,
            format!("{why}; reports would have addresses only"),
            "raise the limits of processes and memory (ulimit -u, ulimit -v), or report it with what `gwp-race run -vv` says",
        );
    }
    let missing = sandbox::missing();
    if missing.is_empty() {
        return Check::ok(name, "by a process without rights");
    }
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    Check::warn(
        name,
        format!(
            "by a process without capabilities, but also without {}: hostile debug information that gets the better of it could do more",
            missing.join(", ")
        ),
        "boot a kernel with CONFIG_SECCOMP_FILTER=y, CONFIG_SECURITY_LANDLOCK=y and landlock in its list of security modules (lsm=)",
    )
}

fn kernel() -> Check {
    let name = "kernel";
    let Ok(system) = uname() else {
        return Check::fail(
            name,
            "uname(2) fails",
            "run gwp-race on Linux 6.10 or later",
        );
    };
    let machine = system.machine().to_string_lossy();
    let release = system.release().to_string_lossy();
    let found = format!("Linux {release} on {machine}");
    if machine != "x86_64" {
        return Check::fail(name, found, "run gwp-race on a 64-bit x86 machine");
    }
    match version(&release) {
        Some(version) if version >= GOOD_KERNEL => Check::ok(name, found),
        Some(version) if version >= OLDEST_KERNEL => Check::warn(
            name,
            format!("{found}; before 6.10 stops cost more, as gates must send the signal"),
            "install a kernel of version 6.10 or later",
        ),
        _ => Check::fail(name, found, "install a kernel of version 6.10 or later"),
    }
}

/// An error without its own advice, which is to ask the doctor.
fn describe(error: &KernelError) -> String {
    format!(
        "{} fails for {}: {}",
        error.call, error.object, error.source
    )
}

fn seccomp(status: &Status) -> Check {
    let name = "seccomp";
    match status.seccomp {
        Seccomp::Disabled => Check::ok(name, "no filter on our system calls"),
        // Whether it lets ours through is what the other checks find out.
        _ => Check::warn(
            name,
            "system calls are filtered, as in most containers; bpf, perf_event_open and ptrace \
             must be let through",
            format!(
                "if one of those fails below: {CONTAINER}, or --security-opt seccomp=unconfined"
            ),
        ),
    }
}

/// Rights on eBPF count in the initial user namespace alone, and `/proc` must show the processes of
/// the present pid namespace.
fn namespaces() -> Check {
    let name = "namespaces";
    let is_initial = |kind: &str, initial: &str| {
        std::fs::read_link(format!("/proc/self/ns/{kind}"))
            .is_ok_and(|namespace| namespace.as_os_str() == initial)
    };
    if !is_initial("user", INITIAL_USER_NAMESPACE) {
        Check::warn(
            name,
            "inside a user namespace (a rootless container), whose root has no rights on eBPF; \
             gwp-race works without its gates there",
            CONTAINER,
        )
    } else if !crate::tracee::procfs::proc_is_ours() {
        Check::fail(
            name,
            "/proc is that of another pid namespace, or not mounted",
            "mount -t proc proc /proc",
        )
    } else if !is_initial("pid", INITIAL_PID_NAMESPACE) {
        Check::ok(
            name,
            "inside a pid namespace (a container): processes outside cannot be watched",
        )
    } else {
        Check::ok(name, "the initial ones of users and processes")
    }
}

fn btf() -> Check {
    let name = "kernel types (BTF)";
    match KernelOffsets::load() {
        Ok(_) => Check::ok(name, crate::kernel::btf::VMLINUX_BTF),
        Err(error) => Check::fail(
            name,
            error.to_string(),
            "install the distribution's kernel, or build it with CONFIG_DEBUG_INFO_BTF=y",
        ),
    }
}

fn gates(child: &PausedChild) -> Check {
    let name = "eBPF gates";
    let Err(error) = probe::attach_gates(child) else {
        return Check::ok(name, "loaded and attached");
    };
    if error.is_refusal() {
        return Check::warn(
            name,
            format!(
                "{}; gwp-race does their work in user space, and finds less at the same cost",
                describe(&error)
            ),
            settings::mend_gates(),
        );
    }
    let mend = if crate::kernel::object::GATES_OBJECT.is_empty() {
        "cargo xtask build".to_owned()
    } else {
        for_own()
    };
    Check::fail(name, describe(&error), mend)
}

/// Whether the kernel's probes can be had, by which is seen who is about to use what at many places at once.
fn probes(child: &PausedChild) -> Check {
    let name = "probes of the kernel (uprobes)";
    if !kernel_probes::is_new_enough() {
        return Check::ok(
            name,
            "none before Linux 6.10; sites are looked at one by one",
        );
    }
    let mapping = Maps::read(Pid::this())
        .ok()
        .and_then(|maps| Some(maps.find(probe::probed_address())?.range()));
    let Some(mapping) = mapping else {
        return Check::ok(name, "not tried, as /proc does not tell our own mappings");
    };
    match probe::burst(child, mapping) {
        Ok(()) => Check::ok(name, "one stood in another process, and is gone"),
        Err(error) => Check::warn(
            name,
            format!("{error}; sites are looked at one by one"),
            "run a kernel with CONFIG_UPROBES=y and CONFIG_BPF_EVENTS=y, and gwp-race from an ordinary file system",
        ),
    }
}

/// The checks of perf events: whether they open, whether they count, how many are left.
fn events(child: &PausedChild, capabilities: u64) -> Vec<Check> {
    let clock = probe::clock_time_ns();
    let is_denied = clock
        .as_ref()
        .is_err_and(|error| error.source.raw_os_error() == Some(libc::EACCES));
    let mut checks = vec![paranoid(
        settings::perf_event_paranoid(),
        capabilities,
        is_denied,
    )];
    let name = "clock event";
    checks.push(match clock {
        Ok(0) => Check::fail(
            name,
            "it opens, but counts nothing",
            "run on another kernel or hypervisor",
        ),
        Ok(_) => Check::ok(name, "task-clock counts"),
        Err(error) => event_failure(name, &error),
    });
    let name = "watchpoint";
    checks.push(match probe::watchpoint_hits() {
        Ok(1) => Check::ok(name, "a write to watched memory trapped"),
        Ok(count) => Check::fail(
            name,
            format!("a write to watched memory trapped {count} times instead of once"),
            "this hypervisor or emulator has no working debug registers: run on real hardware, \
             KVM, Hyper-V or VMware",
        ),
        Err(error) => event_failure(name, &error),
    });
    checks.push(match probe::free_breakpoints(child.tid()) {
        Ok(free) => free_breakpoints(free, "a new process"),
        Err(error) => event_failure("breakpoints free", &error),
    });
    let name = "synchronous SIGTRAP";
    checks.push(match probe::open_sigtrap(child) {
        Ok(()) => Check::ok(name, "perf_event_open takes the sigtrap attribute"),
        Err(error) => Check::warn(
            name,
            format!("{}; stops cost more without it", describe(&error)),
            "install a kernel of version 6.10 or later",
        ),
    });
    checks
}

fn event_failure(name: &'static str, error: &KernelError) -> Check {
    let mend = match error.source.raw_os_error() {
        Some(libc::ENOSPC) => return free_breakpoints(0, "this process"),
        Some(libc::EPERM | libc::EACCES) => for_own(),
        Some(libc::EMFILE) => "ulimit -n 65536".to_owned(),
        _ => "run a kernel with CONFIG_PERF_EVENTS and CONFIG_HAVE_HW_BREAKPOINT".to_owned(),
    };
    Check::fail(name, describe(error), mend)
}

/// The check of how many hardware breakpoints something can still get.
pub(super) fn free_breakpoints(free: usize, whose: &str) -> Check {
    let name = "breakpoints free";
    let found = format!("{free} for {whose}");
    if free >= NEEDED_BREAKPOINTS {
        return Check::ok(name, found);
    }
    Check::fail(
        name,
        format!("{found}, {NEEDED_BREAKPOINTS} are needed"),
        "end the debugger or profiler that uses them; these hold perf events: sudo find \
         /proc/[0-9]*/fd -lname '*perf_event*'",
    )
}

/// `is_denied`: an event could not be opened for want of rights.
fn paranoid(level: Option<i32>, capabilities: u64, is_denied: bool) -> Check {
    const MEND: &str = "sudo sysctl kernel.perf_event_paranoid=2";
    let name = "perf_event_paranoid";
    let Some(level) = level else {
        return Check::fail(
            name,
            "the setting is missing: the kernel has no perf events",
            "run a kernel with CONFIG_PERF_EVENTS=y",
        );
    };
    if level <= settings::USER_EVENTS {
        return Check::ok(name, level.to_string());
    }
    if !has(capabilities, CAP_PERFMON) && !has(capabilities, CAP_SYS_ADMIN) {
        return Check::fail(name, level.to_string(), MEND);
    }
    if is_denied {
        // Debian's kernels ask for CAP_SYS_ADMIN there.
        return Check::fail(
            name,
            format!("{level}, which this kernel holds against CAP_PERFMON as well"),
            MEND,
        );
    }
    Check::ok(
        name,
        format!("{level}, which does not count with CAP_PERFMON"),
    )
}

fn ptrace(child: &PausedChild, capabilities: u64) -> Check {
    let name = "ptrace";
    let scope = settings::ptrace_scope();
    let privileged = has(capabilities, CAP_SYS_PTRACE);
    let shown = scope.map_or(String::new(), |scope| {
        format!(" (Yama's ptrace_scope is {scope})")
    });
    match (probe::seize(child), scope) {
        (_, Some(settings::NO_ATTACH)) => Check::fail(
            name,
            format!("switched off until the next boot{shown}"),
            settings::mend_no_attach(),
        ),
        (Err(error), _) => Check::fail(name, format!("{}{shown}", describe(&error)), for_own()),
        (Ok(()), Some(2)) if !privileged => Check::fail(
            name,
            format!("allowed with CAP_SYS_PTRACE only{shown}"),
            "sudo sysctl kernel.yama.ptrace_scope=0, or run gwp-race as root (sudo)",
        ),
        // `run` gets the program's leave; the tracer is no ancestor of other processes.
        (Ok(()), Some(1)) if !privileged => Check::warn(
            name,
            format!("allowed for programs that `run` starts, not for their children{shown}"),
            "sudo sysctl kernel.yama.ptrace_scope=0, or run gwp-race as root (sudo)",
        ),
        (Ok(()), _) => Check::ok(name, format!("a process was seized{shown}")),
    }
}

#[cfg(test)]
mod tests;
