//! Who executes what on a machine: told by eBPF programs, which say nothing of files that are known to be of no interest, so that a machine that
//! executes thousands of those a second pays for a look into a table each.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aya::{
    Pod,
    maps::{HashMap, MapData, RingBuf},
};
use gwp_race_abi::{
    descent::ExecutedFile,
    discovery::{self, Control, ENDED, EXECUTES, Event},
};

use tokio::io::unix::AsyncFd;

use super::{
    KernelError, btf,
    error::chain,
    executed::{self, Executed},
    fault,
    gates::shared,
    object::DISCOVERY_OBJECT,
    raw_tracepoints::{RawTracepoints, of_kernel},
    shared::SharedArray,
};

/// The programs, and the tracepoints that they are attached to.
const PROGRAMS: [(&str, &str); 2] = [
    ("discovery_exec", "sched_process_exec"),
    ("discovery_exit", "sched_process_exit"),
];

/// The one that user space runs itself.
const LEARN: &str = "discovery_learn";

/// A file that was changed so lately may be changed again without that its state tells: times of changes are told in seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// What a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It executes a program from now on. Of one whose file is of no interest that is told only where the process was told of before.
    Executes {
        /// The process.
        pid: u32,
        /// The program's file, where that is known.
        executed: Option<Executed>,
    },
    /// It has ended; of those only that were told of or [followed](Discovery::follow), and not [forgotten](Discovery::forget).
    Ended {
        /// The process.
        pid: u32,
        /// How.
        status: Status,
    },
}

/// How a process has ended, as wait(2) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By exit(2), with this code.
    Exited(u8),
    /// By this signal.
    Killed(u8),
}

impl Status {
    /// As the kernel keeps it (`task_struct.exit_code`).
    fn of(code: u32) -> Self {
        /// Bits of the signal; above them one says that there is a core dump.
        const SIGNAL: u32 = 0x7f;
        match (code & SIGNAL) as u8 {
            0 => Self::Exited((code >> 8) as u8),
            signal => Self::Killed(signal),
        }
    }
}

/// The same as [`discovery::FileKey`], for a map.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Key(discovery::FileKey);

/// The same as [`discovery::FileState`], for a map.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct State(discovery::FileState);

// SAFETY: both are plain integers without padding.
unsafe impl Pod for Key {}
// SAFETY: as above.
unsafe impl Pod for State {}

/// See the module.
pub struct Discovery {
    /// What they are attached by ends with them.
    _programs: RawTracepoints,
    control: SharedArray<Control>,
    dull: HashMap<MapData, Key, State>,
    told: HashMap<MapData, u32, u32>,
    events: RingBuf<MapData>,
}

impl Discovery {
    /// Loads the programs and attaches them.
    ///
    /// # Errors
    /// Fails without the object, the rights or the features.
    pub fn load() -> Result<Self, KernelError> {
        Self::load_with(None)
    }

    /// `buffer`: bytes for what is told and not read yet, where not as many as usual.
    fn load_with(buffer: Option<u32>) -> Result<Self, KernelError> {
        let (offsets, file_offsets, exit_code) = of_kernel(|types| {
            let offsets = btf::KernelOffsets::from_btf(types)?;
            let exit_code = types.member(types.structure("task_struct")?, "exit_code")?;
            Ok((offsets, executed::offsets(types), exit_code))
        })?;
        let mut names = PROGRAMS.map(|(name, _)| name).to_vec();
        names.push(LEARN);
        let mut programs = RawTracepoints::load(
            DISCOVERY_OBJECT,
            "loading the programs that discover processes",
            &names,
            buffer.map(|bytes| ("EVENTS", bytes)),
        )?;
        let control: SharedArray<Control> = shared(&programs.map("CONTROL")?, 1, "CONTROL")?;
        let dull = programs.map_as("DULL")?;
        let told = programs.map_as("TOLD")?;
        let events = programs.map_as("EVENTS")?;
        if let Some(control) = control.pointer(0) {
            // SAFETY: the pointer is into the mapping; no program runs yet that would read these.
            unsafe {
                (*control).offsets = offsets.into();
                (*control).file_offsets = file_offsets;
                (*control).task_exit_code = exit_code;
            }
        }
        programs.run(LEARN)?;
        programs.attach(&PROGRAMS)?;
        Ok(Self {
            _programs: programs,
            control,
            dull,
            told,
            events,
        })
    }

    /// The next thing that was told.
    pub fn next_news(&mut self) -> Option<News> {
        loop {
            let item = self.events.next()?;
            if item.len() < size_of::<Event>() {
                continue;
            }
            // SAFETY: `Event` is plain integers, valid for any bits, and the item is long enough.
            let event = unsafe { item.as_ptr().cast::<Event>().read_unaligned() };
            let pid = event.pid;
            match event.kind {
                EXECUTES if item.len() >= size_of::<discovery::Executed>() => {
                    // SAFETY: as above.
                    let told =
                        unsafe { item.as_ptr().cast::<discovery::Executed>().read_unaligned() };
                    let executed = Executed::told(told.file, &told.path, event.parent);
                    return Some(News::Executes { pid, executed });
                }
                ENDED => {
                    let status = Status::of(event.status);
                    return Some(News::Ended { pid, status });
                }
                _ => {}
            }
        }
    }

    /// A descriptor of its own that a runtime waits for: readable when something was told.
    ///
    /// # Errors
    /// Fails where there is no room for another descriptor, or the runtime's poll takes none.
    pub fn awaited(&self) -> Result<AsyncFd<OwnedFd>, KernelError> {
        let failed =
            |error: io::Error| KernelError::other("epoll_ctl", "what was told of processes", error);
        let own = self.as_fd().try_clone_to_owned().map_err(failed)?;
        // SAFETY: the descriptor is open for as long as its owner, who is registered, and is never exchanged for another one.
        unsafe { AsyncFd::register(own) }.map_err(|error| failed(error.into()))
    }

    /// Nothing is told any more of processes that execute this file, as long as it does not change; whether that is so: not where it was changed just
    /// now.
    ///
    /// # Errors
    /// Fails where bpf(2) does.
    pub fn drop_file(&mut self, file: &ExecutedFile, now: SystemTime) -> Result<bool, KernelError> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = u64::try_from(file.changed).map(Duration::from_secs);
        let is_settled = changed.is_ok_and(|changed| changed + SETTLED <= now);
        if file.inode == 0 || file.changed == 0 || !is_settled {
            return Ok(false);
        }
        let key = Key(discovery::FileKey::of(file));
        let state = State(discovery::FileState::of(file));
        fault::before("bpf(BPF_MAP_UPDATE_ELEM)", || "DULL".to_owned())?;
        let done = self.dull.insert(key, state, 0);
        done.map(|()| true)
            .map_err(|cause| KernelError::other("bpf(BPF_MAP_UPDATE_ELEM)", "DULL", chain(&cause)))
    }

    /// The end of a process is of interest, also where nobody has told of it: it was there before, or was only forked.
    ///
    /// # Errors
    /// Fails where bpf(2) does: there may be too many.
    pub fn follow(&mut self, pid: u32) -> Result<(), KernelError> {
        fault::before("bpf(BPF_MAP_UPDATE_ELEM)", || "TOLD".to_owned())?;
        let done = self.told.insert(pid, 0_u32, 0);
        done.map_err(|cause| KernelError::other("bpf(BPF_MAP_UPDATE_ELEM)", "TOLD", chain(&cause)))
    }

    /// The end of a process that was told of is of no interest.
    pub fn forget(&mut self, pid: u32) {
        // It may have ended.
        let _ = self.told.remove(&pid);
    }

    /// What was not told for want of room, since the last time.
    pub fn lost(&self) -> u64 {
        self.count(|control| &control.lost)
    }

    /// Programs that were executed and not told of since their files are of no interest, since the last time.
    pub fn dropped(&self) -> u64 {
        self.count(|control| &control.dropped)
    }

    fn count(&self, of: impl FnOnce(&Control) -> &AtomicU64) -> u64 {
        self.control.pointer(0).map_or(0, |control| {
            // SAFETY: the pointer is into a mapping that lives as long as `self`; what changes in it is atomic.
            of(unsafe { &*control }).swap(0, SeqCst)
        })
    }
}

impl AsFd for Discovery {
    /// Readable when something was told.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is owned by `events` and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.events.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests;
