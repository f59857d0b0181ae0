//! The kernel's probes (uprobes) at places of a process. In bursts they stand at many places at once for some milliseconds, and a program notes who comes there and which address he
//! is about to use: nobody is stopped, and no signal is sent. Or they stand where hardly anybody comes ([`standing`]), and a gate may stop who does.
//!
//! What the kernel does for it: each probed page of code gets a private copy in the process, with `int3` at the place, and has the file's bytes again when
//! the probe is removed, also where whoever holds it is killed. Arming and removing take the process's `mmap_lock` for writing, and wait for grace periods of RCU
//! (some 40 ms). So a thread of its own does both, with a table of descriptors of its own: who dies meanwhile does not wait for it, either, and those that he
//! holds are let go at once.
//!
//! Source: `kernel/events/uprobes.c`, and `bpf_uprobe_multi_link_attach` in `kernel/trace/bpf_trace.c`.

mod arm;
mod ask;
mod error;
mod link;
mod load;
mod stand;
pub mod standing;
mod text;

use std::{
    collections::VecDeque,
    ops::Range,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use gwp_race_abi::{NO_REGISTER, probes as abi};

use super::{KernelError, fault, foreign::FileIdentity, process::Employer, shared::SharedArray};
use crate::{addr::RuntimeAddr, insn::x86_64::Recipe};

pub use error::{BurstError, Obstacle};
pub use load::{OLDEST_KERNEL, is_new_enough};

/// Probes that one burst can have.
pub const MOST_PROBES: usize = abi::PROBES;

/// Pages of code that get private copies for one burst, or one group of probes that stand, at most.
pub const MOST_PAGES: usize = 64;

/// Pages of code that get private copies in one process, at most. The kernel does not always take them back: from Linux 6.15 on it leaves such a page, which has the same bytes as
/// the file then, where anybody else refers to it at that moment (`__uprobe_write` in `kernel/events/uprobes.c`), and that is so for new ones.
pub const MOST_COPIES: usize = 1024;

/// No burst lasts longer, whatever is asked for: should whoever has asked for it hang, it ends all the same.
const LONGEST: Duration = Duration::from_secs(60);

/// A place to look at.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// The instruction: one that [`may_be_probed`](crate::insn::x86_64::may_be_probed).
    pub pc: RuntimeAddr,
    /// What to compute from the registers there.
    pub recipe: Recipe,
    /// The caller's own name for it.
    pub tag: u32,
}

/// What is to be looked at, and how long.
#[derive(Clone, Debug)]
pub struct Order {
    /// The process, which this one may trace.
    pub pid: u32,
    /// The mapping of code in which all probes are: its first address, and the first one behind it.
    pub mapping: Range<u64>,
    /// The file in which they were found; nothing is probed where another one is mapped by now.
    pub file: FileIdentity,
    /// At most [`MOST_PROBES`]; of further ones, and of those on more pages than [`MOST_PAGES`], nothing is seen.
    pub probes: Vec<Probe>,
    /// From when all are armed until nothing is noted any more: a minute at most.
    pub duration: Duration,
    /// So many hits of one probe are noted: what comes more often is hot, and let alone.
    pub hits_per_probe: u64,
    /// So many hits of all end the burst.
    pub most_hits: u64,
}

/// Somebody was about to use an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The probe's.
    pub tag: u32,
    /// The thread.
    pub tid: u32,
    /// When he came to the probe: CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// The address.
    pub address: u64,
}

/// What has come of a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// In the order in which they were noted.
    pub uses: Vec<Use>,
    /// Those that were armed, by tag, with the number of arrivals; of a hot one some were not counted any more when the burst was over.
    pub arrivals: Vec<(u32, u64)>,
    /// When it began to note, and when it ended: CLOCK_MONOTONIC, ns.
    pub noted_ns: Range<u64>,
    /// There were as many hits as it may have, or no room for more.
    pub was_cut: bool,
    /// Traps that it has cost the program, also while probes were armed and removed. Each takes as long as an exception does and a microsecond.
    pub hits: u64,
    /// CPU time for arming and removing, ns. (The clock counts it as well.)
    pub cpu_ns: u64,
}

/// See the module.
pub struct Probes {
    /// It has the maps, which the program names by their descriptors.
    _ebpf: aya::Ebpf,
    programs: Programs,
    shared: Arc<Shared>,
    /// The thread, once there was anything to do: it is not there after a fork.
    thread: Option<Thread>,
    is_busy: bool,
    /// What has come of the burst, and of probes that stand, and was not asked for yet.
    outcome: Option<Result<Outcome, BurstError>>,
    changes: VecDeque<standing::Change>,
    bursts: u64,
    /// The process of the last burst.
    pid: u32,
}

/// By their descriptors.
struct Programs {
    burst: OwnedFd,
    standing: OwnedFd,
}

struct Thread {
    orders: Sender<arm::Task>,
    news: Receiver<arm::News>,
}

/// What the thread and its employer have in common.
struct Shared {
    control: SharedArray<abi::Control>,
    probes: SharedArray<abi::Probe>,
    uses: SharedArray<abi::Use>,
    standing: SharedArray<abi::StandingProbe>,
    employer: Employer,
    /// The burst is to end now.
    stop: AtomicBool,
}

impl Probes {
    /// Begins a burst, of which [`Probes::take`] tells when it is over and all is as before: after its duration and some 40 ms. Nothing is waited for.
    ///
    /// # Errors
    /// Fails while there is one, and where no thread can be had.
    pub fn start(&mut self, order: Order) -> Result<(), KernelError> {
        if self.is_busy {
            let why = "the one before is not over";
            return Err(KernelError::other("starting", "a burst of probes", why));
        }
        self.shared.stop.store(false, SeqCst);
        let duration = order.duration.min(LONGEST);
        let burst = self.bursts + 1;
        let is_another_process = self.is_another(order.pid);
        self.ask(arm::Task::Burst {
            burst,
            is_another_process,
            order: Order { duration, ..order },
        })?;
        self.bursts = burst;
        self.is_busy = true;
        Ok(())
    }

    /// Whether the last probes were for another process, or another program of it.
    const fn is_another(&mut self, pid: u32) -> bool {
        let last = self.pid;
        self.pid = pid;
        last != pid
    }

    /// Hands something to the thread, which is there then.
    fn ask(&mut self, task: arm::Task) -> Result<(), KernelError> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => self.employ()?,
        };
        let sent = thread.orders.send(task);
        // Where it has ended, another one takes its place next time.
        sent.map_err(|_| KernelError::other("asking", "for probes", "their thread is gone"))?;
        self.thread = Some(thread);
        Ok(())
    }

    fn employ(&self) -> Result<Thread, KernelError> {
        fault::before("clone", || "the thread for probes".to_owned())?;
        let (orders, ordered) = mpsc::channel();
        let (told, news) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let shared = Arc::clone(&self.shared);
        let (burst, standing) = (&self.programs.burst, &self.programs.standing);
        let programs = [burst.as_raw_fd(), standing.as_raw_fd()];
        std::thread::Builder::new()
            .name("gwp-race-probes".to_owned())
            .spawn(move || {
                let prepared = arm::prepare(&shared, programs);
                let programs = prepared.as_ref().ok().copied();
                let told_ready = ready.send(prepared.map(drop));
                if let (Some(programs), Ok(())) = (programs, told_ready) {
                    arm::serve(&shared, programs, &ordered, &told);
                }
            })
            .map_err(|cause| KernelError::other("clone", "the thread for probes", cause))?;
        // Until it has a table of its own, the descriptors must not be closed in this one.
        let gone = |_| KernelError::other("clone", "the thread for probes", "it is gone");
        is_ready.recv().map_err(gone)??;
        Ok(Thread { orders, news })
    }

    /// Whether a burst was started of which [`Probes::take`] has not told yet.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether all probes of a burst stand, and the program notes who comes to them.
    #[must_use]
    pub fn is_noting(&self) -> bool {
        self.shared.control().burst.load(SeqCst) != 0
    }

    /// Readable when a burst is over, or probes stand that did not, or the other way round.
    #[must_use]
    pub fn news(&self) -> BorrowedFd<'_> {
        self.shared.employer.bell.as_fd()
    }

    /// What has come of the burst, when it is over.
    pub fn take(&mut self) -> Option<Result<Outcome, BurstError>> {
        self.hear();
        let outcome = self.outcome.take()?;
        self.is_busy = false;
        Some(outcome)
    }

    /// Hears what the thread has to tell.
    fn hear(&mut self) {
        self.shared.employer.bell.silence();
        loop {
            let Some(thread) = &self.thread else {
                return;
            };
            match thread.news.try_recv() {
                Ok(arm::News::Burst(outcome)) => self.outcome = Some(outcome),
                Ok(arm::News::Standing(change)) => self.changes.push_back(change),
                Err(mpsc::TryRecvError::Empty) => return,
                Err(mpsc::TryRecvError::Disconnected) => {
                    self.thread = None;
                    if self.is_busy {
                        let why = "its thread is gone";
                        let error = KernelError::other("waiting", "a burst of probes", why);
                        self.outcome = Some(Err(error.into()));
                    }
                }
            }
        }
    }

    /// The process executes another program now: none of its pages had probes.
    pub const fn forget(&mut self) {
        self.pid = 0;
    }

    /// Ends a burst now, if there is one: nothing is noted from here on, and its probes are being removed.
    pub fn stop_burst(&self) {
        self.shared.stop.store(true, SeqCst);
        self.shared.close();
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // Its thread ends when it has removed what is armed. It is not waited for.
        self.stop_burst();
        self.shared.stand_for_nothing();
    }
}

impl Shared {
    fn control(&self) -> &abi::Control {
        let pointer = self.control.pointer(0).expect("the map has one value");
        // SAFETY: the pointer is into a mapping that lives as long as `self`; all fields that change after loading are atomics.
        unsafe { &*pointer }
    }

    /// Has nothing noted any more.
    fn close(&self) {
        self.control().burst.store(0, SeqCst);
    }

    fn is_over(&self) -> bool {
        self.control().is_over.load(SeqCst) != 0 || self.stop.load(SeqCst)
    }

    /// Makes ready for a burst of these probes, while none of another one is armed.
    fn prepare(&self, order: &Order, probes: &[Probe]) {
        let control = self.control();
        control.tgid.store(u64::from(order.pid), SeqCst);
        control.hits_per_probe.store(order.hits_per_probe, SeqCst);
        control.most_hits.store(order.most_hits, SeqCst);
        for word in [
            &control.is_over,
            &control.hits,
            &control.burst_hits,
            &control.taken,
        ] {
            word.store(0, SeqCst);
        }
        for (place, probe) in probes.iter().enumerate() {
            if let Some(pointer) = self.probes.pointer(place) {
                // SAFETY: the pointer is into the mapping, and the program reads none of these before one of this burst is armed.
                unsafe {
                    (*pointer).recipe = of_recipe(&probe.recipe);
                    (*pointer).hits.store(0, SeqCst);
                }
            }
        }
    }

    /// How often threads have come to a probe.
    fn arrivals(&self, place: usize) -> u64 {
        self.probes.pointer(place).map_or(0, |probe| {
            // SAFETY: the pointer is into a mapping that lives as long as `self`; the field is atomic.
            unsafe { (*probe).hits.load(SeqCst) }
        })
    }

    /// What a burst has noted.
    fn uses(&self, burst: u64, probes: &[Probe]) -> Vec<Use> {
        let taken = usize::try_from(self.control().taken.load(SeqCst)).unwrap_or(abi::USES);
        let noted = (0..taken.min(abi::USES)).filter_map(|place| {
            let noted = self.uses.pointer(place)?;
            // SAFETY: the pointer is into the mapping. The burst's number is written last, and nothing is written in its place in that burst any more.
            let (probe, tid, at_ns, address) = unsafe {
                if (*noted).burst.load(SeqCst) != burst {
                    return None;
                }
                (
                    (*noted).probe,
                    (*noted).tid,
                    (*noted).time_ns,
                    (*noted).address,
                )
            };
            let tag = probes.get(usize::try_from(probe).ok()?)?.tag;
            Some(Use {
                tag,
                tid,
                at_ns,
                address,
            })
        });
        noted.collect()
    }
}

/// The program's form of it.
fn of_recipe(recipe: &Recipe) -> abi::Recipe {
    abi::Recipe {
        base: recipe.base.map_or(NO_REGISTER, u64::from),
        index: recipe.index.map_or(NO_REGISTER, u64::from),
        shift: u64::from(recipe.shift),
        index_after: u64::from(recipe.index_after),
        dereferences: u64::from(recipe.dereferences),
        displacements: recipe.displacements,
    }
}

#[cfg(test)]
mod tests;
