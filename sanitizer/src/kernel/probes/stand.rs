//! The probes that stand, as the thread has them that arms and removes them.

use std::{
    collections::{BTreeSet, VecDeque},
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use gwp_race_abi::probes::cookie;

use super::{
    BurstError, Probe, Shared,
    link::Link,
    standing::{Change, GROUP, MOST, MOST_GROUPS, Order},
    text::Text,
};

/// So long it is looked whether a group is hot that was just armed, so often: what is executed all the time is not to pay for it any longer.
const TRIED: Duration = Duration::from_millis(3);
const LOOK: Duration = Duration::from_micros(250);

/// See the module.
pub(super) struct Standing<'a> {
    shared: &'a Shared,
    program: BorrowedFd<'static>,
    /// The first one stands for longest.
    groups: VecDeque<Group>,
}

/// Probes that are armed and removed together.
struct Group {
    link: Link,
    pid: u32,
    probes: Vec<Probe>,
}

impl<'a> Standing<'a> {
    pub(super) const fn new(shared: &'a Shared, program: BorrowedFd<'static>) -> Self {
        Self {
            shared,
            program,
            groups: VecDeque::new(),
        }
    }

    /// The places in a process at which some stand.
    pub(super) fn places(&self, pid: u32) -> BTreeSet<u64> {
        let groups = self.groups.iter().filter(|group| group.pid == pid);
        let probes = groups.flat_map(|group| &group.probes);
        probes.map(|probe| probe.pc.0).collect()
    }

    /// Arms some more.
    pub(super) fn stand(&mut self, order: &Order, probed: &mut BTreeSet<u64>) -> Change {
        let mut change = Change::default();
        if self.groups.len() >= MOST_GROUPS
            && let Some(group) = self.groups.pop_front()
        {
            change.fell = tags(&group.probes);
            self.end(&group.probes);
            drop(group.link);
        }
        match self.arm(order, probed) {
            Ok(group) => {
                let is_refused =
                    |probe: &&Probe| !group.probes.iter().any(|stands| stands.tag == probe.tag);
                let refused: Vec<Probe> = order.probes.iter().filter(is_refused).copied().collect();
                change.refused = tags(&refused);
                change.stands = tags(&group.probes);
                self.groups.push_back(group);
                self.try_out();
            }
            Err(error) => {
                change.refused = tags(&order.probes);
                change.why = Some(error.to_string());
            }
        }
        let hot = self.remove_hot();
        let is_gone = |tag: &u32| hot.hot.contains(tag) || hot.fell.contains(tag);
        change.stands.retain(|tag| !is_gone(tag));
        change.fell.extend(hot.fell);
        change.hot = hot.hot;
        change.groups = self.groups.len();
        change
    }

    fn arm(&self, order: &Order, probed: &mut BTreeSet<u64>) -> Result<Group, BurstError> {
        let text = Text::of(order.pid, &order.mapping)?;
        let wanted = order.probes.iter().take(GROUP);
        let wanted: Vec<Probe> = wanted
            .filter(|probe| (probe.tag as usize) < MOST)
            .copied()
            .collect();
        let stands = self.places(order.pid);
        let (probes, offsets) = text.suitable(&wanted, probed, &stands)?;
        let turn = next_turn();
        for probe in &probes {
            self.begin(probe.tag, turn);
        }
        let cookies: Vec<u64> = probes.iter().map(|probe| cookie(turn, probe.tag)).collect();
        let link = Link::new(self.program, order.pid, text.file(), &offsets, &cookies)?;
        Ok(Group {
            link,
            pid: order.pid,
            probes,
        })
    }

    /// Has those who come to a place counted from now on, from 0.
    fn begin(&self, tag: u32, turn: u64) {
        if let Some(probe) = self.shared.standing(tag) {
            for word in [
                &probe.hits,
                &probe.since_ns,
                &probe.lately,
                &probe.hot_ns,
                &probe.is_spared,
            ] {
                word.store(0, SeqCst);
            }
            probe.turn.store(turn, SeqCst);
        }
    }

    /// Waits for a time, unless some are hot.
    fn try_out(&self) {
        let end = Instant::now() + TRIED;
        while Instant::now() < end && !self.groups.iter().any(|group| self.is_hot(group)) {
            std::thread::sleep(LOOK);
        }
    }

    fn is_hot(&self, group: &Group) -> bool {
        group.probes.iter().any(|probe| self.is_probe_hot(probe))
    }

    fn is_probe_hot(&self, probe: &Probe) -> bool {
        let probe = self.shared.standing(probe.tag);
        probe.is_some_and(|probe| probe.hot_ns.load(SeqCst) != 0)
    }

    /// Removes the groups in which any is hot.
    pub(super) fn remove_hot(&mut self) -> Change {
        let mut change = Change::default();
        while let Some(index) = self.groups.iter().position(|group| self.is_hot(group)) {
            let Some(group) = self.groups.remove(index) else {
                break;
            };
            // Before all, that the program pays for it no longer.
            let Group { link, probes, .. } = group;
            drop(link);
            let (hot, fell): (Vec<Probe>, Vec<Probe>) =
                probes.iter().partition(|probe| self.is_probe_hot(probe));
            self.end(&probes);
            change.hot.extend(tags(&hot));
            change.fell.extend(tags(&fell));
        }
        change.groups = self.groups.len();
        change
    }

    /// Removes all of them, at the same time: each waits for grace periods.
    pub(super) fn clear(&mut self) -> Change {
        let mut change = Change::default();
        let groups = std::mem::take(&mut self.groups);
        for group in &groups {
            self.end(&group.probes);
            change.fell.extend(tags(&group.probes));
        }
        std::thread::scope(|scope| {
            for Group { link, .. } in groups {
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(link));
            }
        });
        change
    }

    /// Nobody is counted or claimed there any more.
    fn end(&self, probes: &[Probe]) {
        for probe in probes
            .iter()
            .filter_map(|probe| self.shared.standing(probe.tag))
        {
            probe.turn.store(0, SeqCst);
        }
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn tags(probes: &[Probe]) -> Vec<u32> {
    probes.iter().map(|probe| probe.tag).collect()
}

/// Tells those that have a place from those that had it before, whoever armed them: the places are those of the gates, which outlast a process.
fn next_turn() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, SeqCst) + 1
}
