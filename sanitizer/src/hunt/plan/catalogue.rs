//! The sites that there are, and the classes of those that were never tried: of sites of one class nothing tells one from another.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
};

use super::event::{FunctionId, MemberId, SiteFacts, SiteId, VariableId};

/// A site's number in the catalogue.
pub type Number = u32;

/// How many classes there are.
pub const CLASSES: usize = 48;
/// It names a variable; it writes.
const NAMES: usize = 1;
const WRITES: usize = 2;
/// How near threads were seen: nowhere, in the function, or right beside. Times this.
const NEAR: usize = 4;
/// Its variable is shared or changes, or its member has raced.
const RELATED: usize = 12;
/// Its function is new.
const NEW: usize = 24;

/// Something of each class.
#[derive(Debug)]
pub struct ByClass<T>([T; CLASSES]);

impl<T: Default> Default for ByClass<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<T> Deref for ByClass<T> {
    type Target = [T; CLASSES];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for ByClass<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// What sites have in common that use the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A variable.
    Variable(VariableId),
    /// A member of a structure.
    Member(MemberId),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Catalogue {
    facts: Vec<SiteFacts>,
    numbers: BTreeMap<SiteId, Number>,
    of_function: BTreeMap<FunctionId, Vec<Number>>,
    of_object: BTreeMap<Object, Vec<Number>>,
    related: BTreeSet<Object>,
    executed: BTreeSet<FunctionId>,
    /// Of each site: its class, and where it stands in the list of that while it is untried.
    class: Vec<usize>,
    place: Vec<Option<u32>>,
    untried: ByClass<Vec<Number>>,
    /// Those of them at which probes stand, and whether one does, of each site.
    idle: ByClass<Vec<Number>>,
    stands: Vec<bool>,
}

/// What a site's bytes are called by, if there is anything.
#[must_use]
pub fn object_of(facts: &SiteFacts) -> Option<Object> {
    let variable = facts.variable.map(Object::Variable);
    variable.or(facts.member.map(Object::Member))
}

/// What of a class is to be known.
#[must_use]
pub const fn nearness(class: usize) -> usize {
    class % RELATED / NEAR
}

/// Whether a class is of sites that are related to what is shared.
#[must_use]
pub const fn is_related(class: usize) -> bool {
    class % NEW >= RELATED
}

/// Whether a class is of sites in new functions.
#[must_use]
pub const fn is_new(class: usize) -> bool {
    class >= NEW
}

/// The same, as a number below 4.
#[must_use]
pub const fn kind_index(class: usize) -> usize {
    class & (NAMES | WRITES)
}

/// Whether a class is of sites that name variables, and whether it is of sites that write.
#[must_use]
pub const fn kind(class: usize) -> (bool, bool) {
    (class & NAMES != 0, class & WRITES != 0)
}

impl Catalogue {
    /// More sites.
    pub fn add(&mut self, facts: &[SiteFacts]) {
        for facts in facts {
            if self.numbers.contains_key(&facts.site) {
                continue;
            }
            let Ok(number) = Number::try_from(self.facts.len()) else {
                return;
            };
            self.numbers.insert(facts.site, number);
            self.of_function
                .entry(facts.function)
                .or_default()
                .push(number);
            let object = object_of(facts);
            if let Some(object) = object {
                self.of_object.entry(object).or_default().push(number);
            }
            let names = if facts.variable.is_some() { NAMES } else { 0 };
            let writes = if facts.writes { WRITES } else { 0 };
            let near = if self.executed.contains(&facts.function) {
                NEAR
            } else {
                0
            };
            let is_related = object.is_some_and(|object| self.related.contains(&object));
            let related = if is_related { RELATED } else { 0 };
            self.facts.push(*facts);
            self.class.push(names + writes + near + related);
            self.place.push(None);
            self.stands.push(false);
            self.list(number);
        }
    }

    /// The number of a site.
    #[must_use]
    pub fn number(&self, site: SiteId) -> Option<Number> {
        self.numbers.get(&site).copied()
    }

    /// What the code tells of it.
    #[must_use]
    pub fn facts(&self, number: Number) -> Option<&SiteFacts> {
        self.facts.get(number as usize)
    }

    /// The same, of a site that is called so.
    #[must_use]
    pub fn facts_of(&self, site: SiteId) -> Option<&SiteFacts> {
        self.facts(self.number(site)?)
    }

    /// Its class.
    #[must_use]
    pub fn class(&self, number: Number) -> usize {
        self.class.get(number as usize).copied().unwrap_or(0)
    }

    /// The untried sites of a class at which no probe stands.
    #[must_use]
    pub fn untried(&self, class: usize) -> &[Number] {
        self.untried.get(class).map_or(&[], Vec::as_slice)
    }

    /// Those at which one does.
    #[must_use]
    pub fn idle(&self, class: usize) -> &[Number] {
        self.idle.get(class).map_or(&[], Vec::as_slice)
    }

    /// Whether a probe stands at a site.
    #[must_use]
    pub fn has_probe(&self, number: Number) -> bool {
        self.stands
            .get(number as usize)
            .is_some_and(|stands| *stands)
    }

    /// A probe stands at a site now, or no more.
    pub fn set_probe(&mut self, number: Number, stands: bool) {
        if self.has_probe(number) == stands {
            return;
        }
        let is_untried = self.is_untried(number);
        self.try_it(number);
        if let Some(known) = self.stands.get_mut(number as usize) {
            *known = stands;
        }
        if is_untried {
            self.list(number);
        }
    }

    /// No probe can be had at a site.
    pub fn refuse_probe(&mut self, number: Number) {
        self.set_probe(number, false);
        if let Some(facts) = self.facts.get_mut(number as usize) {
            facts.can_be_probed = false;
        }
    }

    /// A site, others that may access the same bytes, and then those that are next to these: of its object and of the ones after it, or of its function and the ones after
    /// it, where nothing is called by a name or a member.
    pub fn akin(&self, number: Number) -> impl Iterator<Item = Number> + '_ {
        let facts = self.facts(number);
        let object = facts.and_then(object_of);
        let function = facts.filter(|_| object.is_none());
        let objects = object.map(|first| around(&self.of_object, first));
        let functions = function.map(|facts| around(&self.of_function, facts.function));
        let of_objects = objects.into_iter().flatten();
        let lists = of_objects.chain(functions.into_iter().flatten());
        // Of the site's own list those after it come first, and those before it next.
        lists.flat_map(move |list| {
            let at = list.iter().position(|site| *site == number);
            let (before, from) = list.split_at(at.unwrap_or(0));
            from.iter().chain(before).copied()
        })
    }

    /// A thread was seen right beside a site.
    pub fn seen(&mut self, number: Number) {
        /// Sites before and after it that are beside as well.
        const BESIDE: usize = 1;
        let Some(function) = self.facts(number).map(|facts| facts.function) else {
            return;
        };
        self.executes(function);
        let sites = self.of_function.get(&function).cloned().unwrap_or_default();
        if let Some(at) = sites.iter().position(|site| *site == number) {
            let beside = sites.iter().skip(at.saturating_sub(BESIDE));
            for &site in beside.take(at.min(BESIDE) + 1 + BESIDE) {
                self.approach(site, 2);
            }
        }
    }

    /// A thread was seen in a function.
    pub fn executes(&mut self, function: FunctionId) {
        if self.executed.insert(function) {
            let sites = self.of_function.get(&function).cloned();
            for site in sites.unwrap_or_default() {
                self.approach(site, 1);
            }
        }
    }

    /// A function was not there before.
    pub fn is_new_code(&mut self, function: FunctionId) {
        let sites = self.of_function.get(&function).cloned();
        for site in sites.unwrap_or_default() {
            let class = self.class(site);
            if !is_new(class) {
                self.classify(site, class + NEW);
            }
        }
    }

    /// Something is shared, changes, or has raced: the sites of which that is news.
    pub fn relate(&mut self, object: Object) -> Vec<Number> {
        if !self.related.insert(object) {
            return Vec::new();
        }
        let sites = self.of_object.get(&object).cloned().unwrap_or_default();
        for &site in &sites {
            let class = self.class(site);
            if !is_related(class) {
                self.classify(site, class + RELATED);
            }
        }
        sites
    }

    /// Whether nobody was waited for there, or stopped.
    #[must_use]
    pub fn is_untried(&self, number: Number) -> bool {
        self.place.get(number as usize).is_some_and(Option::is_some)
    }

    /// It is tried now.
    pub fn try_it(&mut self, number: Number) {
        let place = self.place.get_mut(number as usize).and_then(Option::take);
        let Some(place) = place else {
            return;
        };
        let list = self.list_of(number);
        list.swap_remove(place as usize);
        if let Some(&moved) = list.get(place as usize) {
            self.place[moved as usize] = Some(place);
        }
    }

    /// Threads were seen so near.
    fn approach(&mut self, number: Number, near: usize) {
        let class = self.class(number);
        let before = nearness(class);
        if before < near {
            self.classify(number, class + NEAR * (near - before));
        }
    }

    fn classify(&mut self, number: Number, class: usize) {
        let is_untried = self.is_untried(number);
        self.try_it(number);
        if let Some(known) = self.class.get_mut(number as usize) {
            *known = class;
        }
        if is_untried {
            self.list(number);
        }
    }

    fn list(&mut self, number: Number) {
        let list = self.list_of(number);
        list.push(number);
        let place = list.len() as u32 - 1;
        self.place[number as usize] = Some(place);
    }

    /// The list in which a site is while it is untried.
    fn list_of(&mut self, number: Number) -> &mut Vec<Number> {
        let class = self.class(number);
        if self.has_probe(number) {
            &mut self.idle[class]
        } else {
            &mut self.untried[class]
        }
    }
}

/// The values of a map, those from a key on first.
fn around<K: Ord + Copy, V>(map: &BTreeMap<K, V>, from: K) -> impl Iterator<Item = &V> {
    map.range(from..)
        .chain(map.range(..from))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(site: u64) -> SiteFacts {
        SiteFacts {
            site: SiteId(site),
            function: FunctionId(site / 4),
            writes: site.is_multiple_of(2),
            variable: site.is_multiple_of(3).then_some(VariableId(site / 12)),
            member: None,
            can_be_probed: true,
        }
    }

    /// Check that each untried site stands in the list of its class and in no other, whatever becomes known of it.
    #[test]
    fn classes_are_kept() {
        let mut catalogue = Catalogue::default();
        let all: Vec<_> = (0..48).map(facts).collect();
        catalogue.add(&all);
        catalogue.add(&all[..7]);
        let check = |catalogue: &Catalogue, tried: &[Number], new: &[u64]| {
            let mut listed = Vec::new();
            for class in 0..CLASSES {
                for &number in catalogue.untried(class) {
                    assert_eq!(catalogue.class(number), class);
                    let facts = catalogue.facts(number).expect("it is known");
                    assert_eq!(kind(class), (facts.variable.is_some(), facts.writes));
                    assert_eq!(is_new(class), new.contains(&facts.function.0));
                    listed.push(number);
                }
            }
            listed.sort_unstable();
            let untried: Vec<_> = (0..48).filter(|number| !tried.contains(number)).collect();
            assert_eq!(listed, untried);
        };
        check(&catalogue, &[], &[]);
        catalogue.seen(5);
        let near = [4, 5, 6, 7, 8].map(|number| nearness(catalogue.class(number)));
        assert_eq!(near, [2, 2, 2, 1, 0]);
        check(&catalogue, &[], &[]);
        catalogue.try_it(6);
        catalogue.try_it(6);
        let news = catalogue.relate(Object::Variable(VariableId(0)));
        assert_eq!(news, [0, 3, 6, 9]);
        assert!(catalogue.relate(Object::Variable(VariableId(0))).is_empty());
        let related = (0..48).filter(|number| is_related(catalogue.class(*number)));
        assert_eq!(related.collect::<Vec<_>>(), [0, 3, 6, 9]);
        catalogue.seen(5);
        check(&catalogue, &[6], &[]);
        catalogue.is_new_code(FunctionId(1));
        catalogue.is_new_code(FunctionId(1));
        check(&catalogue, &[6], &[1]);
    }
}
