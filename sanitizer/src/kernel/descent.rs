//! Who forks, executes and ends, of the processes below the one that was started: told by eBPF programs
//! that follow them in the kernel. A child is followed from its fork on, whoever is faster.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::Ordering::SeqCst,
};

use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{HashMap, MapData, RingBuf},
    programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _},
};
use tokio::io::unix::AsyncFd;

use gwp_race_abi::descent::{self, Control, ENDED, EXECUTES, Event, FORKED, TELLS_FORKS};

use super::{
    KernelError, btf,
    error::chain,
    executed::{self, Executed},
    fault,
    gates::{is_refusal, shared},
    object::DESCENT_OBJECT,
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
    _ebpf: Ebpf,
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
        let failed = |call, what: &str, cause: &(dyn std::error::Error + 'static)| {
            let error = KernelError::other(call, what.to_owned(), chain(cause));
            if is_refusal(cause) {
                error.into_refusal()
            } else {
                error
            }
        };
        let missing =
            |what: &str| KernelError::other("loading", what, "the eBPF object has no such thing");
        if DESCENT_OBJECT.is_empty() {
            return Err(KernelError::other(
                "loading the programs that follow children",
                "this gwp-race",
                "it was built without its eBPF objects: build it with `cargo xtask build`",
            ));
        }
        let unreadable = |cause: btf::BtfError| {
            KernelError::other("reading BTF", "the running kernel", cause.to_string())
        };
        let types = btf::read(Path::new(btf::VMLINUX_BTF)).map_err(unreadable)?;
        let types = btf::Btf::parse(&types).map_err(unreadable)?;
        let offsets = btf::KernelOffsets::from_btf(&types).map_err(unreadable)?;
        let file_offsets = executed::offsets(&types);
        fault::before("bpf(BPF_MAP_CREATE)", || "the eBPF object".to_owned())?;
        let mut loader = EbpfLoader::new();
        if let Some(bytes) = buffer {
            loader.map_max_entries("EVENTS", bytes);
        }
        let mut ebpf = loader
            .btf(None)
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .load(DESCENT_OBJECT)
            .map_err(|cause| failed("loading", "the eBPF object", &cause))?;
        let names = PROGRAMS.map(|(name, _)| name);
        for name in names.into_iter().chain([LEARN]) {
            fault::before("bpf(BPF_PROG_LOAD)", || name.to_owned())?;
            program(&mut ebpf, name)?
                .load()
                .map_err(|cause| failed("bpf(BPF_PROG_LOAD)", name, &cause))?;
        }
        // Not before: the programs name the maps by their descriptors when they are loaded.
        let mut take = |name: &str| ebpf.take_map(name).ok_or_else(|| missing(name));
        let control: SharedArray<Control> = shared(&take("CONTROL")?, 1, "CONTROL")?;
        let followed = take("FOLLOWED")?
            .try_into()
            .map_err(|cause| failed("bpf map", "FOLLOWED", &cause))?;
        let events = take("EVENTS")?
            .try_into()
            .map_err(|cause| failed("bpf map", "EVENTS", &cause))?;
        if let Some(control) = control.pointer(0) {
            // SAFETY: the pointer is into the mapping; no program runs yet that would read these.
            unsafe {
                (*control).offsets = offsets.into();
                (*control).file_offsets = file_offsets;
            }
        }
        program(&mut ebpf, LEARN)?
            .test_run(RawTracePointRunOptions::default())
            .map_err(|cause| failed("bpf(BPF_PROG_TEST_RUN)", LEARN, &cause))?;
        for (name, tracepoint) in PROGRAMS {
            fault::before("bpf(BPF_RAW_TRACEPOINT_OPEN)", || tracepoint.to_owned())?;
            program(&mut ebpf, name)?
                .attach(tracepoint)
                .map_err(|cause| failed("attaching", tracepoint, &cause))?;
        }
        Ok(Self {
            _ebpf: ebpf,
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
                    let name = String::from_utf8_lossy(text(&event.comm)).into_owned();
                    let executed = (item.len() >= size_of::<descent::Executed>()).then(|| {
                        // SAFETY: as above.
                        unsafe { item.as_ptr().cast::<descent::Executed>().read_unaligned() }
                    });
                    let executed = executed.and_then(|told| executed_of(&told));
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

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut RawTracePoint, KernelError> {
    ebpf.program_mut(name)
        .ok_or("the object has no such program")
        .and_then(|program| program.try_into().map_err(|_| "it is of another type"))
        .map_err(|cause| KernelError::other("loading", name, cause))
}

fn executed_of(told: &descent::Executed) -> Option<Executed> {
    let path = text(&told.path);
    // Without its end it may be that of another one.
    let is_whole = path.len() + 1 < descent::PATH;
    let path = if is_whole { path } else { &[] };
    (told.file.inode != 0).then(|| Executed {
        file: told.file,
        path: PathBuf::from(OsStr::from_bytes(path)),
        parent: told.event.by,
    })
}

fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
