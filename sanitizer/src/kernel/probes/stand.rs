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
    /// Of its places: they are its own as long as they say so.
    turn: u64,
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
            self.end(&group);
            drop(group.link);
        }
        match self.arm(order, probed) {
            Ok((group, taken)) => {
                let is_refused = |tag: &u32| {
                    !taken.contains(tag) && !group.probes.iter().any(|stands| stands.tag == *tag)
                };
                change.refused = tags(&order.probes);
                change.refused.retain(is_refused);
                // Who has them has ended, and is about to give them free.
                change.fell.extend(taken);
                change.stands = tags(&group.probes);
                self.groups.push_back(group);
                self.try_out();
            }
            Err(error) => {
                let tags = tags(&order.probes);
                if error.is_refusal() {
                    change.refused = tags;
                } else {
                    change.failed = tags;
                }
                change.why = Some(error.to_string());
                change.is_over = error.is_of_process();
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

    /// The group that stands then, and the tags of probes whose places another one has.
    fn arm(
        &self,
        order: &Order,
        probed: &mut BTreeSet<u64>,
    ) -> Result<(Group, Vec<u32>), BurstError> {
        let text = Text::of(order.pid, &order.mapping, order.file)?;
        let wanted = order.probes.iter().take(GROUP);
        let wanted: Vec<Probe> = wanted
            .filter(|probe| (probe.tag as usize) < MOST)
            .copied()
            .collect();
        let stands = self.places(order.pid);
        let (probes, offsets) = text.suitable(&wanted, probed, &stands)?;
        let turn = next_turn();
        let all = probes.into_iter().zip(offsets);
        let (free, taken): (Vec<_>, Vec<_>) =
            all.partition(|(probe, _)| self.begin(probe.tag, turn));
        let (probes, offsets): (Vec<Probe>, Vec<u64>) = free.into_iter().unzip();
        let taken = taken.into_iter().map(|(probe, _)| probe.tag).collect();
        let cookies: Vec<u64> = probes.iter().map(|probe| cookie(turn, probe.tag)).collect();
        match Link::new(self.program, order.pid, text.file(), &offsets, &cookies) {
            Ok(link) => {
                let group = Group {
                    link,
                    pid: order.pid,
                    turn,
                    probes,
                };
                Ok((group, taken))
            }
            Err(error) => {
                self.give_free(&probes, turn);
                Err(error.into())
            }
        }
    }

    /// Has those who come to a place counted from now on, from 0; false where another group has it, of whoever was here before, too.
    fn begin(&self, tag: u32, turn: u64) -> bool {
        let Some(probe) = self.shared.standing(tag) else {
            return false;
        };
        let is_free = probe.turn.compare_exchange(0, turn, SeqCst, SeqCst).is_ok();
        if is_free {
            for word in [
                &probe.hits,
                &probe.since_ns,
                &probe.lately,
                &probe.hot_ns,
                &probe.is_spared,
            ] {
                word.store(0, SeqCst);
            }
        }
        is_free
    }

    /// Waits for a time, unless some are hot.
    fn try_out(&self) {
        let end = Instant::now() + TRIED;
        while Instant::now() < end && !self.groups.iter().any(|group| self.is_hot(group)) {
            std::thread::sleep(LOOK);
        }
    }

    fn is_hot(&self, group: &Group) -> bool {
        let mut probes = group.probes.iter();
        probes.any(|probe| self.shared.is_hot(probe.tag))
    }

    /// Removes the groups in which any is hot.
    pub(super) fn remove_hot(&mut self) -> Change {
        let mut change = Change::default();
        while let Some(index) = self.groups.iter().position(|group| self.is_hot(group)) {
            let Some(group) = self.groups.remove(index) else {
                break;
            };
            // Before all, that the program pays for it no longer.
            let Group {
                link, turn, probes, ..
            } = group;
            drop(link);
            let (hot, fell): (Vec<Probe>, Vec<Probe>) = probes
                .iter()
                .partition(|probe| self.shared.is_hot(probe.tag));
            self.give_free(&probes, turn);
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
            self.end(group);
            change.fell.extend(tags(&group.probes));
        }
        let clock = &self.shared.employer.clock;
        std::thread::scope(|scope| {
            for Group { link, .. } in groups {
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                    drop(link);
                    clock.hand_over();
                });
            }
        });
        change
    }

    /// Nobody is counted or claimed there any more.
    fn end(&self, group: &Group) {
        self.give_free(&group.probes, group.turn);
    }

    /// The same, of places that had this turn: those that another group has by now are its own.
    fn give_free(&self, probes: &[Probe], turn: u64) {
        for probe in probes
            .iter()
            .filter_map(|probe| self.shared.standing(probe.tag))
        {
            let _ = probe.turn.compare_exchange(turn, 0, SeqCst, SeqCst);
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
