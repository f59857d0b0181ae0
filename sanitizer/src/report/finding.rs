//! The facts of one race as the hunt hands them over: raw addresses, registers and bytes,
//! nothing resolved yet. Plain data that travels between processes (postcard), so that
//! unwinding and symbols cost the target and its tracer nothing.

use serde::{Deserialize, Serialize};

use crate::insn::{AccessKind, ByteUse, Destination, Regs};
pub use crate::symbols::ModuleInfo;
use crate::tracee::Mapping;
pub use crate::verdict::RaceClass;

/// The basic block that an instruction is in, where the compiler tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFact {
    /// Its number within the function, which the compiler's own listings have.
    pub number: u32,
    /// Run-time address of its first byte.
    pub address: u64,
    /// Bytes.
    pub size: u32,
}

/// A value that was live where a thread stood, by a stack map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFact {
    /// The number of the record.
    pub record: u64,
    /// Where it is: a register (`r15`), an address on the stack (`rbp-56`), memory (`[rbp-8]`), or "constant".
    pub place: String,
    /// Bytes.
    pub size: u16,
    /// The value; for an address on the stack that address. `None` where it is longer than 8 bytes, or was
    /// not copied.
    pub value: Option<u64>,
}

/// One of the two accesses of a race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideFacts {
    /// The thread's id.
    pub tid: u32,
    /// The thread's name (`/proc/PID/task/TID/comm`).
    pub thread_name: String,
    /// The run-time address of the accessing instruction itself.
    pub pc: u64,
    /// The memory routine that `pc` is in and whose caller makes the access, by the name by which
    /// it was called: symbol tables may not know it.
    pub routine: Option<String>,
    /// The system call in which the kernel makes the access for the thread; `pc` is then its `syscall`
    /// instruction, and `regs` are those with which it was called.
    pub system_call: Option<String>,
    /// Where the analyzed code goes on that has called for it.
    pub returns_to: Option<u64>,
    /// The registers at the stop. For the racing side they are those *after* the access, so
    /// `regs.rip` is then past `pc`.
    pub regs: Regs,
    /// The run-time address of the first byte of `stack`.
    pub stack_base: u64,
    /// The stack's bytes from `stack_base` upwards, as many as were copied.
    pub stack: Vec<u8>,
    /// What the access does.
    pub kind: AccessKind,
    /// Whether the access is atomic.
    pub atomic: bool,
    /// The run-time address of the first byte accessed.
    pub address: u64,
    /// How many bytes are accessed.
    pub size: u32,
    /// The access is a plain read that the compiler may have introduced: the source need not
    /// have it at this place.
    pub introduced_read: bool,
    /// What becomes of the shared bytes, where the code does not show that it uses any of them: what the source
    /// asks for may be less than what is loaded.
    pub doubtful: Option<ByteUse>,
    /// Where such bytes are copied to, the first byte of the access first.
    pub copied_to: Option<Destination>,
    /// The access is plain by its metadata, but the instruction may have been made of several, of which one is
    /// atomic.
    pub may_be_merged: bool,
    /// The compiler may have lost its mark.
    pub mark_may_be_lost: bool,
    /// The block around `pc`.
    pub block: Option<BlockFact>,
    /// What was live at `regs.rip`.
    pub live: Vec<LiveFact>,
    /// The locks that the thread certainly held.
    pub holds: Holds,
    /// Who has created the thread, where that was seen.
    pub creator: Option<CreatorFacts>,
}

/// The thread that has created another one, as it was then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatorFacts {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub thread_name: String,
    /// Its registers behind the system call.
    pub regs: Regs,
    /// Stack bytes from `regs.rsp` up.
    pub stack: Vec<u8>,
}

/// What is known of the locks that a thread held at its access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    /// Those that tell who holds them.
    pub alone: Vec<HeldLock>,
    /// What the thread wrote to first of all after its access, of what looked like a lock that some hold for reading.
    pub written: Option<WrittenLock>,
}

/// A thread's first write to a lock after its access. If that released the lock, the thread held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenLock {
    /// The lock's first byte's run-time address.
    pub address: u64,
    /// Behind the instruction that wrote.
    pub behind: u64,
    /// A register had the lock's address then: it is the lock that was meant, and not one of which this word is a part.
    pub is_given: bool,
}

/// A lock that a thread holds alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// Its first byte's run-time address.
    pub address: u64,
    /// What it is.
    pub kind: LockKind,
}

/// Kinds of locks that tell who holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// One thread holds it at a time.
    Mutex,
    /// Several may hold it for reading.
    Rwlock,
}

/// One mapping of the target: a line of `/proc/PID/maps` (proc_pid_maps(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapInfo {
    /// The first run-time address.
    pub start: u64,
    /// The first run-time address past the mapping.
    pub end: u64,
    /// The offset into the file.
    pub offset: u64,
    /// Whether it may be read.
    pub read: bool,
    /// Whether it may be written.
    pub write: bool,
    /// Whether it may be executed.
    pub execute: bool,
    /// Whether writes are shared with other mappings (`s`), as opposed to private (`p`).
    pub shared: bool,
    /// The name: a path, `[heap]`, `[stack]`, `[anon:...]`, or empty for anonymous memory.
    pub name: String,
}

impl From<&Mapping> for MapInfo {
    fn from(mapping: &Mapping) -> Self {
        Self {
            start: mapping.start.0,
            end: mapping.end.0,
            offset: mapping.offset.0,
            read: mapping.perms.read,
            write: mapping.perms.write,
            execute: mapping.perms.exec,
            shared: mapping.perms.shared,
            name: mapping.name.to_string_lossy().into_owned(),
        }
    }
}

impl MapInfo {
    /// Whether a run-time address is inside the mapping.
    #[must_use]
    pub const fn contains(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }
}

/// One race as it was caught: two accesses that met at overlapping bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The process.
    pub pid: u32,
    /// The executable's path as the target sees it.
    pub exe: String,
    /// When the racing access was recorded: nanoseconds of real time since 1970.
    pub time_ns: u64,
    /// The run-time address that was watched.
    pub watch_address: u64,
    /// How many bytes were watched.
    pub watch_len: u32,
    /// Which kinds of accesses met.
    pub class: RaceClass,
    /// The access whose thread was held just before it.
    pub stalled: SideFacts,
    /// The access that came meanwhile.
    pub racing: SideFacts,
    /// The watched bytes when the stall began; empty where they could not be read.
    pub value_before: Vec<u8>,
    /// The watched bytes after the racing access; empty where they could not be read.
    pub value_after: Vec<u8>,
    /// The block of a heap in which both accesses are, where that is certain.
    pub heap_block: Option<HeapBlock>,
}

/// A block of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapBlock {
    /// Its first byte's run-time address: what the allocator has given.
    pub address: u64,
    /// How many bytes of it may be used: what the program has asked for, and what that was rounded up by.
    pub size: u64,
}

impl Finding {
    /// By which run-time address it is told again where the racing thread was: behind its access or, where it had called a memory routine, where that
    /// returns to.
    #[must_use]
    pub fn racing_place(&self) -> u64 {
        let routine = self.racing.routine.as_ref();
        let behind = routine.and(self.racing.returns_to);
        behind.unwrap_or(self.racing.regs.rip)
    }
}
