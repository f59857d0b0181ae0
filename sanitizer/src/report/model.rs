//! A race as it is reported: resolved, named, ready to print. The JSON form of these types
//! is a contract with users; `schema` counts its incompatible changes.

mod place;

use serde::{Deserialize, Serialize};

use super::finding::{LockKind, RaceClass};
use super::hex::Hex;
use crate::insn::AccessKind;
use crate::routine::Contract;

pub use place::{Location, LocationKind, Object};

/// The version of the JSON form.
pub const SCHEMA: u32 = 1;

/// One data race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Race {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Names the pair of code places; the same in every run of the same build.
    pub fingerprint: String,
    /// What it is called in other builds as well.
    #[serde(default)]
    pub identity: Identity,
    /// An earlier run had found it, by the baseline that was given.
    #[serde(default)]
    pub known: bool,
    /// Which kinds of accesses met.
    pub verdict: RaceClass,
    /// The process.
    pub pid: u32,
    /// The executable's path as the target sees it.
    pub exe: String,
    /// The executable's GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// When the racing access was recorded, RFC 3339 in UTC.
    pub time: String,
    /// The first byte that both sides access.
    pub address: Hex,
    /// How many bytes both sides access.
    pub size: u32,
    /// What is at `address`.
    pub location: Location,
    /// The first watched byte.
    pub watch_address: Hex,
    /// How many bytes were watched.
    pub watch_size: u32,
    /// The watched bytes when the stall began, as a little-endian number.
    pub value_before: Option<String>,
    /// The watched bytes after the racing access.
    pub value_after: Option<String>,
    /// The two sides: the stalled one, then the racing one.
    pub accesses: [Access; 2],
    /// What a reader must know to judge the report, in sentences.
    pub notes: Vec<String>,
}

impl Race {
    /// Forgets what was in memory and registers: it may be a secret.
    pub fn forget_values(&mut self) {
        (self.value_before, self.value_after) = (None, None);
        let lives = self
            .accesses
            .iter_mut()
            .flat_map(|side| &mut side.live_values);
        lives.for_each(|live| live.value = None);
    }
}

/// What a race is called, the same in other builds as far as each name says (`identity.rs`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Identity {
    /// The two instructions: `p3:` and 32 hexadecimal digits; none where a module has no build id.
    pub pair: Option<String>,
    /// The two places and the variable: `r3:` and 32 hexadecimal digits.
    pub race: String,
    /// The two functions: `i3:` and 32 hexadecimal digits.
    pub issue: String,
}

impl Identity {
    /// Whether one of the names is this one.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.pair.as_deref() == Some(name) || self.race == name || self.issue == name
    }
}

/// The routine with which a thread was started, or the program began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadStart {
    /// The demangled function.
    pub function: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in which the function is declared, from 1; that at which it has called where that is not known.
    pub line: Option<u32>,
}

/// The thread that has created another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadCreation {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub thread_name: String,
    /// The innermost function of the user's own code that it executed then, demangled.
    pub function: Option<String>,
    /// The source file in which that has called.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// Which side of a race an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Its thread was held just before it.
    Stalled,
    /// It came meanwhile.
    Racing,
}

impl Role {
    /// The word that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Racing => "racing",
        }
    }
}

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Access {
    /// Which side.
    pub role: Role,
    /// What it does.
    pub kind: AccessKind,
    /// Whether it is atomic.
    pub atomic: bool,
    /// How many bytes it accesses.
    pub size: u32,
    /// The first of them.
    pub address: Hex,
    /// The basic block of the instruction, where the compiler tells it.
    #[serde(default)]
    pub block: Option<CodeBlock>,
    /// What was live where the thread stood, where the compiler tells it.
    #[serde(default)]
    pub live_values: Vec<LiveValue>,
    /// The locks that the thread certainly held; there may have been others.
    #[serde(default)]
    pub holds: Vec<Lock>,
    /// The system call in which the kernel makes the access for the thread; its buffer is then what `address`
    /// and `size` tell.
    #[serde(default)]
    pub system_call: Option<String>,
    /// With a system call: how many of the innermost frames are those of the library that makes it.
    #[serde(default)]
    pub library_frames: usize,
    /// The run-time address of its instruction.
    pub pc: Hex,
    /// The thread's id.
    pub tid: u32,
    /// The thread's name.
    pub thread_name: String,
    /// What the thread runs, where its stack is known to the end.
    #[serde(default)]
    pub thread_start: Option<ThreadStart>,
    /// Who has created the thread, where that was seen.
    #[serde(default)]
    pub created_by: Option<ThreadCreation>,
    /// The module of the instruction.
    pub module: Option<String>,
    /// The instruction's link-time address in the module.
    pub offset: Hex,
    /// The compiler may have introduced this read: the source need not have it here.
    pub introduced_read: bool,
    /// The stack goes on beyond the last frame.
    pub stack_truncated: bool,
    /// The innermost frame first.
    pub stack: Vec<StackFrame>,
}

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CodeBlock {
    /// Its number within the function.
    pub number: u32,
    /// The run-time address of its first byte.
    pub address: Hex,
    /// Bytes.
    pub size: u32,
}

/// A live value of a stack map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveValue {
    /// The number of the record.
    pub record: u64,
    /// Where it is: `r15`, `rbp-56`, `[rbp-8]`, `constant`.
    pub place: String,
    /// Bytes.
    pub size: u16,
    /// The value; for an address on the stack that address.
    pub value: Option<Hex>,
}

/// A lock that a thread holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lock {
    /// What it is.
    pub kind: LockKind,
    /// For what it is held.
    pub mode: LockMode,
    /// What it is called, where it is a global variable or a member of one: `cache.lock`.
    pub name: Option<String>,
    /// Its first byte.
    pub address: Hex,
}

/// For what a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// By several threads, it may be, none of which is to write.
    Read,
    /// By one thread alone.
    Write,
}

/// One frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackFrame {
    /// The instruction, or for callers an address within the call.
    pub pc: Hex,
    /// The module's path as the target sees it.
    pub module: Option<String>,
    /// The link-time address in the module: what `addr2line -e MODULE` takes.
    pub offset: Hex,
    /// The module's GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// The demangled function.
    pub function: Option<String>,
    /// The line in which the function is declared, from 1.
    #[serde(default)]
    pub function_line: Option<u32>,
    /// The source file.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// Whether the function was inlined into the next frame.
    pub inlined: bool,
    /// The source around the line, at the innermost frame of the user's own code, where the file is at hand.
    #[serde(default)]
    pub source: Option<Excerpt>,
}

/// Some lines of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Excerpt {
    /// The line and those beside it, in their order.
    pub lines: Vec<SourceLine>,
    /// The file was changed after the program was built: these may be other lines than those that were compiled.
    pub changed: bool,
}

/// A line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceLine {
    /// Its number, from 1.
    pub line: u32,
    /// What is in it, as it is in the file: tabs, and other characters that are not seen, included. Of long lines the beginning.
    pub text: String,
}

/// What a build is called: the build id of its executable, or its path where that has none. Builds without an id cannot be told from each other.
#[must_use]
pub fn build_name(exe: &str, build_id: Option<&str>) -> String {
    build_id.map_or_else(|| format!("exe:{exe}"), str::to_owned)
}

impl Race {
    /// In which build it was caught, by [`build_name`].
    #[must_use]
    pub fn build(&self) -> String {
        build_name(&self.exe, self.build_id.as_deref())
    }

    /// The stalled side.
    #[must_use]
    pub const fn stalled(&self) -> &Access {
        let [stalled, _] = &self.accesses;
        stalled
    }

    /// The racing side.
    #[must_use]
    pub const fn racing(&self) -> &Access {
        let [_, racing] = &self.accesses;
        racing
    }
}

impl Access {
    /// The frame that a programmer would call the place of the access: the innermost one, or
    /// the caller of a memory routine such as memcpy, or of the library that makes a system call.
    #[must_use]
    pub fn site(&self) -> Option<&StackFrame> {
        self.stack.get(self.site_number()?)
    }

    /// Its number in the stack.
    #[must_use]
    pub fn site_number(&self) -> Option<usize> {
        let libraries = self.library_frames();
        match self.stack.len() {
            0 => None,
            count if libraries < count => Some(libraries),
            _ => Some(0),
        }
    }

    /// How many of the innermost frames are those of a library that makes the access for its caller.
    #[must_use]
    pub fn library_frames(&self) -> usize {
        if self.system_call.is_some() {
            return self.library_frames;
        }
        let frames = self.stack.iter();
        frames.take_while(|frame| frame.is_memory_routine()).count()
    }

    /// Whether the innermost frame is a memory routine.
    #[must_use]
    pub fn in_memory_routine(&self) -> bool {
        self.stack
            .first()
            .is_some_and(StackFrame::is_memory_routine)
    }
}

impl StackFrame {
    /// Whether the function is a memory routine.
    #[must_use]
    pub fn is_memory_routine(&self) -> bool {
        self.function.as_deref().is_some_and(is_memory_routine)
    }
}

fn is_memory_routine(function: &str) -> bool {
    // Rust's own copies: `compiler_builtins::mem::memcpy`.
    let name = function.rsplit("::").next().unwrap_or(function);
    Contract::of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::is_memory_routine;

    /// Check that library variants are recognised and look-alikes of users are not.
    #[test]
    fn memory_routines() {
        for name in [
            "memcpy",
            "__memmove_avx_unaligned_erms",
            "__memset_chk",
            "__strlen_evex",
        ] {
            assert!(is_memory_routine(name), "{name}");
        }
        assert!(is_memory_routine("compiler_builtins::mem::memcpy"));
        for name in ["memcpy_safe", "my_memcpy", "memory", "main"] {
            assert!(!is_memory_routine(name), "{name}");
        }
    }
}
