//! All forms in one program, and a run of one of them under a watchpoint.
//!
//! Each form is a function of its own: set-up, int3, the instruction, nop, int3. The first stop is
//! where the watchpoint is armed, so that no set-up can hit it; the second tells that nothing
//! more will.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::super::stepping::{Tracee, recorded};
use super::super::testing::{Function, compile, functions, objects};
use super::Form;
use crate::addr::RuntimeAddr;
use crate::insn::Regs;
use crate::kernel::perf::{Delivery, EventOptions, PerfEvent, WatchKind};
use crate::kernel::ptrace::{TRAP_PERF, signal_info};

/// Where execution goes that leaves a form: a function's first instruction, and one further in.
const LANDINGS: &str = "
function before_landing
    ret
end before_landing
function landing
    nop
inside_landing:
    nop
    int3
end landing
";

/// Where the registers point to, in the program's `area`.
const AREA: u64 = 0x3000;
const RBX: u64 = 0x800;
const RSI: u64 = 0x1000;
const RDI: u64 = 0x1400;
const RDX: u64 = 0x1800;
const RSP: u64 = 0x2000;
const RBP: u64 = 0x2800;

/// Neither a divisor of 0, nor invalid as a number of any kind.
const FILL: u8 = 1;

fn assembly(forms: &[Form]) -> String {
    let mut text = format!(
        ".intel_syntax noprefix
        .macro function name
        .globl \\name
        .type \\name, @function
        \\name:
        .endm
        .macro end name
        .size \\name, . - \\name
        .endm
        .bss
        .balign 4096
        .globl area
        .type area, @object
        .size area, {AREA}
        area: .skip {AREA}
        .section .rodata
        .balign 64
        element_1_byte: .byte 0, -1
        .skip 62
        element_1_dword: .long 0, -1
        .skip 56
        element_1_qword: .quad 0, -1
        .skip 48
        indices_dword: .long 0, 5
        .skip 56
        indices_qword: .quad 0, 5
        .skip 48
        .text
        .globl _start
        _start:
        mov eax, 1
        mov edi, 1
        lea rsi, [rip + area]
        mov edx, 1
        syscall
        xor eax, eax
        xor edi, edi
        syscall
        hlt
        .equ at_rbx, area + {RBX}
        {LANDINGS}"
    );
    for (i, form) in forms.iter().enumerate() {
        // What stands in braces is the form's own label.
        let own = |source: &str| source.replace("{after}", &format!("after_{i}"));
        let _ = write!(
            text,
            "
            function form_{i}
            {}
            int3
            {}
            after_{i}:
            nop
            int3
            end form_{i}",
            own(form.group.setup),
            own(form.source),
        );
    }
    text.push('\n');
    text
}

/// The program, stopped.
pub(super) struct Program {
    tracee: Tracee,
    memory: File,
    functions: Vec<Function>,
    area: u64,
    watchpoint: PerfEvent,
    _dir: TempDir,
}

/// What a run has shown.
pub(super) struct Run {
    /// Right before the instruction.
    pub(super) before: Regs,
    /// At the trap; nothing if there was none.
    pub(super) hit: Option<Regs>,
}

impl Program {
    pub(super) fn start(forms: &[Form]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let flags = ["-x", "assembler", "-nostdlib", "-static"];
        let path = compile("clang-22", &flags, &assembly(forms), dir.path());
        let area = objects(&path)
            .into_iter()
            .find_map(|(name, address, _)| (name == "area").then_some(address))
            .expect("the program has its area");
        let functions = functions(&path);
        let tracee = Tracee::start(&path);
        let memory = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{}/mem", tracee.pid()))
            .expect("a tracee's memory is writable");
        let options = EventOptions {
            delivery: Delivery::Sigtrap,
            inherit: false,
            cookie: 1,
            kernel: false,
            record_stack: None,
        };
        let watchpoint = PerfEvent::breakpoint(tracee.pid().as_raw().cast_unsigned(), options)
            .expect("a watchpoint of a child may be opened: run as root, or allow perf events");
        Self {
            tracee,
            memory,
            functions,
            area,
            watchpoint,
            _dir: dir,
        }
    }

    fn pid(&self) -> Pid {
        self.tracee.pid()
    }

    pub(super) fn functions(&self) -> &[Function] {
        &self.functions
    }

    pub(super) fn function(&self, name: &str) -> &Function {
        self.functions
            .iter()
            .find(|function| function.name == name)
            .expect("each form has its function")
    }

    /// The registers that each form's set-up begins with.
    pub(super) fn registers(&self) -> Regs {
        Regs {
            rax: 1,
            rbx: self.area + RBX,
            rcx: 2,
            rdx: self.area + RDX,
            rsi: self.area + RSI,
            rdi: self.area + RDI,
            rbp: self.area + RBP,
            rsp: self.area + RSP,
            r8: u64::MAX,
            r9: 33,
            eflags: 1 << 9,
            fs_base: self.area + RBX,
            gs_base: self.area + RBX,
            ..Regs::default()
        }
    }

    /// Runs a form; `watch` is what is watched while its instruction is executed.
    pub(super) fn run(&mut self, form: &Function, watch: Watch) -> Result<Run, String> {
        let fill = [FILL; AREA as usize];
        self.memory
            .write_all_at(&fill, self.area)
            .map_err(|error| error.to_string())?;
        self.set_registers(form.start);
        if self.next_stop()? {
            return Err("a watchpoint that is not armed was hit".into());
        }
        let before = recorded(self.pid());
        self.watchpoint
            .watch(RuntimeAddr(watch.address), watch.len, watch.kind)
            .map_err(|error| error.to_string())?;
        let hit = self.next_stop();
        self.watchpoint
            .disable()
            .map_err(|error| error.to_string())?;
        let hit = hit?.then(|| recorded(self.pid()));
        Ok(Run { before, hit })
    }

    fn set_registers(&self, rip: u64) {
        let mut raw = ptrace::getregs(self.pid()).expect("a stopped tracee has registers");
        let regs = self.registers();
        raw.rax = regs.rax;
        raw.rbx = regs.rbx;
        raw.rcx = regs.rcx;
        raw.rdx = regs.rdx;
        raw.rsi = regs.rsi;
        raw.rdi = regs.rdi;
        raw.rbp = regs.rbp;
        raw.rsp = regs.rsp;
        raw.r8 = regs.r8;
        raw.r9 = regs.r9;
        raw.eflags = regs.eflags;
        raw.fs_base = regs.fs_base;
        raw.gs_base = regs.gs_base;
        raw.rip = rip;
        // It is in no system call that could have to be started again.
        raw.orig_rax = u64::MAX;
        ptrace::setregs(self.pid(), raw).expect("a stopped tracee's registers can be set");
    }

    /// Lets it go on; true where it stops because of the watchpoint, false at an int3.
    fn next_stop(&self) -> Result<bool, String> {
        ptrace::cont(self.pid(), None).expect("a stopped tracee goes on");
        match waitpid(self.pid(), None).expect("it stops") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let info = signal_info(self.pid().as_raw().cast_unsigned());
                Ok(info.map_err(|error| error.to_string())?.code == TRAP_PERF)
            }
            other => Err(format!("{other:?} at {:#x}", recorded(self.pid()).rip)),
        }
    }
}

/// What a watchpoint watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) address: u64,
    pub(super) len: u8,
    pub(super) kind: WatchKind,
}
