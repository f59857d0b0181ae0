//! Access sites whose code names the variable: where one of them writes it, two threads at any two of them make a
//! conflict, whatever else the program does. Of the many sites of a large program these are few. Those of code that
//! is known to execute are kept apart from all others. Many variables are written at the start only: what looks at
//! one site that reads such a variable have shown counts for all of them. So does it that two threads were seen to use one:
//! whoever else uses it, however seldom, may be the one that forgets the lock.
//!
//! The values tell, too, without anybody's being watched: what never changes is hardly worth a stall, and where one
//! changes and none of its writers was seen yet, one of those does come, however seldom. Or somebody else does, by a pointer:
//! such a variable can be watched for whoever writes it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    stint::Timekeeper,
    values::{PAGE, Read, Values},
    weights::WeightedSites,
};

/// Sites of an address that nobody is known to write, kept until somebody does.
const MOST_READERS: usize = 16;
/// Sites of an address that is written, of which it is known that they are its.
const MOST_USERS: usize = 64;
/// Addresses remembered; of more than these nothing is learned.
const MEMORY: usize = 1 << 16;
/// Choices of a site until one is not of a variable that nobody was seen to write.
const CHOICES: u32 = 4;
/// Pages of variables that are looked at in one go, at most, and for how long.
const PAGES: usize = 32;
const LOOK: Duration = Duration::from_millis(1);
/// The most bytes that one variable is thought to have.
const BYTES: u64 = 8;
/// Looks at a value that never changed, from which on that counts, and for how many looks in vain.
const CALM: u8 = 4;
const CALMNESS: f64 = 2.0;
/// How much more a site counts that writes a variable which changes, while nobody was seen who writes it; and what is kept
/// of the long waits in vain for such a one, when something is forgotten.
const URGENT: f64 = 16.0;
const KEPT_VAIN: f64 = 0.97;
/// Variables that change, of which it is remembered.
const MOST_CHANGING: usize = 256;
/// What one of them weighs, when it is to be seen who writes it, of which somebody was seen who does; and what is kept of the looks in
/// vain, when something is forgotten.
const EXPLAINED_WEIGHT: f64 = 0.1;
const KEPT_LOOKS: f64 = 0.9;

/// See the module.
#[derive(Debug, Default)]
pub struct Named {
    addresses: BTreeMap<u64, Variable>,
    /// Those of variables that are written, in code that is known to execute, or to be called there.
    near: WeightedSites,
    /// All others of such variables. Those that have become near weigh nothing here.
    elsewhere: WeightedSites,
    /// What sites name.
    sites: HashMap<u64, Name>,
    /// How often in vain somebody was looked for who writes a variable, by its address.
    unwritten: HashMap<u64, f64>,
    values: Values,
    /// The variable whose page is looked at next.
    next: u64,
    /// Variables that were seen to change lately.
    changing: Vec<u64>,
}

/// What is known of an address.
#[derive(Debug, Default)]
struct Variable {
    /// Who names it.
    sites: Vec<u64>,
    is_written: bool,
    /// Two threads were seen to use it.
    is_shared: bool,
    /// How often it was seen to keep its value.
    kept: u8,
    /// It was seen to change.
    changes: bool,
    /// How far from its address the first byte is that did.
    changed_at: u8,
    /// It was seen who writes it, in whatever way.
    is_explained: bool,
    /// How often it was watched for that in vain. Less by and by.
    looked: f64,
    /// The same, and nobody was seen yet who writes it.
    is_unexplained: bool,
    /// It was so once.
    was_unexplained: bool,
    /// How often it was waited for long, and in vain, for one who writes it: somebody else does, by a pointer, or uses what is beside. Less
    /// by and by.
    waited: f64,
}

impl Variable {
    /// It was looked at its value, of which this byte has changed, if any; whether it is news that it changes.
    fn look(&mut self, changed_at: Option<u8>) -> bool {
        let Some(changed_at) = changed_at else {
            self.kept = self.kept.saturating_add(1);
            return false;
        };
        self.changed_at = changed_at;
        !std::mem::replace(&mut self.changes, true)
    }

    /// What has changed may not do so any more, and who has done it may have been seen.
    fn decay(&mut self) {
        if std::mem::take(&mut self.changes) {
            self.kept = 0;
        }
        self.is_unexplained = false;
        self.waited *= KEPT_VAIN;
        self.looked *= KEPT_LOOKS;
    }

    /// For how many looks in vain it counts that its value is always the same.
    const fn calmness(&self) -> f64 {
        if self.kept >= CALM && !self.changes {
            CALMNESS
        } else {
            0.0
        }
    }
}

/// What a site names.
#[derive(Clone, Copy, Debug)]
struct Name {
    address: u64,
    writes: bool,
}

impl Named {
    /// A site names an address; whether two threads were seen to use that.
    pub fn add(&mut self, address: u64, site: u64, writes: bool) -> bool {
        if self.addresses.len() >= MEMORY {
            return false;
        }
        self.sites.insert(site, Name { address, writes });
        let variable = self.addresses.entry(address).or_default();
        if writes && !std::mem::replace(&mut variable.is_written, true) {
            for &reader in &variable.sites {
                self.elsewhere.add(reader, 1.0);
            }
        }
        let most = if variable.is_written {
            self.elsewhere.add(site, 1.0);
            MOST_USERS
        } else {
            MOST_READERS
        };
        if variable.sites.len() < most {
            variable.sites.push(site);
        }
        variable.is_shared
    }

    /// The variable that a site names.
    #[must_use]
    pub fn variable_of(&self, site: u64) -> Option<u64> {
        self.sites.get(&site).map(|name| name.address)
    }

    /// Variables that were seen to change lately.
    #[must_use]
    pub fn changing(&self) -> &[u64] {
        &self.changing
    }

    /// The address of a byte of a variable that was seen to change.
    #[must_use]
    pub fn changed_byte(&self, variable: u64) -> Option<u64> {
        let known = self.addresses.get(&variable)?;
        variable.checked_add(known.changed_at.into())
    }

    /// Two threads were seen to use what is at an address: all sites that name it, where that is news.
    pub fn shares(&mut self, address: u64) -> Vec<u64> {
        let variable = self.addresses.get_mut(&address);
        let news = variable.filter(|variable| !variable.is_shared);
        news.map_or_else(Vec::new, |variable| {
            variable.is_shared = true;
            variable.sites.clone()
        })
    }

    /// Looks at the values of some more variables that are written somewhere; those of which it is news that they change.
    pub fn look_at_values(&mut self, timekeeper: Timekeeper, read: &Read<'_>) -> Vec<u64> {
        let (mut news, mut changing) = (Vec::new(), Vec::new());
        let begun = timekeeper.begin();
        for _ in 0..PAGES {
            if begun.elapsed() > LOOK {
                break;
            }
            let Some((&first, _)) = self.addresses.range(self.next..).next() else {
                self.next = 0;
                break;
            };
            let page = first & !(PAGE - 1);
            let Some(end) = page.checked_add(PAGE) else {
                self.next = 0;
                break;
            };
            self.next = end;
            // What no code writes by its name somebody may write by a pointer.
            let mut of_page = self.addresses.range(page..end);
            if !of_page.any(|(_, variable)| variable.is_written) && !self.values.has_room_for(page)
            {
                continue;
            }
            let Some(changes) = self.values.look(page, read) else {
                continue;
            };
            let mut variables = self.addresses.range_mut(page..end).peekable();
            while let Some((&address, variable)) = variables.next() {
                let next = variables.peek().map_or(end, |(next, _)| **next);
                let bytes = (next - address).min(BYTES);
                let offset = address - page;
                let changed = changes.first_within(offset, bytes);
                let changed = changed.and_then(|at| u8::try_from(at - offset).ok());
                if !variable.look(changed) {
                    continue;
                }
                changing.push(address);
                if variable.is_written {
                    news.push(address);
                }
            }
        }
        for address in changing {
            self.is_changing(address);
        }
        news
    }

    /// Remembers that a variable changes: rather than of one of which it is known who writes it.
    fn is_changing(&mut self, address: u64) {
        if self.changing.contains(&address) {
            return;
        }
        if self.changing.len() < MOST_CHANGING {
            return self.changing.push(address);
        }
        let is_explained = |address: &u64| {
            let variable = self.addresses.get(address);
            variable.is_none_or(|variable| variable.is_explained)
        };
        if !is_explained(&address)
            && let Some(place) = self.changing.iter().position(is_explained)
            && let Some(other) = self.changing.get_mut(place)
        {
            *other = address;
        }
    }

    /// A variable was watched for whoever writes it, for such a part of the time that was meant; whether somebody did.
    pub fn watched(&mut self, address: u64, part: f64, is_written: bool) {
        if let Some(variable) = self.addresses.get_mut(&address) {
            if is_written {
                variable.is_explained = true;
                variable.is_unexplained = false;
            } else {
                variable.looked += part;
            }
        }
    }

    /// Nobody was seen yet who writes a variable that changes; whether that is so for the first time.
    pub fn is_unexplained(&mut self, address: u64) -> bool {
        let variable = self.addresses.get_mut(&address);
        let variable = variable.filter(|variable| !variable.is_explained);
        variable.is_some_and(|variable| {
            variable.is_unexplained = true;
            !std::mem::replace(&mut variable.was_unexplained, true)
        })
    }

    /// Somebody came to a site: where it writes such a variable, it may be who has changed it.
    pub fn came_to(&mut self, site: u64) {
        if let Some(name) = self.sites.get(&site).filter(|name| name.writes)
            && let Some(variable) = self.addresses.get_mut(&name.address)
        {
            variable.is_unexplained = false;
        }
    }

    /// Nobody came to a site, however long it was waited there; the sites that are less urgent for it.
    pub fn missed_for_long(&mut self, site: u64) -> Vec<u64> {
        if let Some(&name) = self.sites.get(&site).filter(|name| name.writes)
            && let Some(variable) = self.addresses.get_mut(&name.address)
            && variable.is_unexplained
        {
            variable.waited += 1.0;
            return self.writers(name.address);
        }
        Vec::new()
    }

    /// How much more a site counts than others to which nobody came yet.
    #[must_use]
    pub fn urgency(&self, site: u64) -> f64 {
        let name = self.sites.get(&site).filter(|name| name.writes);
        let variable = name.and_then(|name| self.addresses.get(&name.address));
        match variable {
            Some(variable) if variable.is_unexplained => {
                1.0 + (URGENT - 1.0) / (1.0 + variable.waited)
            }
            _ => 1.0,
        }
    }

    /// The sites that write what is at an address.
    #[must_use]
    pub fn writers(&self, address: u64) -> Vec<u64> {
        let sites = self
            .addresses
            .get(&address)
            .map(|variable| variable.sites.iter());
        let writes = |site: &u64| self.sites.get(site).is_some_and(|name| name.writes);
        sites
            .into_iter()
            .flatten()
            .copied()
            .filter(writes)
            .collect()
    }

    /// How often in vain the variable of a site was looked at, or thought to be.
    fn in_vain(&self, site: u64) -> f64 {
        let looks = self
            .read_by(site)
            .and_then(|address| self.unwritten.get(&address));
        let variable = self
            .sites
            .get(&site)
            .and_then(|name| self.addresses.get(&name.address));
        looks.unwrap_or(&0.0) + variable.map_or(0.0, Variable::calmness)
    }

    /// The address that a site reads.
    fn read_by(&self, site: u64) -> Option<u64> {
        let name = self.sites.get(&site)?;
        (!name.writes).then_some(name.address)
    }

    /// The code of a site is known to execute.
    pub fn approach(&mut self, site: u64, weight: f64) {
        if self.elsewhere.weigh(site, 0.0) {
            self.near.add(site, weight);
        }
    }

    /// One of the sites that are near.
    #[must_use]
    pub fn choose(&self, random: &mut fastrand::Rng) -> Option<u64> {
        (0..CHOICES).find_map(|_| {
            let site = self.near.choose(random.f64())?;
            (random.f64() * (1.0 + self.in_vain(site)) < 1.0).then_some(site)
        })
    }

    /// Whether another thread was seen to use the variable of a site, after it was looked for.
    pub fn looked_at(&mut self, site: u64, is_used: bool) {
        let Some(address) = self.read_by(site) else {
            return;
        };
        if is_used {
            self.unwritten.remove(&address);
        } else {
            *self.unwritten.entry(address).or_default() += 1.0;
        }
    }

    /// Forgets a part of that, and of what the values have told.
    pub fn decay(&mut self) {
        let addresses = &self.addresses;
        let changes = |address: &u64| addresses.get(address).is_some_and(|known| known.changes);
        self.changing.retain(changes);
        for variable in self.addresses.values_mut() {
            variable.decay();
        }
        self.unwritten.retain(|_, in_vain| {
            *in_vain /= 2.0;
            *in_vain > 0.1
        });
    }

    /// What is left of them after earlier tries: each that is untried counts as what it weighs.
    #[must_use]
    pub fn untried(&self) -> f64 {
        self.near.weight()
    }

    /// One of the others.
    #[must_use]
    pub fn choose_elsewhere(&self, number: f64) -> Option<u64> {
        self.elsewhere.choose(number)
    }

    /// What a site weighs from now on, if it is one of these.
    pub fn weigh(&mut self, site: u64, weight: f64) {
        if !self.near.weigh(site, weight) {
            self.elsewhere.weigh(site, weight);
        }
    }

    /// All of them: those that have become near are still among the others.
    #[must_use]
    pub fn sites(&self) -> Vec<u64> {
        self.elsewhere.all().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the sites of a variable count from the first writer on, readers seen before included, and
    /// that variables which are only read do not.
    #[test]
    fn only_what_is_written_counts() {
        let mut named = Named::default();
        named.add(0x1000, 1, false);
        named.add(0x2000, 2, false);
        assert_eq!(named.choose_elsewhere(0.5), None);
        named.add(0x1000, 3, true);
        named.add(0x1000, 4, false);
        named.add(0x1000, 4, false);
        assert_eq!(named.sites(), [1, 3, 4]);
        named.weigh(1, 0.0);
        named.weigh(2, 9.0);
        named.weigh(3, 0.0);
        assert_eq!(named.choose_elsewhere(0.1), Some(4));
    }

    /// Check that all who name what is shared are told once, and that who is found later is told to name such a thing.
    #[test]
    fn users_of_what_is_shared_are_told() {
        let mut named = Named::default();
        assert!(!named.add(0x1000, 1, false));
        assert!(!named.add(0x1000, 2, true));
        assert!(!named.add(0x2000, 3, true));
        assert_eq!(named.shares(0x1000), [1, 2]);
        assert!(named.shares(0x1000).is_empty() && named.shares(0x3000).is_empty());
        assert!(named.add(0x1000, 4, false) && !named.add(0x2000, 5, false));
    }

    /// Check that what changes is told once, that sites which write it count more until somebody came to one, and that
    /// what never changes counts less.
    #[test]
    fn values_are_looked_at() {
        let mut named = Named::default();
        let (changing, calm, read) = (5 * PAGE + 16, 5 * PAGE + 20, 9 * PAGE);
        named.add(changing, 1, false);
        named.add(changing, 2, true);
        named.add(calm, 3, false);
        named.add(calm, 4, true);
        named.add(read, 5, false);
        let value = std::cell::Cell::new(0);
        let look = |named: &mut Named| {
            value.set(value.get() + 1);
            named.look_at_values(Timekeeper::Clock, &|page, bytes| {
                // What is written by no code that names it may be by others.
                assert!(page == 5 * PAGE || page == read);
                bytes[16..20].fill(value.get());
                true
            })
        };
        let mut news = Vec::new();
        for _ in 0..4 * CALM {
            news.extend(look(&mut named));
        }
        assert_eq!(news, [changing]);
        assert_eq!(named.writers(changing), [2]);
        assert_eq!((named.in_vain(1), named.in_vain(2)), (0.0, 0.0));
        assert_eq!((named.in_vain(3), named.in_vain(4)), (CALMNESS, CALMNESS));
        assert!(named.is_unexplained(changing) && !named.is_unexplained(changing));
        assert_eq!(
            [1, 2, 4].map(|site| named.urgency(site)),
            [1.0, URGENT, 1.0]
        );
        named.came_to(1);
        assert_eq!(named.urgency(2), URGENT);
        // Who reads it is not blamed.
        assert!(named.missed_for_long(1).is_empty());
        assert_eq!(named.urgency(2), URGENT);
        assert_eq!(named.missed_for_long(2), [2]);
        assert_eq!(named.urgency(2), f64::midpoint(1.0, URGENT));
        named.came_to(2);
        assert_eq!(named.urgency(2), 1.0);
    }

    /// Check that variables on many pages are all looked at, some at a time.
    #[test]
    fn many_pages_are_looked_at() {
        let mut named = Named::default();
        let pages = 3 * PAGES as u64;
        for page in 0..pages {
            named.add(page * PAGE, page, true);
        }
        let looks = std::cell::Cell::new(0);
        for _ in 0..8 {
            let before = looks.get();
            assert!(
                named
                    .look_at_values(Timekeeper::Clock, &|_, _| {
                        looks.set(looks.get() + 1);
                        true
                    })
                    .is_empty()
            );
            assert!(looks.get() - before <= PAGES);
        }
        assert_eq!(named.values.pages(), pages as usize);
        // At an address that no page holds whole.
        named.add(u64::MAX, 7, true);
        for _ in 0..8 {
            named.look_at_values(Timekeeper::Clock, &|_, _| false);
        }
    }

    /// Check that a site is in one place only, and that what is known of it follows it.
    #[test]
    fn sites_come_near() {
        let mut named = Named::default();
        named.add(0x1000, 1, true);
        named.add(0x1000, 2, true);
        let random = &mut fastrand::Rng::with_seed(1);
        assert_eq!(named.choose(random), None);
        named.approach(1, 1.0);
        named.approach(9, 1.0);
        assert_eq!(named.choose(random), Some(1));
        assert_eq!(named.choose_elsewhere(0.1), Some(2));
        named.add(0x1000, 1, true);
        named.weigh(1, 0.0);
        named.weigh(2, 0.0);
        assert_eq!(named.choose(random), None);
        assert_eq!(named.choose_elsewhere(0.5), None);
    }

    /// Check that looks in vain at one site that reads a variable count for the others, but not for those that write it or
    /// read another one, until somebody was seen to write it, or it was forgotten.
    #[test]
    fn variables_that_nobody_writes_get_rare() {
        const LOOKS: usize = 1000;
        let random = &mut fastrand::Rng::with_seed(1);
        let mut named = Named::default();
        let sites = [1, 2, 3, 4];
        for (site, address, writes) in [
            (1, 0x1000, false),
            (2, 0x1000, false),
            (3, 0x1000, true),
            (4, 0x2000, false),
            (5, 0x2000, true),
        ] {
            named.add(address, site, writes);
        }
        for site in sites {
            named.approach(site, 1.0);
        }
        let mut times = |named: &Named| {
            let chosen: Vec<_> = (0..LOOKS).filter_map(|_| named.choose(random)).collect();
            sites.map(|site| chosen.iter().filter(|&&chosen| chosen == site).count())
        };
        let usual = LOOKS / 5..LOOKS / 3;
        assert!(times(&named).iter().all(|times| usual.contains(times)));
        for _ in 0..20 {
            named.looked_at(1, false);
            named.looked_at(3, false);
        }
        let [read, read_too, written, other] = times(&named);
        assert!(read < LOOKS / 10 && read_too < LOOKS / 10);
        assert!(written > LOOKS / 3 && other > LOOKS / 3);
        named.looked_at(2, true);
        assert!(times(&named).iter().all(|times| usual.contains(times)));
        for _ in 0..20 {
            named.looked_at(1, false);
        }
        for _ in 0..8 {
            named.decay();
        }
        assert!(times(&named).iter().all(|times| usual.contains(times)));
    }
}
