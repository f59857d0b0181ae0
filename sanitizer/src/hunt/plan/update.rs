//! What is known of the program: the only place where events are read.

pub mod stood;
mod thought;
mod told;

use std::{collections::BTreeMap, time::Duration};

use super::{
    action::{Action, Deed},
    addresses::Addresses,
    belief::{Circumstances, shown, uses},
    catalogue::{ByClass, Catalogue, Number, Object, kind, object_of},
    counts::Counts,
    event::{AddressId, Event, FunctionId, LetGo, SiteId, VariableId, What},
    prior,
    profiles::Profiles,
    samples::Samples,
    trust::Kind,
};
use told::Told;

/// See the module.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// The sites, and what is known of them before anybody was there.
    pub catalogue: Catalogue,
    /// What was seen at each site where anything was.
    sites: BTreeMap<Number, Counts>,
    /// What of that was told, from when the program was watched before; and what was seen since.
    pub(super) told: Told,
    /// An address can be watched before a thread comes that is about to access it.
    pub watches_ahead: bool,
    /// It can be seen which threads are off their processors.
    pub sees_preempted: bool,
    /// Sites at which probes stand, and to which somebody has come or at which something was seen before.
    pub visited: Vec<Number>,
    /// Addresses that two threads were seen to use.
    pub addresses: Addresses,
    /// Where a thread stands, and what it is about to access.
    pub(super) about: Option<(Number, AddressId)>,
    /// Sites that were tried, and nothing came of it, by their class.
    pub tried: ByClass<Vec<Number>>,
    /// Sites whose bytes another thread was seen to use, or whose variable somebody was seen to write.
    pub contended: Vec<Number>,
    /// Variables that change, and how often it was seen who writes them.
    pub changing: BTreeMap<VariableId, Counts>,
    of_class: ByClass<Counts>,
    /// Whether others use the bytes of sites, by whether those name a variable, and write, and whether probes stand there, as hardly anybody comes.
    uses: [Counts; 8],
    /// What those that read, and those that write, have shown of orders; those of a function; those of an object.
    of_kind: [Counts; 2],
    of_function: BTreeMap<FunctionId, Counts>,
    of_object: BTreeMap<Object, Counts>,
    /// What has come of samples.
    pub samples: Samples,
    /// What has come of profiles.
    pub profiles: Profiles,
    /// The same of threads that were off their processors.
    pub preempted: Samples,
    /// Races found.
    pub(super) races: f64,
    /// Logarithms of how soon others came, s, at each site once.
    meets: (f64, f64),
    /// What waits and stops have cost, s, and how many there were.
    waits: (f64, f64),
    stops: (f64, f64),
    /// What is in hand, since when, and for how long somebody was held for it, s.
    pub(super) hand: Option<Action>,
    since_s: f64,
    held_s: Option<f64>,
}

impl Knowledge {
    /// An action has begun.
    pub fn begin(&mut self, now: Duration, action: Action) {
        if matches!(action.deed, Deed::Profile { .. }) {
            self.profiles.begin(now.as_secs_f64());
        }
        self.hand = Some(action);
        self.since_s = now.as_secs_f64();
        self.held_s = None;
        self.about = None;
    }

    /// Takes note of what has happened.
    pub fn update(&mut self, now: Duration, event: &Event) {
        let now = now.as_secs_f64();
        let hand = self.hand.clone();
        let hand = hand.as_ref().filter(|hand| event.of == Some(hand.id));
        match &event.what {
            What::Code(facts) => self.catalogue.add(facts),
            What::Told(sites) => self.are_told(now, sites),
            What::New(function) => self.catalogue.is_new_code(*function),
            What::CodeGone => {
                *self = Self {
                    watches_ahead: self.watches_ahead,
                    profiles: self.profiles.forgotten(),
                    sees_preempted: self.sees_preempted,
                    ..Self::default()
                };
            }
            What::WatchesAhead => self.watches_ahead = true,
            What::Profiles { apart } => self.profiles.are_to_be_had(*apart),
            What::Stood(all) => {
                for one in &**all {
                    self.stood(now, one);
                }
            }
            What::Refused(sites) => self.refused(sites),
            What::SeesPreempted(sees) => self.sees_preempted = *sees,
            What::Seen(site) => {
                if let Some(number) = self.catalogue.number(*site) {
                    self.catalogue.seen(number);
                }
            }
            What::Executes(function) => self.catalogue.executes(*function),
            What::Changes(variable) => {
                self.relate(Object::Variable(*variable));
                self.changing.entry(*variable).or_default();
            }
            What::Threads(_) => {}
            What::Nobody { site, waited } => self.arrived(now, *site, hand, |counts| {
                counts.missed += 1.0;
                counts.waited_s += waited.as_secs_f64();
            }),
            What::Came { site, waited } => self.arrived(now, *site, hand, |counts| {
                counts.came += 1.0;
                counts.waited_s += waited.as_secs_f64();
            }),
            What::About { site, address } => {
                let number = self.catalogue.number(*site);
                self.about = number.map(|number| (number, *address));
                if let Some(number) = number {
                    self.is_visited(number);
                }
            }
            What::Passed {
                site,
                address,
                lasted,
                users,
            } => self.passed(now, *site, *address, *lasted, users),
            What::NoSample { .. } => {}
            What::LetGo { site, why } => match why {
                LetGo::Unsuitable => self.count(now, *site, |counts| counts.unused += 1.0),
                LetGo::HoldsLock => self.count(now, *site, |counts| counts.locked += 1.0),
                LetGo::NothingLeft | LetGo::Wanted => {}
            },
            What::Held { site, lasted, end } => {
                self.held_s = Some(lasted.as_secs_f64());
                self.ended(now, *site, *lasted, end, hand);
            }
            What::Looked {
                site,
                lasted,
                users,
                is_private,
            } => {
                self.held_s.get_or_insert(0.0);
                let late_s = if *is_private {
                    0.0
                } else {
                    lasted.as_secs_f64()
                };
                self.looked(now, *site, users, late_s, hand);
            }
            What::Watched {
                variable,
                lasted,
                writers,
            } => self.watched(now, *variable, *lasted, writers),
            What::Profiled {
                lasted,
                arrivals,
                met,
                cost_s,
            } => {
                let found = self.profiled(now, *lasted, arrivals, met);
                self.profiles.end(found, *cost_s);
            }
            What::Cost(cost) => {
                let is_of_site =
                    hand.is_some_and(|hand| matches!(hand.deed, Deed::Wait { wanted: None, .. }));
                let is_free = hand.is_some_and(|hand| hand.deed == Deed::Preempted);
                match self.held_s.take() {
                    // Nobody was stopped.
                    _ if is_free => {}
                    Some(held) => add(&mut self.stops, (cost - held).max(0.0)),
                    None if is_of_site => add(&mut self.waits, *cost),
                    None => {}
                }
                let time_s = (now - self.since_s).max(0.0);
                match hand.map(|hand| &hand.deed) {
                    Some(Deed::Sample { .. }) => self.samples.took(now, time_s, *cost),
                    Some(Deed::Preempted) => self.preempted.took(now, time_s, *cost),
                    Some(Deed::Profile { .. }) => self.profiles.took(time_s),
                    _ => {}
                }
                self.hand = None;
            }
        }
    }

    /// Somebody came to where it was waited, or nobody.
    pub(super) fn arrived(
        &mut self,
        now: f64,
        site: SiteId,
        hand: Option<&Action>,
        change: impl FnOnce(&mut Counts),
    ) {
        match self.wanted(site, hand) {
            Some((number, address)) => {
                let mut seen = Counts::default();
                change(&mut seen);
                self.addresses.count(now, number, address, seen);
            }
            None => self.count(now, site, change),
        }
    }

    /// Which of the addresses that may be at hand at a site was wanted there; `None` where anybody was who comes.
    pub(super) fn wanted(
        &self,
        site: SiteId,
        hand: Option<&Action>,
    ) -> Option<(Number, AddressId)> {
        let Some(&Deed::Wait {
            wanted: Some(address),
            ..
        }) = hand.map(|hand| &hand.deed)
        else {
            return None;
        };
        let number = self.catalogue.number(site)?;
        let facts = self.catalogue.facts(number)?;
        facts.variable.is_none().then_some((number, address))
    }

    /// Counts something at a site, and where that counts as well.
    pub(super) fn count(&mut self, now: f64, site: SiteId, change: impl FnOnce(&mut Counts)) {
        if let Some(number) = self.catalogue.number(site) {
            let mut seen = Counts::default();
            change(&mut seen);
            self.count_seen(now, number, seen, true);
        }
    }

    /// The same. `is_try`: a thread was waited for, or stopped, there; others that were never tried may be thought to be like it. What is seen without that
    /// leaves a site untried.
    pub(super) fn count_seen(&mut self, now: f64, number: Number, seen: Counts, is_try: bool) {
        let Some(facts) = self.catalogue.facts(number).copied() else {
            return;
        };
        let is_first = is_try && self.catalogue.is_untried(number);
        if is_first {
            self.is_tried(number);
        }
        let class = self.catalogue.class(number);
        let around = Circumstances {
            names: kind(class).0,
            // That may become known later: the order of evidence is not to matter.
            is_related: false,
            ..Circumstances::default()
        };
        self.told.gained(number, seen);
        let own = self.sites.entry(number).or_default();
        *own = own.at(now, prior::HALF_LIFE);
        let before = (own.racing, own.ordered);
        let used_before = uses(own);
        let met_before = meeting(own);
        own.add(seen);
        (own.racing, own.ordered) = shown(own, &around);
        let news = Counts {
            racing: own.racing - before.0,
            ordered: own.ordered - before.1,
            ..Counts::default()
        };
        let used = uses(own);
        let of_uses = Counts {
            used: used.yes - used_before.yes,
            unused: used.no - used_before.no,
            ..Counts::default()
        };
        let met = meeting(own);
        self.meets.0 += met.unwrap_or(0.0) - met_before.unwrap_or(0.0);
        self.meets.1 += f64::from(u8::from(met.is_some() && met_before.is_none()));
        let tries = own.tries();
        let add = |counts: &mut Counts, seen| counts.add_at(now, prior::HALF_LIFE, seen);
        add(&mut self.of_kind[usize::from(facts.writes)], news);
        let of_kind = self.kind_of_use(number);
        add(&mut self.uses[of_kind], of_uses);
        add(self.of_function.entry(facts.function).or_default(), news);
        if let Some(object) = object_of(&facts) {
            add(self.of_object.entry(object).or_default(), news);
        }
        // Of a class first tries are of interest.
        if is_try && (is_first || tries <= 1.0) {
            add(&mut self.of_class[class], seen);
        }
    }

    /// A thread was waited for, or stopped, at a site at which none was before.
    fn is_tried(&mut self, number: Number) {
        let class = self.catalogue.class(number);
        self.tried[class].push(number);
        self.catalogue.try_it(number);
        self.is_visited(number);
    }

    /// Whether anything was seen at a site.
    pub(super) fn is_known(&self, number: Number) -> bool {
        self.sites.contains_key(&number)
    }

    /// What is known of a site, in a word.
    pub(super) fn kind(&self, number: Number) -> Kind {
        if self.contended.contains(&number) {
            Kind::Contended
        } else if self.catalogue.has_probe(number) {
            Kind::Cold
        } else if self.catalogue.is_untried(number) {
            Kind::Untried
        } else {
            Kind::Tried
        }
    }
}

/// The logarithm of how soon others come at a site, s, if they do.
fn meeting(own: &Counts) -> Option<f64> {
    /// By so much the mean logarithm of one time by chance is below that of its mean: Euler's constant.
    const BELOW: f64 = 0.577_215_664_901_532_9;
    /// Nothing is told apart below this.
    const LEAST_S: f64 = 1e-6;
    let mean = || (own.meeting_s / own.met).max(LEAST_S);
    (own.met > 0.0).then(|| mean().ln() + BELOW / own.met.max(1.0))
}

fn add(sum: &mut (f64, f64), new: f64) {
    sum.0 += new;
    sum.1 += 1.0;
}
