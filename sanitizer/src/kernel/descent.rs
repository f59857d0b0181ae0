//! Who forks, executes and ends, of the processes below the one that was started: told by eBPF programs
//! that follow them in the kernel. A child is followed from its fork on, whoever is faster.

use std::{
    collections::HashSet,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::atomic::Ordering::SeqCst,
};

use aya::maps::{HashMap, MapData, RingBuf};
use tokio::io::unix::AsyncFd;

use gwp_race_abi::descent::{self, Control, ENDED, EXECUTES, Event, FORKED, TELLS_FORKS};

use super::{
    KernelError, btf,
    error::chain,
    executed::{self, Executed, told_text},
    fault,
    gates::shared,
    object::DESCENT_OBJECT,
    raw_tracepoints::{RawTracepoints, of_kernel},
    shared::SharedArray,
};

/// The programs, and the tracepoints that they are attached to.
const PROGRAMS: [(&str, &str); 3] = [
    ("descent_fork", "task_newtask"),
    ("descent_exec", "sched_process_exec"),
    ("descent_exit", "sched_process_exit"),
];

/// The one that the daemon runs itself.
const LEARN: &str = "descent_learn";

/// What a followed process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It was forked.
    Forked {
        /// The process.
        pid: u32,
        /// By whom.
        parent: u32,
    },
    /// It executes another program from now on.
    Executes {
        /// The process.
        pid: u32,
        /// The first 15 bytes of the program's name.
        name: String,
        /// The program's file, where that is known.
        executed: Option<Executed>,
    },
    /// It has ended.
    Ended {
        /// The process.
        pid: u32,
    },
}

/// See the module.
pub struct Descent {
    /// What it is attached by ends with it.
    _programs: RawTracepoints,
    control: SharedArray<Control>,
    followed: HashMap<MapData, u32, u32>,
    events: RingBuf<MapData>,
}

impl Descent {
    /// Loads the programs and attaches them. Nobody is followed yet.
    ///
    /// # Errors
    /// Fails without the object, the rights or the features.
    pub fn load() -> Result<Self, KernelError> {
        Self::load_with(None)
    }

    /// `buffer`: bytes for what is told and not read yet, where not as many as usual.
    fn load_with(buffer: Option<u32>) -> Result<Self, KernelError> {
        let (offsets, file_offsets) = of_kernel(|types| {
            let offsets = btf::KernelOffsets::from_btf(types)?;
            Ok((offsets, executed::offsets(types)))
        })?;
        let mut names = PROGRAMS.map(|(name, _)| name).to_vec();
        names.push(LEARN);
        let mut programs = RawTracepoints::load(
            DESCENT_OBJECT,
            "loading the programs that follow children",
            &names,
            buffer.map(|bytes| ("EVENTS", bytes)),
        )?;
        let control: SharedArray<Control> = shared(&programs.map("CONTROL")?, 1, "CONTROL")?;
        let followed = programs.map_as("FOLLOWED")?;
        let events = programs.map_as("EVENTS")?;
        if let Some(control) = control.pointer(0) {
            // SAFETY: the pointer is into the mapping; no program runs yet that would read these.
            unsafe {
                (*control).offsets = offsets.into();
                (*control).file_offsets = file_offsets;
            }
        }
        programs.run(LEARN)?;
        programs.attach(&PROGRAMS)?;
        Ok(Self {
            _programs: programs,
            control,
            followed,
            events,
        })
    }

    /// Lets the runtime tell when something is there to be read.
    ///
    /// # Errors
    /// Fails outside of a runtime, and where epoll_ctl(2) does.
    pub fn awaited(self) -> Result<AsyncFd<Self>, KernelError> {
        // SAFETY: the descriptor is the ring buffer's, always the same one, and is open until `self` is dropped.
        unsafe { AsyncFd::register(self) }
            .map_err(|cause| KernelError::other("epoll_ctl", "a ring buffer", cause))
    }

    /// Follows a process and those that it forks from now on.
    ///
    /// # Errors
    /// Fails where bpf(2) does.
    pub fn follow(&mut self, pid: u32) -> Result<(), KernelError> {
        self.note(pid, TELLS_FORKS, 0)
    }

    /// Whether forks of a followed process, and of those that it will fork, are told of as long as they execute
    /// the same program. One that has ended is no error.
    ///
    /// # Errors
    /// Fails where bpf(2) does.
    pub fn tell_forks(&mut self, pid: u32, tell: bool) -> Result<(), KernelError> {
        /// Only what is there is changed (`include/uapi/linux/bpf.h`).
        const BPF_EXIST: u64 = 2;
        let noted = if tell { TELLS_FORKS } else { 0 };
        match self.note(pid, noted, BPF_EXIST) {
            Err(error) if self.followed.get(&pid, 0).is_ok() => Err(error),
            _ => Ok(()),
        }
    }

    fn note(&mut self, pid: u32, noted: u32, flags: u64) -> Result<(), KernelError> {
        fault::before("bpf(BPF_MAP_UPDATE_ELEM)", || "FOLLOWED".to_owned())?;
        self.followed.insert(pid, noted, flags).map_err(|cause| {
            KernelError::other("bpf(BPF_MAP_UPDATE_ELEM)", "FOLLOWED", chain(&cause))
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
                FORKED => {
                    let parent = event.by;
                    return Some(News::Forked { pid, parent });
                }
                EXECUTES => {
                    let name = String::from_utf8_lossy(told_text(&event.comm)).into_owned();
                    let executed = (item.len() >= size_of::<descent::Executed>()).then(|| {
                        // SAFETY: as above.
                        unsafe { item.as_ptr().cast::<descent::Executed>().read_unaligned() }
                    });
                    let executed = executed
                        .and_then(|told| Executed::told(told.file, &told.path, told.event.by));
                    return Some(News::Executes {
                        pid,
                        name,
                        executed,
                    });
                }
                ENDED => return Some(News::Ended { pid }),
                _ => {}
            }
        }
    }

    /// Who is followed at this moment.
    #[must_use]
    pub fn followed(&self) -> HashSet<u32> {
        // One that is forked or ends meanwhile may be missed or come twice.
        self.followed.keys().filter_map(Result::ok).collect()
    }

    /// What was not told for want of room, since the last time.
    pub fn lost(&self) -> u64 {
        self.control.pointer(0).map_or(0, |control| {
            // SAFETY: the pointer is into a mapping that lives as long as `self`; the field is atomic.
            unsafe { (*control).lost.swap(0, SeqCst) }
        })
    }

    /// Processes that could not be followed, since as many are as can be ([`descent::MOST`]); those since the last time.
    pub fn unfollowed(&self) -> u64 {
        self.control.pointer(0).map_or(0, |control| {
            // SAFETY: as above.
            unsafe { (*control).unfollowed.swap(0, SeqCst) }
        })
    }
}

impl AsFd for Descent {
    /// Readable when something was told.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is owned by `events` and lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.events.as_raw_fd()) }
    }
}

impl AsRawFd for Descent {
    fn as_raw_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }
}

#[cfg(test)]
mod tests;
