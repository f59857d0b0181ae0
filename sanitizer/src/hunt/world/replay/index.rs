//! Who comes to a site next, who uses a word, and who takes a lock, in a recorded program that is run over and over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::hunt::{
    plan::event::{SiteId, VariableId},
    world::trace::{
        clocks::Held,
        recorded::{Event, Recorded},
    },
};

/// Something that happens at some times of each round.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<(u64, u32)>);

impl Times {
    /// How many in a round.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, time_ns: u64, number: u32) {
        self.0.push((time_ns, number));
    }

    /// What comes from a time on, in seconds, with when that is; there is no end to it.
    pub(super) fn from(&self, from_s: f64, round_s: f64) -> impl Iterator<Item = (f64, u32)> {
        let round = (from_s / round_s).floor();
        let within_ns = ((from_s - round * round_s) * 1e9) as u64;
        let first = self.0.partition_point(|(time, _)| *time < within_ns);
        let count = self.0.len();
        (first..).map_while(move |index| {
            let rounds = round + index.checked_div(count)? as f64;
            let (time, number) = self.0.get(index % count)?;
            // Times are kept as whole numbers.
            Some((
                (rounds * round_s + *time as f64 * 1e-9).max(from_s),
                *number,
            ))
        })
    }
}

/// See the module.
pub(super) struct Index<'a> {
    pub(super) recorded: &'a Recorded,
    /// How long a round takes, s.
    pub(super) round_s: f64,
    pub(super) of_site: Vec<Times>,
    of_word: HashMap<u64, Times>,
    /// Threads that take a lock, in the place of numbers of events.
    of_lock: HashMap<u64, Times>,
    pub(super) samples: Times,
    races: BTreeSet<[u32; 2]>,
    /// Words that several threads use, one of them to write.
    contended: BTreeSet<u64>,
    /// Variables whose values change.
    pub(super) changing: Vec<VariableId>,
    /// Each pair of lines that race, by that of sites.
    lines: BTreeMap<[u32; 2], u32>,
    pub(super) pairs_of_lines: usize,
}

impl<'a> Index<'a> {
    pub(super) fn of(recorded: &'a Recorded) -> Self {
        let mut order: Vec<u32> = (0..recorded.events.len() as u32).collect();
        let event = |number: u32| recorded.events.get(number as usize);
        order.sort_by_key(|number| event(*number).map(|event| event.time_ns));
        let mut of_site = vec![Times::default(); recorded.sites.len()];
        let mut of_word = HashMap::<u64, Times>::new();
        let mut of_lock = HashMap::<u64, Times>::new();
        let mut held = HashMap::new();
        let mut written = BTreeSet::new();
        for number in order {
            let Some(event) = event(number) else {
                continue;
            };
            if let Some(times) = of_site.get_mut(event.site as usize) {
                times.push(event.time_ns, number);
            }
            for (word, _) in event.access.words() {
                of_word.entry(word).or_default().push(event.time_ns, number);
            }
            let before = held.insert(event.thread, event.locks).unwrap_or(0);
            if before != event.locks {
                let set = |number: u32| {
                    recorded
                        .locks
                        .get(number as usize)
                        .map_or(&[][..], Vec::as_slice)
                };
                for lock in set(event.locks)
                    .iter()
                    .filter(|lock| !set(before).contains(lock))
                {
                    of_lock
                        .entry(lock.lock)
                        .or_default()
                        .push(event.time_ns, event.thread.into());
                }
            }
            if event.access.writes {
                written.insert(event.access.address);
            }
        }
        let is_contended = |times: &Times| {
            let events = || times.0.iter().filter_map(|(_, number)| event(*number));
            let first = events().next().map(|event| event.thread);
            events().any(|event| Some(event.thread) != first)
                && events().any(|event| event.access.writes)
        };
        let contended = of_word.iter().filter(|(_, times)| is_contended(times));
        let contended = contended.map(|(word, _)| *word).collect();
        let mut samples = Times::default();
        let mut looked: Vec<_> = (0..).zip(&recorded.samples).collect();
        looked.sort_by_key(|(_, sample)| {
            sample
                .first()
                .and_then(|first| event(*first))
                .map(|event| event.time_ns)
        });
        for (number, sample) in looked {
            if let Some(first) = sample.first().and_then(|first| event(*first)) {
                samples.push(first.time_ns, number);
            }
        }
        let named = recorded.sites.iter().filter_map(|site| site.facts.variable);
        let changing: BTreeSet<_> = named
            .filter(|variable| written.contains(&variable.0))
            .collect();
        let mut numbers = BTreeMap::new();
        let mut lines = BTreeMap::new();
        for race in &recorded.races {
            let count = numbers.len() as u32;
            let number = *numbers
                .entry(recorded.lines_of(race.sites))
                .or_insert(count);
            lines.insert(race.sites, number);
        }
        Self {
            recorded,
            round_s: recorded.length_ns as f64 * 1e-9,
            of_site,
            of_word,
            of_lock,
            samples,
            races: recorded.races.iter().map(|race| race.sites).collect(),
            contended,
            changing: changing.into_iter().collect(),
            lines,
            pairs_of_lines: numbers.len(),
        }
    }

    pub(super) fn event(&self, number: u32) -> Option<&'a Event> {
        self.recorded.events.get(number as usize)
    }

    /// The next one who comes to a site from a time on.
    pub(super) fn arrivals(&self, site: SiteId, from_s: f64) -> impl Iterator<Item = (f64, u32)> {
        let times = usize::try_from(site.0)
            .ok()
            .and_then(|site| self.of_site.get(site));
        times
            .into_iter()
            .flat_map(move |times| times.from(from_s, self.round_s))
    }

    /// Accesses of other threads to the bytes of an event, of which one writes and not both are atomic, from a time until another one.
    pub(super) fn others(&self, number: u32, from_s: f64, until_s: f64) -> Vec<(f64, &'a Event)> {
        let Some(own) = self.event(number) else {
            return Vec::new();
        };
        let mut others = Vec::new();
        for (word, bytes) in own.access.words() {
            let times = self.of_word.get(&word).into_iter();
            let times = times.flat_map(|times| times.from(from_s, self.round_s));
            for (at, other) in times.take_while(|(at, _)| *at <= until_s) {
                let Some(other) = self.event(other).filter(|other| other.thread != own.thread)
                else {
                    continue;
                };
                let overlap = other
                    .access
                    .words()
                    .any(|(of_other, some)| of_other == word && some & bytes != 0);
                let conflict = (own.access.writes || other.access.writes)
                    && !(own.access.atomic && other.access.atomic);
                if overlap && conflict {
                    others.push((at, other));
                }
            }
        }
        others.sort_by(|one, other| one.0.total_cmp(&other.0));
        others.dedup_by_key(|(at, other)| (at.to_bits(), other.site, other.thread));
        others
    }

    /// Whether several threads use the bytes of an event, one of them to write.
    pub(super) fn is_contended(&self, event: &Event) -> bool {
        event
            .access
            .words()
            .any(|(word, _)| self.contended.contains(&word))
    }

    /// Who writes an address from a time until another one.
    pub(super) fn writers(&self, address: u64, from_s: f64, until_s: f64) -> Vec<(f64, &'a Event)> {
        const WORD: u64 = 8;
        let times = self.of_word.get(&(address / WORD)).into_iter();
        let times = times.flat_map(|times| times.from(from_s, self.round_s));
        let within = times.take_while(|(at, _)| *at <= until_s);
        let events = within.filter_map(|(at, number)| Some((at, self.event(number)?)));
        events
            .filter(|(_, event)| event.access.writes && event.access.covers(address))
            .collect()
    }

    /// The race of two sites, if they do.
    pub(super) fn race(&self, one: u32, other: u32) -> Option<[u32; 2]> {
        let sites = [one.min(other), one.max(other)];
        self.races.contains(&sites).then_some(sites)
    }

    /// The pair of lines of a race.
    pub(super) fn pair_of_lines(&self, race: [u32; 2]) -> Option<u32> {
        self.lines.get(&race).copied()
    }

    fn set(&self, event: &Event) -> &'a [Held] {
        self.recorded
            .locks
            .get(event.locks as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// The locks that a thread holds.
    pub(super) fn locks(&self, event: &Event) -> impl Iterator<Item = u64> {
        self.set(event).iter().map(|held| held.lock)
    }

    /// The lock that two hold who cannot do so at the same time.
    pub(super) fn common_lock(&self, one: &Event, other: &Event) -> Option<u64> {
        let of_other = self.set(other);
        let mut own = self.set(one).iter();
        let common = own.find(|own| {
            of_other
                .iter()
                .any(|other| own.lock == other.lock && !(own.shared && other.shared))
        });
        common.map(|held| held.lock)
    }

    /// When others take locks first that a thread holds, from a time until another one: the lock, and the thread.
    pub(super) fn waits(&self, own: &Event, from_s: f64, until_s: f64) -> Vec<(f64, u64, u16)> {
        let mut waits = Vec::new();
        for held in self.set(own).iter().filter(|held| !held.shared) {
            let times = self.of_lock.get(&held.lock).into_iter();
            let times = times.flat_map(|times| times.from(from_s, self.round_s));
            for (at, thread) in times.take_while(|(at, _)| *at <= until_s) {
                if thread != u32::from(own.thread) {
                    waits.push((at, held.lock, thread as u16));
                }
            }
        }
        waits.sort_by(|one, other| one.0.total_cmp(&other.0));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that rounds follow each other, from any time on, and that nothing comes where nothing ever did.
    #[test]
    fn rounds() {
        let times = Times(vec![(100_000_000, 1), (900_000_000, 2)]);
        let next = |from: f64| {
            let next = times.from(from, 2.0).take(3);
            next.map(|(at, number)| ((at * 10.0).round(), number))
                .collect::<Vec<_>>()
        };
        assert_eq!(next(0.0), [(1.0, 1), (9.0, 2), (21.0, 1)]);
        assert_eq!(next(0.5), [(9.0, 2), (21.0, 1), (29.0, 2)]);
        assert_eq!(next(1.5), [(21.0, 1), (29.0, 2), (41.0, 1)]);
        assert_eq!(next(6.05), [(61.0, 1), (69.0, 2), (81.0, 1)]);
        assert_eq!(Times::default().from(1.0, 2.0).count(), 0);
    }
}
