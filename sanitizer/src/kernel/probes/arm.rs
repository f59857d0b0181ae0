//! The thread that arms the probes of a burst, waits and removes them.

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

use super::{BurstError, Order, Outcome, Probe, Shared, link::Link, text::Text};

/// How often it is looked whether there were as many hits as there may be.
const LOOK: Duration = Duration::from_micros(500);

/// A burst that is to be.
pub(super) struct Task {
    pub(super) burst: u64,
    pub(super) order: Order,
    /// The one before was for another process, or another program of it.
    pub(super) is_another_process: bool,
}

/// Gives the calling thread a table of descriptors of its own, with the program in it, whose number this is, and with the bell and the maps: probes end
/// with their descriptors, which takes its time. So nobody who ends closes them but this thread, and this thread keeps nothing open of others.
///
/// # Errors
/// Fails where unshare(2) does.
pub(super) fn prepare(shared: &Shared, program: RawFd) -> Result<BorrowedFd<'static>, KernelError> {
    process::hurry(Urgency::Usual);
    // SAFETY: whoever has started this thread keeps it open until it is told that this is done. From then on the number is that of the
    // thread's own table, in which nobody closes it.
    let program = unsafe { BorrowedFd::borrow_raw(program) };
    descriptors::own_table_of_maps(&[program, shared.bell.as_fd()])
        .map_err(|cause| KernelError::other("unshare", "the descriptors of probes", cause))?;
    Ok(program)
}

/// Does what is asked for, until nobody can ask any more.
pub(super) fn serve(
    shared: &Shared,
    program: BorrowedFd<'_>,
    orders: &Receiver<Task>,
    outcomes: &Sender<Result<Outcome, BurstError>>,
) {
    let mut probed = BTreeSet::new();
    for task in orders {
        if task.is_another_process {
            probed.clear();
        }
        let outcome = burst(shared, program, &task, &mut probed);
        if outcomes.send(outcome).is_err() {
            return;
        }
        shared.bell.ring();
    }
}

fn burst(
    shared: &Shared,
    program: BorrowedFd<'_>,
    task: &Task,
    probed: &mut BTreeSet<u64>,
) -> Result<Outcome, BurstError> {
    let begun_ns = process::thread_cpu_time_ns();
    let Task { burst, order, .. } = task;
    let text = Text::of(order.pid, &order.mapping)?;
    let (probes, offsets) = text.suitable(&order.probes, probed)?;
    let places = 0..u32::try_from(probes.len()).unwrap_or(0);
    let cookies: Vec<u64> = places.map(|place| cookie(*burst, place)).collect();
    shared.prepare(order, &probes);
    let link = Link::new(program, order.pid, text.file(), &offsets, &cookies)?;
    let noted_ns = note(shared, *burst, order.duration);
    drop(link);
    Ok(outcome(shared, *burst, &probes, noted_ns, begun_ns))
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
