//! Access sites whose bytes another thread was seen to use, and how far apart in time the two came.
//!
//! Most of them are ordered by a lock: a thread that stalls there is never raced. Each stall in vain makes
//! the next one rarer. Where a race was found, another one is likely: what is not ordered with one of its
//! neighbours often is not with the next.

use std::{collections::BTreeMap, time::Duration};

use super::strategy::{Conflict, Outcome};

/// Sites remembered; beyond that all are forgotten, and seen again.
const MEMORY: usize = 4096;
/// What a stall somewhere else is worth: so much of one at a contended site that was never tried. (A tenth of what is
/// looked at proves contended, of which each is worth three stalls; and to look costs a quarter of a stall.)
const ELSEWHERE: f64 = 0.4;
/// What a try in vain leaves of a site's worth. One that is not ordered is hit by every third stall or more.
const LEFT: f64 = 0.65;
/// How much less a try counts at which no thread came by, and one in vain where a race was found before.
const NOT_REACHED: f64 = 0.1;
const RACED_BEFORE: f64 = 0.15;
/// The same where it is not known whether anybody comes there at all.
const NEVER_REACHED: f64 = 2.0;
/// The same for one at which a thread came by and was not stalled for it.
const NOT_STALLED: f64 = 0.3;
/// How many tries in vain one counts for whose thread held a lock that others waited for.
const LOCKED: f64 = 3.0;
/// The same where nobody was made to stand.
const HELD: f64 = 1.0;
/// How many tries in vain a race outweighs with a place that was not known to race here, and how many at most.
const RACE: f64 = 2.0;
/// For how many tries in vain it counts that only a known one was found: where nothing is ordered, others come as well, however
/// seldom. Who is waited for longer takes the time of many others.
const KNOWN_RACE: f64 = 0.6;
const KNOWN_RACE_RARE: f64 = 1.5;
/// Places remembered that race at a site; of more than these nothing new is expected.
const MOST_OTHERS: usize = 64;
/// A stall lasts so many times the time until the other access comes, which varies, and as long as it costs to get to a
/// stall, at least; so much is thought of that at first. (Where the other one comes by chance, so many find it at the least
/// cost.) One that finds somebody ends at once.
const STALLS: u32 = 3;
const FIRST_COST: Duration = Duration::from_millis(2);
/// For how much of a try a stall counts, at least, however far apart accesses are.
const LEAST_PROOF: f64 = 0.5;
/// How much longer the time between accesses is thought to be after a quiet stall, and at most.
const STRETCH: f64 = 9.0 / 8.0;
const MOST_STRETCH: f64 = 4.0;
/// Looks at a site, of whichever outcome, until its users are thought to be known.
const LOOKS: u8 = 3;
/// For how many tries in vain it counts that a site is only related to one that has raced, and that nobody was seen beside
/// it; how far apart the accesses of such a one are thought to be at least; and how many of them may be untried.
const RELATED: f64 = 0.5;
const UNSEEN: f64 = 1.5;
const SHORTEST_DISTANCE: Duration = Duration::from_millis(1);
const MOST_RELATED: usize = 128;
/// Choices until one promises as much as was thought.
const CHOICES: u32 = 8;
/// However much contended sites promise, others are tried as well.
const MOST: f64 = 0.85;
/// What a forgetting leaves of the tries. What is ordered by a lock stays so, as a rule.
const KEPT: f64 = 0.9;
/// The same of those at a site to which nobody ever came.
const KEPT_MISSED: f64 = 0.95;
/// So long a wait costs as much as a stall: meanwhile others could be tried.
const WORTH_A_STALL: Duration = Duration::from_millis(100);
/// Waits last so many times the usual time until a thread comes by.
const WAITS: u32 = 3;
/// But never longer.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// From this interval on a thread is waited for while the budget has nothing left, which costs nothing but the time.
const RARE: Duration = Duration::from_millis(20);
/// However much those promise, others are waited at as well meanwhile.
const MOST_MEANWHILE: f64 = 0.75;

/// Beyond this a distance says no more.
const LONGEST_DISTANCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Contended {
    /// In an order that is the same each time: choices are draws over them.
    sites: BTreeMap<u64, Entry>,
    longest_stall: Duration,
    /// What it costs to get to a stall: a running mean.
    cost: Duration,
}

#[derive(Clone, Debug)]
struct Entry {
    /// From an access there to the other one: a running mean.
    distance: Duration,
    /// How many times as long it is thought to be, since stalls were quiet.
    stretch: f64,
    /// Until a thread comes by: a running mean.
    interval: Duration,
    /// Tries in vain, mostly; less than none where there is more to be found.
    tries: f64,
    /// Addresses behind the accesses that have raced.
    others: Vec<u64>,
    /// It is only known that the member of an object which is accessed there has raced elsewhere.
    is_related: bool,
    /// It is only known that somebody writes there what other code names.
    is_writer: bool,
    /// Somebody was seen there.
    is_reached: bool,
    /// Something has come of it.
    is_tried: bool,
    /// How often it was looked who uses its bytes.
    looks: u8,
    /// How much of its worth what was seen of its function leaves.
    promise: f64,
}

impl Entry {
    /// What a stall there is worth, and the time until a thread comes by.
    fn worth(&self) -> f64 {
        let waits = self.interval.as_secs_f64() / WORTH_A_STALL.as_secs_f64();
        self.worth_of_stall() / (1.0 + waits)
    }

    /// The same where that time costs nothing.
    fn worth_of_stall(&self) -> f64 {
        LEFT.powf(self.tries) * self.promise
    }

    /// How much a stall of at most so long says about it: where accesses are further apart, another one is less likely
    /// to come. Objects that wander from thread to thread through an allocator look like that, too.
    fn proof(&self, longest_stall: Duration) -> f64 {
        (longest_stall.as_secs_f64() / self.expected().as_secs_f64()).min(1.0)
    }

    /// For how many tries in vain it counts that only a known race was found.
    fn known_race(&self) -> f64 {
        if self.is_rare() {
            KNOWN_RACE_RARE
        } else {
            KNOWN_RACE
        }
    }

    /// Threads come so rarely that they are waited for while the budget has nothing left.
    fn is_rare(&self) -> bool {
        self.interval >= RARE
    }

    /// How far apart the accesses are thought to be.
    fn expected(&self) -> Duration {
        self.distance.mul_f64(self.stretch).min(LONGEST_DISTANCE)
    }

    /// How often it is chosen: what promises half as much, a quarter as often. The best alone would be right if it
    /// were known what they promise.
    fn weight(&self, longest_stall: Duration) -> f64 {
        (self.worth() * self.proof(longest_stall)).powi(2)
    }
}

/// The index of one of some sites, each as likely as it weighs; `None` where there are none.
fn draw(weights: &[(u64, f64)], random: &mut fastrand::Rng) -> Option<usize> {
    let mut point = random.f64() * weights.iter().map(|(_, weight)| weight).sum::<f64>();
    weights.iter().position(|(_, weight)| {
        point -= weight;
        point <= 0.0
    })
}

/// A running mean that follows what is new.
fn follow(mean: &mut Duration, new: Duration) {
    *mean = (*mean * 3 + new) / 4;
}

impl Contended {
    /// No site yet; no stall will be longer than this.
    #[must_use]
    pub fn new(longest_stall: Duration) -> Self {
        Self {
            sites: BTreeMap::new(),
            longest_stall,
            cost: FIRST_COST,
        }
    }

    /// Another thread was seen to use the bytes of a site, so long after the site was executed.
    pub fn note(&mut self, site: u64, distance: Duration) {
        let entry = self.entry(site, distance);
        let is_related = std::mem::take(&mut entry.is_related);
        if std::mem::take(&mut entry.is_writer) || is_related {
            // What was only thought of it counts no more.
            entry.tries = 0.0;
            entry.distance = distance;
        }
        follow(&mut entry.distance, distance);
        entry.stretch = 1.0;
        entry.is_reached = true;
    }

    /// Somebody was seen there to write a variable that other code names, so long after it was begun to look for that: how soon others come to it is
    /// to be seen yet.
    pub fn writes(&mut self, site: u64, interval: Duration) {
        if self.is_related(site) {
            // What was only thought of it counts no more.
            self.sites.remove(&site);
        }
        // It shall not have what was seen forgotten.
        if !self.sites.contains_key(&site) && self.sites.len() < MEMORY / 2 {
            let entry = self.entry(site, SHORTEST_DISTANCE);
            entry.interval = interval.min(LONGEST_WAIT);
            entry.is_writer = true;
        }
    }

    /// Whether two threads were seen to use its bytes.
    #[must_use]
    pub fn contains(&self, site: u64) -> bool {
        let entry = self.sites.get(&site);
        entry.is_some_and(|entry| !entry.is_related && !entry.is_writer)
    }

    /// Whether all that speaks for a site is that somebody writes there what other code names.
    #[must_use]
    pub fn is_writer(&self, site: u64) -> bool {
        self.sites.get(&site).is_some_and(|entry| entry.is_writer)
    }

    /// The member of an object that is accessed there has raced elsewhere, with accesses so far apart; a thread was seen
    /// beside it, or not. Says whether that is news of the site.
    pub fn relate(&mut self, site: u64, distance: Duration, is_live: bool) -> bool {
        // It shall not have what was seen forgotten.
        if self.sites.contains_key(&site) || self.sites.len() >= MEMORY / 2 {
            return false;
        }
        let entry = self.entry(site, distance.max(SHORTEST_DISTANCE));
        entry.is_related = true;
        entry.is_reached = false;
        entry.tries = RELATED + if is_live { 0.0 } else { UNSEEN };
        true
    }

    /// Whether there are so many such sites that were not tried yet that there should not be more.
    #[must_use]
    pub fn has_many_related(&self) -> bool {
        let entries = self.sites.values();
        let untried = entries.filter(|entry| entry.is_related && !entry.is_tried);
        untried.count() >= MOST_RELATED
    }

    /// Whether that is all that speaks for a site.
    #[must_use]
    pub fn is_related(&self, site: u64) -> bool {
        self.sites.get(&site).is_some_and(|entry| entry.is_related)
    }

    /// Whether a thread that was stalled there has been raced.
    #[must_use]
    pub fn has_raced(&self, site: u64) -> bool {
        (self.sites.get(&site)).is_some_and(|entry| !entry.others.is_empty())
    }

    /// It has done so while a thread was stalled there.
    pub fn raced(&mut self, site: u64, conflict: Conflict) {
        // Their functions may promise more than before.
        self.forget_promises();
        let entry = self.entry(site, conflict.distance);
        follow(&mut entry.distance, conflict.distance);
        entry.stretch = 1.0;
        entry.is_related = false;
        entry.is_writer = false;
        entry.is_reached = true;
        if entry.others.len() < MOST_OTHERS && !entry.others.contains(&conflict.behind) {
            entry.others.push(conflict.behind);
            entry.tries = (entry.tries.min(0.0) - RACE).max(-RACE);
        } else {
            entry.tries += entry.known_race();
        }
    }

    fn entry(&mut self, site: u64, distance: Duration) -> &mut Entry {
        if self.sites.len() >= MEMORY {
            self.sites.clear();
        }
        let entry = self.sites.entry(site);
        entry.or_insert(Entry {
            distance,
            stretch: 1.0,
            interval: distance,
            tries: 0.0,
            others: Vec::new(),
            is_related: false,
            is_writer: false,
            is_reached: true,
            is_tried: false,
            looks: 0,
            promise: 1.0,
        })
    }

    /// A thread has come by after so long a wait.
    pub fn reached(&mut self, site: u64, waited: Duration) {
        if let Some(entry) = self.sites.get_mut(&site) {
            follow(&mut entry.interval, waited);
            entry.is_reached = true;
        }
    }

    /// Whether it is of interest who else uses its bytes: there may be more than were seen.
    #[must_use]
    pub fn wants_look(&self, site: u64) -> bool {
        (self.sites.get(&site)).is_none_or(|entry| entry.looks < LOOKS)
    }

    /// It has cost so much lately to get to a stall.
    pub fn costs(&mut self, per_stall: Duration) {
        follow(&mut self.cost, per_stall);
    }

    /// What it has cost lately to get to a stall.
    #[must_use]
    pub const fn cost(&self) -> Duration {
        self.cost
    }

    /// How long a stall there should be: most of the other side's accesses come within that time.
    #[must_use]
    pub fn stall(&self, site: u64) -> Option<Duration> {
        Some((self.sites.get(&site)?.expected() * STALLS).max(self.cost))
    }

    /// How long to wait there for a thread.
    #[must_use]
    pub fn wait(&self, site: u64) -> Option<Duration> {
        let wait = self.sites.get(&site)?.interval * WAITS;
        Some(wait.min(LONGEST_WAIT))
    }

    /// The probability with which one of them should be the next.
    #[must_use]
    pub fn chance(&self) -> f64 {
        let (mut all, mut worth) = (0.0, 0.0);
        for entry in self.sites.values() {
            let weight = entry.weight(self.longest_stall);
            all += weight;
            worth += weight * entry.worth();
        }
        if all <= 0.0 {
            return 0.0;
        }
        // What the chosen one is worth, on average.
        worth /= all;
        let odds = (worth / ELSEWHERE).powi(3);
        (odds / (1.0 + odds)).min(MOST)
    }

    /// One of them; the less it was tried, the likelier, and the more what is known of its function by now promises. Where
    /// that has become less, rather another one, or none.
    pub fn choose(
        &mut self,
        random: &mut fastrand::Rng,
        promise: impl Fn(u64) -> f64,
    ) -> Option<u64> {
        let weights = self.sites.iter();
        let mut weights: Vec<_> = weights
            .map(|(&site, entry)| (site, entry.weight(self.longest_stall)))
            .collect();
        (0..CHOICES).find_map(|_| {
            let drawn = draw(&weights, random)?;
            let (site, weight) = weights.get_mut(drawn)?;
            let entry = self.sites.get_mut(site)?;
            let before = std::mem::replace(&mut entry.promise, promise(*site));
            let left = (entry.promise / before).powi(2);
            *weight *= left;
            (random.f64() < left).then_some(*site)
        })
    }

    /// One of those that threads come to rarely, for when waiting costs nothing; `None` where others are rather waited at.
    pub fn choose_rare(&self, random: &mut fastrand::Rng) -> Option<u64> {
        let rare = |entry: &Entry| entry.is_reached && !entry.is_related && entry.is_rare();
        let sites = self.sites.iter().filter(|(_, entry)| rare(entry));
        let mut best = 0.0_f64;
        let weights: Vec<_> = sites
            .map(|(&site, entry)| {
                let worth = entry.worth_of_stall() * entry.proof(self.longest_stall);
                best = best.max(worth);
                (site, worth.powi(2))
            })
            .collect();
        if random.f64() >= best.min(MOST_MEANWHILE) {
            return None;
        }
        let (site, _) = weights.get(draw(&weights, random)?)?;
        Some(*site)
    }

    /// Functions may promise more than they did.
    fn forget_promises(&mut self) {
        for entry in self.sites.values_mut() {
            entry.promise = 1.0;
        }
    }

    /// What came of a try.
    pub fn outcome(&mut self, site: u64, outcome: Outcome) {
        let Some(entry) = self.sites.get_mut(&site) else {
            return;
        };
        entry.is_tried = true;
        entry.tries += match outcome {
            Outcome::Shared(_) | Outcome::Unused => {
                entry.looks = entry.looks.saturating_add(1);
                0.0
            }
            // What raced is told by itself.
            Outcome::Hit(_) | Outcome::Blind => 0.0,
            Outcome::KnownPrivate | Outcome::Beside => NOT_STALLED,
            Outcome::NotReached if !entry.is_reached => NEVER_REACHED,
            Outcome::NotReached => {
                entry.interval = (entry.interval * 3 / 2).min(LONGEST_WAIT);
                NOT_REACHED
            }
            Outcome::Quiet => {
                // A stall shorter than the distance proves that much less.
                let proof = entry.proof(self.longest_stall).max(LEAST_PROOF);
                if entry.others.is_empty() {
                    entry.stretch = (entry.stretch * STRETCH).min(MOST_STRETCH);
                    proof
                } else {
                    proof * RACED_BEFORE
                }
            }
            Outcome::Repeat => entry.known_race(),
            Outcome::Locked => LOCKED,
            Outcome::Held => HELD,
            Outcome::TooOften => 8.0,
            // Of another object than the one that two threads were seen to use.
            Outcome::Private if !entry.is_related && !entry.is_writer => {
                entry.looks = entry.looks.saturating_add(1);
                1.0
            }
            Outcome::Unsuitable | Outcome::Private => {
                self.sites.remove(&site);
                return;
            }
        };
    }

    /// Forgets a part of what speaks for and against each.
    pub fn decay(&mut self) {
        for entry in self.sites.values_mut() {
            let is_missed = entry.is_related && entry.is_tried && !entry.is_reached;
            entry.tries *= if is_missed { KEPT_MISSED } else { KEPT };
            entry.stretch = 1.0 + (entry.stretch - 1.0) / 2.0;
            entry.looks /= 2;
        }
        self.forget_promises();
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        self.sites.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Check that a site gets its share at once, loses it by tries in vain, and gets it back.
    #[test]
    fn tries_in_vain_make_rarer() {
        let mut contended = Contended::new(1000 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        assert!(contended.chance() == 0.0 && contended.choose(&mut random, |_| 1.0).is_none());
        contended.note(7, MILLISECOND);
        let at_first = contended.chance();
        assert!(at_first >= MOST);
        for _ in 0..8 {
            contended.outcome(7, Outcome::Quiet);
        }
        assert!((0.0..0.01).contains(&contended.chance()));
        assert_eq!(contended.choose(&mut random, |_| 1.0), Some(7));
        contended.note(8, MILLISECOND);
        let chosen = (0..10_000).filter(|_| contended.choose(&mut random, |_| 1.0) == Some(7));
        assert!((1..100).contains(&chosen.count()));
        for _ in 0..40 {
            contended.decay();
        }
        assert!(contended.chance() > 0.9 * at_first);
    }

    /// Check that the same seed and the same past give the same choices.
    #[test]
    fn choices_follow_from_the_seed() {
        let choices = |seed| {
            let mut contended = Contended::new(1000 * MILLISECOND);
            let mut random = fastrand::Rng::with_seed(seed);
            (0..500).for_each(|site| contended.note(site, MILLISECOND));
            (0..50)
                .map(|_| contended.choose(&mut random, |_| 1.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }

    /// Check that a site is preferred while it races with ever new places, that nothing is left of that when they
    /// repeat, and that others are tried all the while.
    #[test]
    fn races_promise_more() {
        let mut contended = Contended::new(1000 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        let with = |behind| Conflict {
            behind,
            distance: MILLISECOND,
        };
        contended.note(8, MILLISECOND);
        contended.raced(7, with(0x100));
        contended.raced(7, with(0x200));
        let mut sevens = |contended: &mut Contended| {
            let choices = (0..1000).map(|_| contended.choose(&mut random, |_| 1.0));
            choices.filter(|choice| *choice == Some(7)).count()
        };
        assert!((800..950).contains(&sevens(&mut contended)));
        assert!((0.8..=MOST).contains(&contended.chance()));
        for _ in 0..4 {
            contended.outcome(7, Outcome::Quiet);
        }
        assert!(sevens(&mut contended) > 550);
        for _ in 0..8 {
            contended.raced(7, with(0x200));
        }
        assert!(sevens(&mut contended) < 200);
        contended.raced(7, with(0x300));
        assert!(sevens(&mut contended) > 400);
        assert!(contended.has_raced(7) && !contended.has_raced(8) && !contended.has_raced(9));
    }

    /// Check that a race which repeats leaves more of a site that is reached all the time than of one that takes a long wait, and
    /// that quiet stalls at either count less than where nothing has raced, and make no stall longer.
    #[test]
    fn known_races_leave_something() {
        let mut contended = Contended::new(1000 * MILLISECOND);
        let conflict = Conflict {
            behind: 0x100,
            distance: MILLISECOND,
        };
        for site in [7, 8] {
            contended.raced(site, conflict);
        }
        contended.note(9, MILLISECOND);
        for _ in 0..8 {
            contended.reached(8, 300 * MILLISECOND);
        }
        let worth = |contended: &Contended, site| contended.sites[&site].worth_of_stall();
        let at_first = worth(&contended, 7);
        assert_eq!(at_first, worth(&contended, 8));
        let stall = contended.stall(7);
        for _ in 0..4 {
            for site in [7, 8] {
                contended.outcome(site, Outcome::Repeat);
            }
        }
        assert!(worth(&contended, 7) > 3.0 * worth(&contended, 8));
        assert!(worth(&contended, 7) < at_first / 2.0);
        let before = [7, 9].map(|site| worth(&contended, site));
        for site in [7, 9] {
            contended.outcome(site, Outcome::Quiet);
        }
        let left = |index: usize, site| worth(&contended, site) / before[index];
        assert!(left(0, 7) > 0.9 && left(1, 9) < 0.7);
        assert_eq!(contended.stall(7), stall);
    }

    /// Check that of sites that are rarely reached those that race are waited at while that costs nothing, the less the more
    /// tries were in vain, and never those that are reached often, or never were.
    #[test]
    fn rare_sites_are_waited_at_meanwhile() {
        let mut contended = Contended::new(5 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        let mut chosen = |contended: &Contended| {
            let choices = (0..1000).filter_map(|_| contended.choose_rare(&mut random));
            let choices: Vec<_> = choices.collect();
            assert!(choices.iter().all(|site| *site == 7));
            choices.len()
        };
        contended.note(7, MILLISECOND);
        contended.note(8, MILLISECOND);
        contended.relate(9, MILLISECOND, false);
        assert_eq!(chosen(&contended), 0);
        for _ in 0..8 {
            contended.reached(7, 300 * MILLISECOND);
            contended.reached(8, MILLISECOND);
            contended.outcome(9, Outcome::NotReached);
        }
        let conflict = Conflict {
            behind: 0x100,
            distance: MILLISECOND,
        };
        contended.raced(7, conflict);
        assert!((650..850).contains(&chosen(&contended)));
        for _ in 0..8 {
            contended.raced(7, conflict);
        }
        assert!(chosen(&contended) < 100);
    }

    /// Check that who was seen to write a variable is waited at meanwhile where it took long, for as long as that; that it says nothing
    /// of a site of which more is known; and that it counts for nothing once such a site's bytes prove private, but as much as at any
    /// other one once somebody else was seen to use them.
    #[test]
    fn writers_are_waited_at_meanwhile() {
        let mut contended = Contended::new(5 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        contended.writes(7, 300 * MILLISECOND);
        contended.writes(8, MILLISECOND);
        assert!([7, 8].iter().all(|&site| contended.is_writer(site)));
        assert!(!contended.contains(7) && !contended.contains(8));
        let chosen = (0..1000).filter_map(|_| contended.choose_rare(&mut random));
        let chosen: Vec<_> = chosen.collect();
        assert!(chosen.len() > 500 && chosen.iter().all(|&site| site == 7));
        assert_eq!(contended.wait(7), Some(LONGEST_WAIT));
        assert!(contended.stall(7) < contended.wait(7));
        let stall = contended.stall(8);
        contended.writes(8, 300 * MILLISECOND);
        assert_eq!(contended.stall(8), stall);
        assert_eq!(contended.wait(8), Some(WAITS * MILLISECOND));
        contended.note(8, MILLISECOND);
        assert!(contended.contains(8) && !contended.is_writer(8));
        for site in [7, 8] {
            contended.outcome(site, Outcome::Private);
        }
        assert_eq!(contended.wait(7), None);
        assert!(contended.contains(8));
        contended.relate(9, MILLISECOND, false);
        contended.writes(9, 300 * MILLISECOND);
        assert!(contended.is_writer(9) && !contended.is_related(9));
    }

    /// Check that what is only related to a race is tried, but given up as soon as nobody comes there, and that what is
    /// seen there counts as elsewhere.
    #[test]
    fn related_sites_are_tried() {
        let mut contended = Contended::new(1000 * MILLISECOND);
        contended.relate(7, Duration::ZERO, true);
        assert!(contended.is_related(7) && contended.chance() > 0.5);
        assert_eq!(contended.stall(7), Some(MILLISECOND * STALLS));
        contended.outcome(7, Outcome::NotReached);
        contended.outcome(7, Outcome::NotReached);
        assert!(contended.chance() < 0.1);
        contended.relate(8, Duration::ZERO, true);
        contended.reached(8, MILLISECOND);
        contended.outcome(8, Outcome::NotReached);
        assert!(contended.is_related(8) && contended.chance() > 0.5);
        // That nobody came is remembered for longer than what came of stalls.
        let tries = |contended: &Contended, site| contended.sites[&site].tries;
        let before = [7, 8].map(|site| tries(&contended, site));
        contended.decay();
        let kept = |index: usize, site| tries(&contended, site) / before[index];
        assert!(kept(0, 7) > kept(1, 8) + 0.01);
        // What is seen counts as if nothing had been tried.
        contended.outcome(8, Outcome::TooOften);
        let before = contended.chance();
        contended.note(7, 2 * MILLISECOND);
        assert!(!contended.is_related(7) && contended.chance() > 0.8 && before < 0.1);
        assert_eq!(contended.stall(7), Some(2 * MILLISECOND * STALLS));
        assert!(!contended.relate(7, MILLISECOND, true) && !contended.is_related(7));
        assert!(!contended.has_many_related());
        for site in 100..100 + MOST_RELATED as u64 {
            assert!(contended.relate(site, MILLISECOND, true));
        }
        assert!(contended.has_many_related());
    }

    /// Check that short stalls at accesses far apart count as the little that they prove.
    #[test]
    fn short_stalls_prove_little() {
        let mut contended = Contended::new(5 * MILLISECOND);
        contended.note(7, 20 * MILLISECOND);
        assert_eq!(contended.stall(7), Some(20 * MILLISECOND * STALLS));
        for _ in 0..4 {
            contended.outcome(7, Outcome::Quiet);
        }
        // Four halves at most.
        assert!(contended.chance() > 0.4);
        assert!(contended.stall(7) > Some(25 * MILLISECOND * STALLS));
    }

    /// Check that it is waited for longer where nobody comes, and that no distance is too short to divide by.
    #[test]
    fn waits_grow() {
        let mut contended = Contended::new(5 * MILLISECOND);
        contended.note(7, Duration::ZERO);
        contended.outcome(7, Outcome::Quiet);
        assert!(contended.chance() > 0.0);
        contended.note(8, 4 * MILLISECOND);
        contended.outcome(8, Outcome::NotReached);
        assert_eq!(contended.wait(8), Some(18 * MILLISECOND));
        for _ in 0..100 {
            contended.outcome(8, Outcome::NotReached);
            contended.outcome(8, Outcome::Quiet);
        }
        assert_eq!(contended.wait(8), Some(LONGEST_WAIT));
    }

    /// Check that the means follow what is seen, and that what proved private is forgotten.
    #[test]
    fn means_follow() {
        let mut contended = Contended::new(5 * MILLISECOND);
        contended.note(7, 8 * MILLISECOND);
        contended.note(7, 4 * MILLISECOND);
        assert_eq!(contended.stall(7), Some(7 * MILLISECOND * STALLS));
        assert_eq!(contended.wait(7), Some(24 * MILLISECOND));
        contended.reached(7, 4 * MILLISECOND);
        assert_eq!(contended.wait(7), Some(21 * MILLISECOND));
        // Of another object: that it is shared was seen.
        contended.outcome(7, Outcome::Private);
        assert!(contended.stall(7).is_some());
        contended.outcome(7, Outcome::Unsuitable);
        assert_eq!(contended.stall(7), None);
        contended.relate(8, MILLISECOND, true);
        contended.outcome(8, Outcome::Private);
        assert_eq!(contended.stall(8), None);
    }

    /// Check that sites in functions that promise less are chosen less, as soon as that is known, and that a race or a
    /// forgetting gives them another chance.
    #[test]
    fn functions_promise_more_or_less() {
        const CHOICES: usize = 2000;
        let mut contended = Contended::new(5 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        contended.note(7, MILLISECOND);
        contended.note(8, MILLISECOND);
        let mut sevens = |contended: &mut Contended, promise: f64| {
            let promise = |site| if site == 7 { promise } else { 1.0 };
            let choices = (0..CHOICES).filter_map(|_| contended.choose(&mut random, promise));
            let (mut sevens, mut all) = (0.0, 0.0);
            for choice in choices {
                all += 1.0;
                sevens += f64::from(choice == 7);
            }
            sevens / all
        };
        assert!((0.45..0.55).contains(&sevens(&mut contended, 1.0)));
        // 1 to 9.
        assert!((0.07..0.13).contains(&sevens(&mut contended, 1.0 / 3.0)));
        let promise = |contended: &Contended| contended.sites.get(&7).map(|entry| entry.promise);
        assert_eq!(promise(&contended), Some(1.0 / 3.0));
        let with = Conflict {
            behind: 0x100,
            distance: MILLISECOND,
        };
        contended.raced(9, with);
        contended.outcome(9, Outcome::Unsuitable);
        assert_eq!(promise(&contended), Some(1.0));
        let _ = sevens(&mut contended, 1.0 / 11.0);
        assert_eq!(promise(&contended), Some(1.0 / 11.0));
        let before = contended.chance();
        contended.decay();
        assert_eq!(promise(&contended), Some(1.0));
        assert!(contended.chance() >= before);
    }

    /// Check that sites whose accesses are far apart are chosen less, that quiet stalls make them seem further apart, but
    /// not for good.
    #[test]
    fn far_accesses_are_rarer() {
        const CHOICES: usize = 2000;
        let mut contended = Contended::new(5 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        contended.note(7, 10 * MILLISECOND);
        contended.note(8, MILLISECOND);
        let mut sevens = |contended: &mut Contended| {
            let choices = (0..CHOICES).map(|_| contended.choose(&mut random, |_| 1.0));
            choices.filter(|choice| *choice == Some(7)).count() as f64 / CHOICES as f64
        };
        let at_first = sevens(&mut contended);
        assert!((0.1..0.25).contains(&at_first), "{at_first}");
        for _ in 0..40 {
            contended.outcome(8, Outcome::Quiet);
        }
        assert_eq!(contended.stall(8), Some(4 * MILLISECOND * STALLS));
        for _ in 0..80 {
            contended.decay();
        }
        let later = sevens(&mut contended);
        assert!((0.1..0.25).contains(&later), "{later}");
        assert!(contended.stall(8) < Some(MILLISECOND * (STALLS + 1)));
    }

    /// Check that it is looked some times who uses the bytes, and again after a while; that a stall in which nobody could
    /// be seen is no such look; and that related sites which nobody was seen beside are tried later.
    #[test]
    fn looks_are_counted() {
        let mut contended = Contended::new(5 * MILLISECOND);
        let conflict = Conflict {
            behind: 0x100,
            distance: MILLISECOND,
        };
        contended.note(7, MILLISECOND);
        for _ in 0..=LOOKS {
            assert!(contended.wants_look(7));
            contended.outcome(7, Outcome::Blind);
        }
        for _ in 0..LOOKS {
            assert!(contended.wants_look(7));
            contended.outcome(7, Outcome::Shared(conflict));
        }
        assert!(!contended.wants_look(7) && contended.wants_look(8));
        contended.decay();
        assert!(contended.wants_look(7));

        let mut contended = Contended::new(5 * MILLISECOND);
        contended.relate(7, MILLISECOND, false);
        contended.relate(8, MILLISECOND, true);
        let mut random = fastrand::Rng::with_seed(1);
        let choices = (0..1000).map(|_| contended.choose(&mut random, |_| 1.0));
        let sevens = choices.filter(|choice| *choice == Some(7)).count();
        assert!((100..350).contains(&sevens), "{sevens}");
        assert!(!contended.contains(7));
        contended.note(7, MILLISECOND);
        assert!(contended.contains(7));
    }
}
