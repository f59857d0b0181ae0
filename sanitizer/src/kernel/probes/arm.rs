//! The thread that arms probes and removes them: those of a burst, for which it waits meanwhile, and those that stand.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd as _, BorrowedFd, RawFd},
    sync::{
        atomic::Ordering::SeqCst,
        mpsc::{Receiver, Sender},
    },
    time::{Duration, Instant},
};

use gwp_race_abi::probes::cookie;

use crate::kernel::{
    KernelError, descriptors,
    process::{self, Urgency},
};

use super::{
    BurstError, Order, Outcome, Probe, Shared, link::Link, stand::Standing, standing, text::Text,
};

/// How often it is looked whether there were as many hits as there may be.
const LOOK: Duration = Duration::from_micros(500);

/// What is to be done.
pub(super) enum Task {
    /// A burst.
    Burst {
        burst: u64,
        order: Order,
        /// What was done before was for another process, or another program of it.
        is_another_process: bool,
    },
    /// Probes that are to stand; in the place of those that have stood for longest, if there is no room else.
    Stand {
        order: standing::Order,
        is_another_process: bool,
    },
    /// Some that stand are hot.
    RemoveHot,
    /// None is to stand any more.
    Clear,
}

/// What is told.
pub(super) enum News {
    Burst(Result<Outcome, BurstError>),
    Standing(standing::Change),
}

/// The programs, in the thread's own table of descriptors.
#[derive(Clone, Copy)]
pub(super) struct Programs {
    burst: BorrowedFd<'static>,
    standing: BorrowedFd<'static>,
}

/// Gives the calling thread a table of descriptors of its own, with the programs in it, whose numbers these are, and with the bell and the maps: probes end
/// with their descriptors, which takes its time. So nobody who ends closes them but this thread, and this thread keeps nothing open of others.
///
/// # Errors
/// Fails where unshare(2) does.
pub(super) fn prepare(shared: &Shared, programs: [RawFd; 2]) -> Result<Programs, KernelError> {
    // To arm and to remove takes the lock of the program's mappings: whoever maps memory there stands still until this thread has run, and so does the tracer when it reads
    // the program's memory, with a thread held.
    process::hurry(Urgency::Urgent);
    // SAFETY: whoever has started this thread keeps them open until it is told that this is done. From then on the numbers are those of the
    // thread's own table, in which nobody closes them.
    let [burst, standing] = programs.map(|program| unsafe { BorrowedFd::borrow_raw(program) });
    descriptors::own_table_of_maps(&[burst, standing, shared.employer.bell.as_fd()])
        .map_err(|cause| KernelError::other("unshare", "the descriptors of probes", cause))?;
    Ok(Programs { burst, standing })
}

/// Does what is asked for, until nobody can ask any more.
pub(super) fn serve(
    shared: &Shared,
    programs: Programs,
    tasks: &Receiver<Task>,
    told: &Sender<News>,
) {
    // Pages that had probes, by their numbers.
    let mut probed = BTreeSet::new();
    let mut standing = Standing::new(shared, programs.standing);
    for task in tasks {
        let news = match task {
            Task::Burst {
                burst: number,
                order,
                is_another_process,
            } => {
                if is_another_process {
                    probed.clear();
                }
                let stands = standing.places(order.pid);
                let outcome = burst(
                    shared,
                    programs.burst,
                    number,
                    &order,
                    (&mut probed, &stands),
                );
                News::Burst(outcome)
            }
            Task::Stand {
                order,
                is_another_process,
            } => {
                if is_another_process {
                    probed.clear();
                }
                News::Standing(standing.stand(&order, &mut probed))
            }
            Task::RemoveHot => News::Standing(standing.remove_hot()),
            Task::Clear => News::Standing(standing.clear()),
        };
        if told.send(news).is_err() {
            return;
        }
        shared.employer.tell();
    }
}

/// `probed`: pages that had probes; `stands`: the places at which some stand.
fn burst(
    shared: &Shared,
    program: BorrowedFd<'_>,
    burst: u64,
    order: &Order,
    (probed, stands): (&mut BTreeSet<u64>, &BTreeSet<u64>),
) -> Result<Outcome, BurstError> {
    let begun_ns = process::thread_cpu_time_ns();
    let text = Text::of(order.pid, &order.mapping, order.file)?;
    let (probes, offsets) = text.suitable(&order.probes, probed, stands)?;
    let places = 0..u32::try_from(probes.len()).unwrap_or(0);
    let cookies: Vec<u64> = places.map(|place| cookie(burst, place)).collect();
    shared.prepare(order, &probes);
    let link = Link::new(program, order.pid, text.file(), &offsets, &cookies)?;
    let noted_ns = note(shared, burst, order.duration);
    drop(link);
    Ok(outcome(shared, burst, &probes, noted_ns, begun_ns))
}

/// Has the program note what happens for a time: from when to when it did.
fn note(shared: &Shared, burst: u64, duration: Duration) -> std::ops::Range<u64> {
    let from = process::monotonic_ns();
    let end = Instant::now() + duration;
    shared.control().burst.store(burst, SeqCst);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.is_over() {
            break;
        }
        std::thread::sleep(left.min(LOOK));
    }
    shared.close();
    from..process::monotonic_ns()
}

/// What has come of it, now that no probe stands any more.
fn outcome(
    shared: &Shared,
    burst: u64,
    probes: &[Probe],
    noted_ns: std::ops::Range<u64>,
    begun_ns: u64,
) -> Outcome {
    let arrivals = probes.iter().enumerate();
    Outcome {
        uses: shared.uses(burst, probes),
        arrivals: arrivals
            .map(|(place, probe)| (probe.tag, shared.arrivals(place)))
            .collect(),
        noted_ns,
        was_cut: shared.control().is_over.load(SeqCst) != 0,
        hits: shared.control().hits.load(SeqCst),
        cpu_ns: process::thread_cpu_time_ns().saturating_sub(begun_ns),
    }
}
