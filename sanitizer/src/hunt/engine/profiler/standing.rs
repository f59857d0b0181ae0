//! Which sites have probes that stand, one after the other, and who has come there.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::plan::event::Stood;
use crate::hunt::plan::purse::Purse;
use crate::hunt::strategy::SiteProbe;
use crate::hunt::wire::Notice;
use crate::kernel::probes::{
    Probe, Probes,
    standing::{Change, GROUP, MOST, MOST_GROUPS, Order},
};
use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee::status::Status;

use super::place::Place;

/// From one group to the next one, at least: to arm probes takes the lock of the program's mappings, for which whoever maps memory waits.
const APART: Duration = Duration::from_millis(250);
/// The same where one group has to give way for the next one: so long each one stands, times their number.
const GIVES_WAY: Duration = Duration::from_secs(5);
/// A group takes so much of the budget to be armed and removed, as a burst does; and that may be so much of what is earned.
const COST: Duration = Duration::from_micros(1500);
const PART: f64 = 0.05;
/// So often the strategy is told who came, and to which sites nobody did.
const TOLD: Duration = Duration::from_secs(5);
/// So many of those that wait for a probe are looked at, at most, for some that are in functions in which no thread was seen.
const LOOKED_AT: usize = 4096;
/// Sites that wait for a probe, at most.
const MOST_WAITING: usize = 1 << 16;

/// See the module.
#[derive(Default)]
pub struct Standing {
    /// Sites that are to have a probe, the next one first.
    waiting: VecDeque<SiteProbe>,
    /// Instructions of those, of those that have one, and of those that are not to have one any more.
    known: HashSet<u64>,
    /// The places for probes, by their tags.
    places: Vec<Option<Place>>,
    groups: usize,
    /// When some were armed last, CLOCK_MONOTONIC, ns.
    armed_at: u64,
    /// When the strategy was told of all of them, CLOCK_MONOTONIC, ns.
    told: u64,
    /// What it is to be told next, and at which sites no probe can be had.
    news: Vec<Stood>,
    refused: Vec<u64>,
    /// It was told why some could not be armed.
    is_refusal_told: bool,
    /// Those that are hot are being removed.
    is_removing: bool,
    /// None is to stand in this program any more.
    is_over: bool,
    /// How often it had forked when it was executed.
    forks_before: u64,
    /// Traps until then, and when that was counted, CLOCK_MONOTONIC ns: nothing has changed since.
    counted: (u64, u64),
    /// How often one was armed.
    pub armed: u64,
    /// How many have proved hot.
    pub hot: u64,
}

impl Standing {
    /// Takes note of what has changed, tells the strategy where threads have come, and has some more armed.
    pub(super) fn tend(&mut self, probes: &mut Probes, rig: &mut Rig, adviser: &mut Adviser) {
        let mut why = None;
        while let Some(change) = probes.change() {
            why = self.change(change, probes, rig).or(why);
        }
        if let Some(why) = why.or_else(|| self.why_none(rig).map(str::to_owned)) {
            self.give_up(&why, probes, rig, adviser);
        }
        for probe in adviser.strategy.sites_to_probe() {
            if !self.is_over && self.waiting.len() < MOST_WAITING && self.known.insert(probe.pc) {
                self.waiting.push_back(probe);
            }
        }
        self.look_for_hot(probes);
        self.tell(probes, adviser);
        self.arm_more(probes, rig, adviser);
    }

    /// None is to stand in this program any more, for this reason.
    pub(super) fn give_up(
        &mut self,
        why: &str,
        probes: &mut Probes,
        rig: &mut Rig,
        adviser: &mut Adviser,
    ) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.tell_none(adviser);
        // Where their thread has ended, none stands any more.
        let _ = probes.clear();
        let text = format!("no probes stand any more: {why}");
        rig.outbox.send(&Notice::Debug(text));
    }

    /// Why none is to stand in this program any more, if that is so. A child that was forked has the probes in its code, and nobody counts how often it comes there; until they are
    /// removed, from its code too, it pays for that. The same where many come to whom no probe is known to be.
    fn why_none(&mut self, rig: &Rig) -> Option<&'static str> {
        /// How long nothing must have changed: while hot ones are removed many come.
        const QUIET_NS: u64 = 1_000_000_000;
        /// Traps in that time: with 0.4 us each a hundredth of a processor.
        const MOST_TRAPS: u64 = 25_000;
        let arrivals = &rig.gates.control().arrivals;
        if self.is_over {
            return None;
        }
        if arrivals.forks.load(SeqCst) != self.forks_before {
            return Some("it forks");
        }
        let (now, traps) = (monotonic_ns(), arrivals.hits.load(SeqCst));
        let (before, since) = self.counted;
        if now.saturating_sub(since) < QUIET_NS {
            return None;
        }
        self.counted = (traps, now);
        // Where it has ended by now, some kernels take nobody who comes for one of the process's.
        let first = Status::of_process(as_pid(rig.program.pid));
        if first.is_ok_and(|first| matches!(first.state, 'Z' | 'X')) {
            return Some("its first thread has ended");
        }
        let most = MOST_TRAPS.saturating_mul(now.saturating_sub(since) / QUIET_NS);
        let are_many = since != 0 && !self.is_removing && traps.saturating_sub(before) > most;
        are_many.then_some("too many come to them, whoever that is")
    }

    /// Takes note of what has changed; why none can stand in this program any more, if that is so.
    fn change(&mut self, change: Change, probes: &Probes, rig: &mut Rig) -> Option<String> {
        let now = monotonic_ns();
        self.groups = change.groups;
        self.is_removing = false;
        self.counted = (rig.gates.control().arrivals.hits.load(SeqCst), now);
        for tag in change.stands {
            if let Some(Some(place)) = self.places.get_mut(tag as usize) {
                place.stands = true;
                place.told = now;
                self.armed += 1;
                if !place.is_stale {
                    self.news.push(place.tell(probes, tag, now));
                }
            }
        }
        self.hot += change.hot.len() as u64;
        for tag in change.hot {
            self.leave(tag, probes, now);
        }
        // Of the program before, which had other places, that says nothing.
        let mut is_over = false;
        for tag in change.failed {
            is_over |= self.leave(tag, probes, now).is_some() && change.is_over;
        }
        for tag in change.refused {
            let place = self.leave(tag, probes, now);
            self.refused.extend(place.map(|place| place.probe.site));
        }
        for tag in change.fell {
            if let Some(place) = self.leave(tag, probes, now) {
                self.waiting.push_back(place.probe);
            }
        }
        if let Some(why) = &change.why
            && !std::mem::replace(&mut self.is_refusal_told, true)
        {
            let text = format!("some sites have no probes that stand: {why}");
            rig.outbox.send(&Notice::Debug(text));
        }
        change.why.filter(|_| is_over)
    }

    fn take(&mut self, tag: u32) -> Option<Place> {
        self.places.get_mut(tag as usize)?.take()
    }

    /// One does not stand any more; what it was, if the code is still the same.
    fn leave(&mut self, tag: u32, probes: &Probes, now: u64) -> Option<Place> {
        let mut place = self.take(tag).filter(|place| !place.is_stale)?;
        if std::mem::take(&mut place.stands) {
            let until = probes.hot_since(tag).unwrap_or(now);
            self.news.push(place.tell(probes, tag, until));
        }
        Some(place)
    }

    /// Whoever comes to these sites is let pass, and to others may be claimed.
    pub(super) fn spare(&mut self, probes: &Probes, sites: &[u64]) {
        let sites: HashSet<u64> = sites.iter().copied().collect();
        for (tag, place) in (0..).zip(&mut self.places) {
            let Some(place) = place.as_mut().filter(|place| place.stands) else {
                continue;
            };
            let spares = sites.contains(&place.probe.site);
            if std::mem::replace(&mut place.is_spared, spares) != spares {
                probes.spare(tag, spares);
            }
        }
    }

    /// Has those removed that are hot. The gate tells of them, too, but what it tells can be lost.
    fn look_for_hot(&mut self, probes: &mut Probes) {
        let mut places = (0..).zip(&self.places);
        let is_any_hot = places.any(|(tag, place)| {
            let stands = place.as_ref().is_some_and(|place| place.stands);
            stands && probes.is_hot(tag)
        });
        if is_any_hot && !std::mem::replace(&mut self.is_removing, true) {
            // Where their thread has ended, none stands any more.
            let _ = probes.remove_hot();
        }
    }

    /// Tells the strategy what has changed, and of all of them from time to time.
    fn tell(&mut self, probes: &Probes, adviser: &mut Adviser) {
        let now = monotonic_ns();
        if now >= self.told + nanos(TOLD) {
            self.told = now;
            for (tag, place) in (0..).zip(&mut self.places) {
                if let Some(place) = place
                    .as_mut()
                    .filter(|place| place.stands && !place.is_stale)
                {
                    self.news.push(place.tell(probes, tag, now));
                }
            }
        }
        if !self.news.is_empty() {
            adviser.strategy.stood(&std::mem::take(&mut self.news));
        }
        if !self.refused.is_empty() {
            adviser.strategy.refused(&std::mem::take(&mut self.refused));
        }
    }

    /// How long after the last ones others may be armed.
    fn apart(&self, purse: &Purse) -> Duration {
        let least = if self.groups < MOST_GROUPS {
            APART
        } else {
            GIVES_WAY
        };
        let earned = COST.as_secs_f64() / (PART * purse.income).max(f64::MIN_POSITIVE);
        least.max(Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX))
    }

    /// The place in the line of the next site: of the first in whose function no thread was seen, if there is one, as others may well prove hot.
    fn first_waiting(&self, adviser: &Adviser) -> Option<usize> {
        let mut all = self.waiting.iter().take(LOOKED_AT);
        let unseen = all.position(|probe| !adviser.strategy.is_executed(probe.site));
        unseen.or_else(|| (!self.waiting.is_empty()).then_some(0))
    }

    /// The next sites that wait for a probe in this mapping, so many at most; again first those in whose functions no thread was seen.
    fn next_waiting(
        &mut self,
        mapping: &Range<u64>,
        most: usize,
        adviser: &Adviser,
    ) -> Vec<SiteProbe> {
        let all = self.waiting.iter().take(LOOKED_AT).enumerate();
        let there = all.filter(|(_, probe)| mapping.contains(&probe.pc));
        let (executed, mut next): (Vec<_>, Vec<_>) = there
            .map(|(index, probe)| (index, *probe))
            .partition(|(_, probe)| adviser.strategy.is_executed(probe.site));
        next.extend(executed);
        next.truncate(most);
        let mut taken: Vec<usize> = next.iter().map(|(index, _)| *index).collect();
        taken.sort_unstable();
        // From behind: what is ahead of one that is taken out stays where it is.
        for index in taken.into_iter().rev() {
            self.waiting.remove(index);
        }
        next.into_iter().map(|(_, probe)| probe).collect()
    }

    /// Has the next ones armed, where the budget has something left.
    fn arm_more(&mut self, probes: &mut Probes, rig: &Rig, adviser: &Adviser) {
        let now = monotonic_ns();
        let purse = rig.means().purse;
        let is_under_way = self.places.iter().flatten().any(|place| !place.stands);
        let is_soon = now < self.armed_at.saturating_add(nanos(self.apart(&purse)));
        if is_under_way || is_soon || purse.left_s <= 0.0 {
            return;
        }
        let Some(first) = self.first_waiting(adviser) else {
            return;
        };
        let Some((mapping, file)) = rig.modules.mapping(self.waiting[first].pc) else {
            self.waiting.remove(first);
            return;
        };
        self.places.resize_with(MOST, || None);
        let free = (0..).zip(&self.places);
        let free = free.filter_map(|(tag, place)| place.is_none().then_some(tag));
        let free: Vec<u32> = free.take(GROUP).collect();
        let next = self.next_waiting(&mapping, free.len(), adviser);
        let mut armed = Vec::new();
        for (tag, probe) in free.into_iter().zip(next) {
            armed.push(Probe {
                pc: RuntimeAddr(probe.pc),
                recipe: probe.recipe,
                tag,
            });
            self.places[tag as usize] = Some(Place::of(probe, now));
        }
        self.armed_at = now;
        let tags: Vec<u32> = armed.iter().map(|probe| probe.tag).collect();
        let order = Order {
            pid: rig.program.pid,
            mapping,
            file,
            probes: armed,
        };
        if probes.stand(order).is_err() {
            for tag in tags {
                self.take(tag);
            }
        }
    }

    /// There are no probes any more. Until they are removed they are where they were.
    pub(super) fn end(&mut self, adviser: &mut Adviser) {
        self.tell_none(adviser);
    }

    /// Whether one may be at an address: it stands there, or is being armed or removed.
    pub(super) fn may_have_probe(&self, pc: u64) -> bool {
        let mut places = self.places.iter().flatten();
        places.any(|place| place.probe.pc == pc)
    }

    /// Nothing is to be probed in this code any more, and the strategy knows of it.
    fn tell_none(&mut self, adviser: &mut Adviser) {
        let mut news = std::mem::take(&mut self.news);
        let places = self.places.iter().flatten();
        let stand = places.filter(|place| place.stands && !place.is_stale);
        news.extend(stand.map(Place::gone));
        self.forget_code();
        if !news.is_empty() {
            adviser.strategy.stood(&news);
        }
    }

    /// The process executes another program, which may have some.
    pub(super) fn begin_anew(&mut self, rig: &Rig) {
        self.is_over = false;
        self.forks_before = rig.gates.control().arrivals.forks.load(SeqCst);
    }

    /// Other code may stand at all addresses now: of what was to be probed nothing is.
    pub(super) fn forget_code(&mut self) {
        self.waiting.clear();
        self.known.clear();
        self.news.clear();
        self.refused.clear();
        for place in self.places.iter_mut().flatten() {
            place.is_stale = true;
        }
    }
}
