//! A log in words, a record a line.

use std::{collections::BTreeMap, time::Duration};

use super::Record;
use crate::hunt::plan::{
    action::{Candidate, Deed, Then},
    event::{Event, LetGo, Met, Partner, SiteId, StallEnd, What},
    prior,
    purse::Purse,
};

/// Puts records into words; knows when the hunt of each process has begun.
#[derive(Debug, Default)]
pub struct Words {
    since: BTreeMap<u32, Duration>,
}

impl Words {
    /// A record in words: the time since the first decision of the hunt, in seconds, the process, and what it says.
    pub fn line(&mut self, process: u32, record: &Record) -> String {
        if let Record::Begun { .. } = record {
            self.since.remove(&process);
        }
        if let Record::Decided(now, ..) = record {
            self.since.entry(process).or_insert(*now);
        }
        let since = self.since.get(&process);
        let after = record.time().map(|now| {
            let after = since.map(|since| now.saturating_sub(*since));
            seconds(after.unwrap_or_default())
        });
        let after = after.unwrap_or_default();
        format!("{after:>14}  {process}  {}", in_words(record))
    }
}

/// A time in seconds, to the nanosecond.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

fn time(time: Duration) -> String {
    format!("{} ms", time.as_nanos() as f64 / 1e6)
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

fn place(site: SiteId) -> String {
    format!("{:#x}", site.0)
}

/// Where a thread stands, or may come.
pub(super) fn places(ahead: &[SiteId]) -> String {
    if ahead.is_empty() {
        return "no site".to_owned();
    }
    let places = ahead.iter().map(|site| place(*site));
    places.collect::<Vec<_>>().join(" or ")
}

fn in_words(record: &Record) -> String {
    match record {
        Record::Begun { seed, priors } => {
            let same = if *priors == prior::fingerprint() {
                "the present"
            } else {
                "other"
            };
            format!("begins: seed {seed}, {same} priors ({priors:016x})")
        }
        Record::Observed(_, Event { of, what }) => {
            let of = of.map(|action| format!("#{}: ", action.0));
            format!("{}{}", of.unwrap_or_default(), what_in_words(what))
        }
        Record::Decided(_, purse, action) => {
            let (id, deed) = (action.id.0, deed_in_words(&action.deed));
            format!("#{id} decided: {deed}; {}", purse_in_words(purse))
        }
        Record::Stopped {
            ahead,
            waited,
            answer,
            ..
        } => {
            let how = waited.map_or_else(
                || "by a sample".to_owned(),
                |waited| format!("after {}", time(waited)),
            );
            let (place, answer) = (places(ahead), answer_in_words(*answer));
            format!("a thread stands at {place}, stopped {how}: {answer}")
        }
        Record::Preempted { all, answer, .. } => format!(
            "threads are preempted at {}: {}",
            candidates(all),
            choice_in_words(all, *answer)
        ),
        Record::Lost => "what follows could not be told".to_owned(),
        Record::Ended => "ends".to_owned(),
    }
}

fn purse_in_words(purse: &Purse) -> String {
    let [left, most, credit] = [purse.left_s, purse.most_s, purse.credit_s].map(milliseconds);
    let income = purse.income * 100.0;
    format!("left {left} of {most}, credit {credit}, income {income:.3} %")
}

/// What is to be done.
pub(super) fn deed_in_words(deed: &Deed) -> String {
    match deed {
        Deed::Wait {
            site,
            at_most,
            then,
            wanted,
        } => {
            let wanted = wanted.map(|address| format!(" for who accesses {:#x}", address.0));
            format!(
                "wait at {}{} for {}, then {}",
                place(*site),
                wanted.unwrap_or_default(),
                time(*at_most),
                then_in_words(*then)
            )
        }
        Deed::Sample { at_most, then } => format!(
            "wait for a sample for {}, then {}",
            time(*at_most),
            then_in_words(*then)
        ),
        Deed::Arrival { but, at_most } => format!(
            "wait at all probes but {} for {}",
            but.len(),
            time(*at_most)
        ),
        Deed::Preempted => "take a preempted thread".to_owned(),
        Deed::Watch { variable, at_most } => {
            format!("watch {:#x} for {}", variable.0, time(*at_most))
        }
        Deed::Profile { sites, at_most } => {
            let (first, count) = (places(&sites[..sites.len().min(1)]), sites.len());
            format!(
                "profile {count} sites, {first} first, for {}",
                time(*at_most)
            )
        }
        Deed::Rest { time: rest } => format!("rest for {}", time(*rest)),
    }
}

fn then_in_words(then: Then) -> String {
    match then {
        Then::Hold { at_most, look } if look.is_zero() => format!("hold for {}", time(at_most)),
        Then::Hold { at_most, look } => {
            format!("hold for {} and look for {}", time(at_most), time(look))
        }
        Then::Look(look) => format!("look for {}", time(look)),
        Then::LetGo => "let go".to_owned(),
    }
}

/// What is to be done with a thread.
pub(super) fn answer_in_words(answer: Option<(SiteId, Then)>) -> String {
    answer.map_or_else(
        || "as decided".to_owned(),
        |(site, then)| format!("{}, at {}", then_in_words(then), place(site)),
    )
}

/// Where preempted threads are about to access memory.
pub(super) fn candidates(all: &[Candidate]) -> String {
    let sites: Vec<_> = all.iter().map(|one| one.site).collect();
    places(&sites)
}

/// Which of them is taken.
pub(super) fn choice_in_words(all: &[Candidate], answer: Option<(usize, Duration)>) -> String {
    let chosen = answer.and_then(|(index, at_most)| Some((all.get(index)?, at_most)));
    chosen.map_or_else(
        || "none".to_owned(),
        |(one, at_most)| format!("the one at {}, for {}", place(one.site), time(at_most)),
    )
}

fn what_in_words(what: &What) -> String {
    match what {
        What::Code(sites) => format!("{} sites", sites.len()),
        What::Told(sites) => format!("told of {} sites from before", sites.len()),
        What::New(function) => format!("{:#x} is a new function", function.0),
        What::CodeGone => "other code may stand at all addresses".to_owned(),
        What::WatchesAhead => "an address can be watched before a thread comes".to_owned(),
        What::Profiles { apart } => format!("sites can be profiled, {} apart", time(*apart)),
        What::Stood(all) => {
            let stand = all.iter().filter(|one| one.stands).count();
            let came: u64 = all.iter().map(|one| u64::from(one.count)).sum();
            format!(
                "of {} sites probes stand at {stand}; {came} threads came there",
                all.len()
            )
        }
        What::Refused(sites) => format!("no probe can be had at {}", places(sites)),
        What::SeesPreempted(true) => "it is seen which threads are preempted".to_owned(),
        What::SeesPreempted(false) => "preempted threads are not seen any more".to_owned(),
        What::Seen(site) => format!("a thread was seen at {}", place(*site)),
        What::Executes(function) => format!("a thread was seen in {:#x}", function.0),
        What::Changes(variable) => format!("{:#x} changes", variable.0),
        What::Threads(count) => format!("{count} threads"),
        What::Nobody { site, waited } => {
            format!("nobody came to {} in {}", place(*site), time(*waited))
        }
        What::Came { site, waited } => {
            format!("a thread came to {} after {}", place(*site), time(*waited))
        }
        What::About { site, address } => {
            format!("about to access {:#x} at {}", address.0, place(*site))
        }
        What::Passed {
            site,
            address,
            lasted,
            users,
        } => {
            let users = if users.is_empty() {
                "nobody".to_owned()
            } else {
                partners_in_words(users)
            };
            let (site, lasted) = (place(*site), time(*lasted));
            let address = address.0;
            format!("watched {address:#x} at {site} for {lasted}: used by {users}")
        }
        What::NoSample { waited } => format!("no sample in {}", time(*waited)),
        What::LetGo { site, why } => {
            let why = match why {
                LetGo::Wanted => "that was wanted",
                LetGo::Unsuitable => "its access is its own",
                LetGo::HoldsLock => "it holds a lock",
                LetGo::NothingLeft => "nothing is left",
            };
            format!("let go at {}: {why}", place(*site))
        }
        What::Held { site, lasted, end } => {
            let end = match end {
                StallEnd::Quiet => "nobody came".to_owned(),
                StallEnd::Hit(partners) => format!("caught {}", partners_in_words(partners)),
                StallEnd::Known(partners) if partners.is_empty() => {
                    "caught who was known".to_owned()
                }
                StallEnd::Known(partners) => {
                    format!("caught who was known, {}", partners_in_words(partners))
                }
                StallEnd::Locked => "others wait for its lock".to_owned(),
            };
            format!("held at {} for {}: {end}", place(*site), time(*lasted))
        }
        What::Looked {
            site,
            lasted,
            users,
            is_private,
        } => {
            let users = match (users.is_empty(), is_private) {
                (true, true) => "its own thread".to_owned(),
                (true, false) => "nobody".to_owned(),
                (false, _) => partners_in_words(users),
            };
            let (site, lasted) = (place(*site), time(*lasted));
            format!("looked at {site} for {lasted}: used by {users}")
        }
        What::Watched {
            variable,
            lasted,
            writers,
        } => {
            let writers = if writers.is_empty() {
                "nobody".to_owned()
            } else {
                partners_in_words(writers)
            };
            let (variable, lasted) = (variable.0, time(*lasted));
            format!("watched {variable:#x} for {lasted}: written by {writers}")
        }
        What::Profiled {
            lasted,
            arrivals,
            met,
            cost_s,
        } => {
            let (sites, lasted) = (arrivals.len(), time(*lasted));
            let reached = arrivals
                .iter()
                .filter(|arrivals| arrivals.count > 0)
                .count();
            let count: u64 = arrivals
                .iter()
                .map(|arrivals| u64::from(arrivals.count))
                .sum();
            let met = if met.is_empty() {
                "nobody met".to_owned()
            } else {
                met.iter().map(met_in_words).collect::<Vec<_>>().join(", ")
            };
            let cost = milliseconds(*cost_s);
            format!(
                "profiled {sites} sites for {lasted}, for {cost}: {count} came, to {reached} of them; {met}"
            )
        }
        What::Cost(cost_s) => format!("over, for {}", milliseconds(*cost_s)),
    }
}

fn met_in_words(met: &Met) -> String {
    let (first, address) = (place(met.first), met.address.0);
    let (then, after) = (place(met.then.site), time(met.then.after));
    format!("{first} and {then} met at {address:#x}, {after} apart")
}

fn partners_in_words(partners: &[Partner]) -> String {
    let partners = partners.iter();
    let partners =
        partners.map(|partner| format!("{} after {}", place(partner.site), time(partner.after)));
    partners.collect::<Vec<_>>().join(", ")
}
