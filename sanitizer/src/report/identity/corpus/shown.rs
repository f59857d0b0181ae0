//! The races that the corpus's program shows, as real findings: the program is led step by step by ptrace(2), with a watchpoint of the processor on the bytes of each race, and stopped at the
//! instruction of each side. Threads take no part: names are not made of them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::insn::{AccessKind, MemAccess, Regs, x86_64};
use crate::kernel::ptrace::registers;
use crate::report::finding::{Finding, Holds, MapInfo, ModuleInfo, SideFacts};
use crate::report::sample;
use crate::tracee::Modules;

/// Instructions that a side may take until it accesses the bytes.
const PATIENCE: u32 = 20_000;
/// Bytes of the stack that are copied.
const STACK: u64 = 16 << 10;
/// The routine of the C library by which some sides access memory.
const ROUTINE: &str = "memcpy";

/// A race that was shown.
pub(super) struct Shown {
    /// What the corpus calls it.
    pub(super) name: String,
    pub(super) finding: Finding,
    pub(super) maps: Vec<MapInfo>,
}

/// A run of the corpus's program: all its races, and the files that were mapped.
pub(super) struct Run {
    pub(super) races: Vec<Shown>,
    pub(super) modules: Vec<ModuleInfo>,
}

/// What the program says before each side.
struct Told {
    name: String,
    kind: AccessKind,
    atomic: bool,
    address: u64,
    size: u32,
}

/// The program, which stands still.
struct Led {
    child: Child,
    pid: Pid,
    memory: File,
}

impl Drop for Led {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program of the corpus to its end.
pub(super) fn run(program: &Path) -> Run {
    let led = Led::start(program);
    let mut run = Run {
        races: Vec::new(),
        modules: Vec::new(),
    };
    let mut modules = Modules::scan(led.pid).expect("its modules");
    while let Some(first) = led.told() {
        modules.rescan().expect("its memory map");
        run.modules = infos(&modules);
        let stalled = led.side(&modules, &first, true);
        let second = led.told().expect("a race has two sides");
        assert_eq!(second.name, first.name);
        let racing = led.side(&modules, &second, false);
        let finding = Finding {
            pid: led.child.id(),
            exe: program.to_string_lossy().into_owned(),
            watch_address: first.address,
            watch_len: first.size,
            stalled,
            racing,
            ..sample::finding()
        };
        run.races.push(Shown {
            name: first.name,
            finding,
            maps: maps(&modules, first.address),
        });
    }
    run
}

fn infos(modules: &Modules) -> Vec<ModuleInfo> {
    let modules = modules.all().iter();
    let infos = modules.map(|module| ModuleInfo {
        path: module.path.to_string_lossy().into_owned(),
        // The process will be gone when its files are read.
        via: module.path.clone().into(),
        start: module.start.0,
        end: module.end.0,
        bias: module.bias,
        build_id: module.build_id().unwrap_or_default().to_vec(),
    });
    infos.collect()
}

fn maps(modules: &Modules, address: u64) -> Vec<MapInfo> {
    let mapping = modules.maps().find(RuntimeAddr(address));
    mapping.into_iter().map(MapInfo::from).collect()
}

impl Led {
    /// Starts the program and leads it from where it waits for a line.
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the corpus's program");
        let pid = Pid::from_raw(child.id().cast_signed());
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(line, "ready\n");
        let mut input = child.stdin.take().expect("piped");
        let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
        let led = Self { child, pid, memory };
        ptrace::attach(pid).expect("attach to own child");
        led.wait();
        input.write_all(b"\n").expect("it reads");
        led
    }

    fn wait(&self) -> WaitStatus {
        waitpid(self.pid, Some(WaitPidFlag::__WALL)).expect("own child")
    }

    fn registers(&self) -> Regs {
        registers(self.child.id()).expect("registers")
    }

    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.memory.read_at(&mut bytes, address).expect("memory");
        bytes.truncate(read);
        bytes
    }

    /// Lets it go on until it says what comes next; none where it ends instead.
    fn told(&self) -> Option<Told> {
        ptrace::cont(self.pid, None).expect("it stands");
        match self.wait() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Exited(_, 0) => return None,
            other => panic!("{other:?}"),
        }
        let regs = self.registers();
        /// Names are shorter.
        const NAME: usize = 64;
        let name = self.read(regs.rdi, NAME);
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let kind = u8::try_from(regs.rsi).expect("a letter");
        Some(Told {
            name: String::from_utf8_lossy(name).into_owned(),
            kind: match kind.to_ascii_lowercase() {
                b'r' => AccessKind::Read,
                _ => AccessKind::Write,
            },
            atomic: kind.is_ascii_uppercase(),
            address: regs.rdx,
            size: u32::try_from(regs.rcx).expect("a few bytes"),
        })
    }

    /// Leads it to its first access of that kind to the bytes. Of the stalled side registers and stack are those before it, of the racing one those behind it.
    fn side(&self, modules: &Modules, told: &Told, is_stalled: bool) -> SideFacts {
        self.watch(Some(told));
        let mut before = self.registers();
        for _ in 0..PATIENCE {
            ptrace::step(self.pid, None).expect("it stands");
            let stopped = self.wait();
            assert_eq!(stopped, WaitStatus::Stopped(self.pid, Signal::SIGTRAP));
            let after = self.registers();
            if !self.is_hit() {
                before = after;
                continue;
            }
            self.watch(None);
            let access = self.access(&before, told);
            let module = modules.find(RuntimeAddr(before.rip)).expect("a module");
            let is_library = module.path.to_string_lossy().contains("libc.so");
            let regs = if is_stalled { before } else { after };
            return SideFacts {
                tid: self.child.id(),
                pc: before.rip,
                routine: is_library.then(|| ROUTINE.to_owned()),
                regs,
                stack_base: regs.rsp,
                stack: self.read(regs.rsp, stack_len(modules, regs.rsp)),
                kind: access.kind,
                atomic: told.atomic,
                address: access.address,
                size: access.size,
                holds: Holds::default(),
                ..sample::finding().stalled
            };
        }
        panic!("{}: no access within {PATIENCE} instructions", told.name);
    }

    /// What the instruction accesses that has met the watchpoint.
    fn access(&self, before: &Regs, told: &Told) -> MemAccess {
        /// As long as an instruction can be.
        const INSTRUCTION: usize = 15;
        let code = self.read(before.rip, INSTRUCTION);
        let accesses = x86_64::accesses_before(&code, before).expect("accesses");
        let is_it = |access: &&MemAccess| {
            access.overlaps(told.address, told.size)
                && (told.kind == AccessKind::Read || access.kind != AccessKind::Read)
        };
        let access = accesses.iter().find(is_it);
        *access.unwrap_or_else(|| panic!("{}: {accesses:x?}", told.name))
    }

    /// Sets the first watchpoint of the processor (SDM vol. 3, "Debug Registers"), or takes it away.
    fn watch(&self, told: Option<&Told>) {
        const ON: u64 = 1;
        const WRITES: u64 = 0b01 << 16;
        const ACCESSES: u64 = 0b11 << 16;
        let Some(told) = told else {
            return self.set_debug_register(7, 0);
        };
        let kind = match told.kind {
            AccessKind::Read => ACCESSES,
            _ => WRITES,
        };
        let len: u64 = match told.size {
            1 => 0b00,
            2 => 0b01,
            4 => 0b11,
            8 => 0b10,
            other => panic!("{}: {other} bytes", told.name),
        };
        self.set_debug_register(7, 0);
        self.set_debug_register(0, told.address);
        self.set_debug_register(7, ON | kind | len << 18);
    }

    /// Whether the last instruction has met it.
    fn is_hit(&self) -> bool {
        let status = ptrace::read_user(self.pid, debug_register(6)).expect("DR6");
        let is_hit = status & 1 != 0;
        if is_hit {
            self.set_debug_register(6, 0);
        }
        is_hit
    }

    fn set_debug_register(&self, number: usize, value: u64) {
        ptrace::write_user(self.pid, debug_register(number), value.cast_signed())
            .expect("a debug register");
    }
}

fn debug_register(number: usize) -> ptrace::AddressType {
    let offset = offset_of!(libc::user, u_debugreg) + number * size_of::<u64>();
    std::ptr::without_provenance_mut(offset)
}

/// How much of the stack is copied: no more than there is.
fn stack_len(modules: &Modules, from: u64) -> usize {
    let stack = modules.maps().find(RuntimeAddr(from)).expect("a stack");
    usize::try_from((stack.end.0 - from).min(STACK)).expect("a few KiB")
}
