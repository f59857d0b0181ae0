//! Which sites have probes that stand, one after the other, and who has come there.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::rig::Rig;
use crate::hunt::strategy::SiteProbe;
use crate::hunt::wire::Notice;
use crate::kernel::probes::{
    Probe, Probes,
    standing::{Change, GROUP, MOST, MOST_GROUPS, Order},
};
use crate::kernel::process::{monotonic_ns, nanos};

/// From one group to the next one, at least: to arm probes takes the lock of the program's mappings, for which whoever maps memory waits.
const APART: Duration = Duration::from_millis(250);
/// The same where one group has to give way for the next one: so long each one stands, times their number.
const GIVES_WAY: Duration = Duration::from_secs(5);
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
    /// Before this time none is armed, CLOCK_MONOTONIC, ns.
    next: u64,
    /// How many there are, as the strategy was told.
    told: usize,
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

/// A place that is taken.
struct Place {
    probe: SiteProbe,
    /// It is armed; otherwise it is to be.
    stands: bool,
    /// Arrivals of which the strategy was told.
    counted: u64,
    /// The code may be another one by now.
    is_stale: bool,
}

impl Standing {
    /// Takes note of what has changed, tells the strategy where threads have come, and has some more armed.
    pub(super) fn tend(&mut self, probes: &mut Probes, rig: &mut Rig, adviser: &mut Adviser) {
        while let Some(change) = probes.change() {
            self.change(change, rig);
        }
        if let Some(why) = self.why_none(rig) {
            self.is_over = true;
            self.forget_code();
            // Where their thread has ended, none stands any more.
            let _ = probes.clear();
            let text = format!("no probes stand any more: {why}");
            rig.outbox.send(&Notice::Debug(text));
        }
        for probe in adviser.strategy.sites_to_probe() {
            if !self.is_over && self.waiting.len() < MOST_WAITING && self.known.insert(probe.pc) {
                self.waiting.push_back(probe);
            }
        }
        self.tell(probes, rig, adviser);
        self.arm_more(probes, rig);
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
        let most = MOST_TRAPS.saturating_mul(now.saturating_sub(since) / QUIET_NS);
        let are_many = since != 0 && !self.is_removing && traps.saturating_sub(before) > most;
        are_many.then_some("too many come to them, whoever that is")
    }

    fn change(&mut self, change: Change, rig: &mut Rig) {
        self.groups = change.groups;
        self.is_removing = false;
        self.counted = (
            rig.gates.control().arrivals.hits.load(SeqCst),
            monotonic_ns(),
        );
        for tag in change.stands {
            if let Some(Some(place)) = self.places.get_mut(tag as usize) {
                place.stands = true;
                self.armed += 1;
            }
        }
        self.hot += change.hot.len() as u64;
        for tag in change.hot.into_iter().chain(change.refused) {
            self.take(tag);
        }
        for tag in change.fell {
            if let Some(place) = self.take(tag).filter(|place| !place.is_stale) {
                self.waiting.push_back(place.probe);
            }
        }
        if let Some(why) = change.why
            && !std::mem::replace(&mut self.is_refusal_told, true)
        {
            let text = format!("some sites have no probes that stand: {why}");
            rig.outbox.send(&Notice::Debug(text));
        }
    }

    fn take(&mut self, tag: u32) -> Option<Place> {
        self.places.get_mut(tag as usize)?.take()
    }

    /// How many stand.
    fn count(&self) -> usize {
        let places = self.places.iter().flatten();
        places.filter(|place| place.stands).count()
    }

    fn tell(&mut self, probes: &mut Probes, rig: &Rig, adviser: &mut Adviser) {
        let mut is_any_hot = false;
        for (tag, place) in (0..).zip(&mut self.places) {
            let Some(place) = place.as_mut().filter(|place| place.stands) else {
                continue;
            };
            is_any_hot |= probes.is_hot(tag);
            let arrivals = probes.arrivals(tag);
            if arrivals > std::mem::replace(&mut place.counted, arrivals) && !place.is_stale {
                adviser.strategy.seen(place.probe.site, &*rig.modules);
            }
        }
        // The gate tells of it, too, but what it tells can be lost.
        if is_any_hot && !std::mem::replace(&mut self.is_removing, true) {
            // Where their thread has ended, none stands any more.
            let _ = probes.remove_hot();
        }
        let count = self.count();
        if std::mem::replace(&mut self.told, count) != count {
            adviser.strategy.probes_stand(count);
        }
    }

    /// Has the next ones armed, where the budget has something left.
    fn arm_more(&mut self, probes: &mut Probes, rig: &Rig) {
        let now = monotonic_ns();
        let is_under_way = self.places.iter().flatten().any(|place| !place.stands);
        if is_under_way || now < self.next || rig.means().purse.left_s <= 0.0 {
            return;
        }
        let Some(first) = self.waiting.front() else {
            return;
        };
        let Some(mapping) = rig.modules.mapping(first.pc) else {
            self.waiting.pop_front();
            return;
        };
        self.places.resize_with(MOST, || None);
        let mut armed = Vec::new();
        for (tag, place) in (0..).zip(&mut self.places) {
            if place.is_some() {
                continue;
            }
            let next = self.waiting.front();
            let next = next.filter(|probe| armed.len() < GROUP && mapping.contains(&probe.pc));
            let Some(probe) = next.copied() else {
                break;
            };
            self.waiting.pop_front();
            armed.push(Probe {
                pc: RuntimeAddr(probe.pc),
                recipe: probe.recipe,
                tag,
            });
            *place = Some(Place {
                probe,
                stands: false,
                counted: 0,
                is_stale: false,
            });
        }
        self.next = now
            + nanos(if self.groups < MOST_GROUPS {
                APART
            } else {
                GIVES_WAY
            });
        let tags: Vec<u32> = armed.iter().map(|probe| probe.tag).collect();
        let order = Order {
            pid: rig.program.pid,
            mapping,
            probes: armed,
        };
        if probes.stand(order).is_err() {
            for tag in tags {
                self.take(tag);
            }
        }
    }

    /// There are no probes any more.
    pub(super) fn end(&mut self, adviser: &mut Adviser) {
        self.forget_code();
        self.places.clear();
        if std::mem::take(&mut self.told) != 0 {
            adviser.strategy.probes_stand(0);
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
        for place in self.places.iter_mut().flatten() {
            place.is_stale = true;
        }
    }
}
