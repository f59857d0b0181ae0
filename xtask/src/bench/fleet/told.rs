//! What gwp-race has told: races by time, and leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use serde_json::Value;

use super::plan::{Plan, binary_of};
use crate::bench::reported::{pair, races};

/// Races of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Races {
    /// The seconds after which that of a program was found, of those that were planted, each once.
    pub found: BTreeMap<usize, f64>,
    /// Pairs of functions that do not race.
    pub wrong: BTreeSet<[String; 2]>,
}

impl Races {
    /// Those in these lines of JSON.
    pub fn of(told: &str, plan: &Plan, began: SystemTime) -> Self {
        let mut all = Self::default();
        for race in races(told) {
            let functions = pair(&race);
            let [one, other] = functions.each_ref().map(|name| binary_of(name));
            let planted = one.filter(|&binary| one == other && plan.is_racy(binary));
            let Some(binary) = planted else {
                all.wrong.insert(functions);
                continue;
            };
            let time = race["time"].as_str().unwrap_or_default();
            let time = humantime::parse_rfc3339(time).ok();
            let after = time.and_then(|time| time.duration_since(began).ok());
            let seconds = after.unwrap_or_default().as_secs_f64();
            let first = all.found.entry(binary).or_insert(seconds);
            *first = first.min(seconds);
        }
        all
    }

    /// The seconds at which one was found, in their order.
    pub fn times(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.found.values().copied().collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

/// Leases that have ended for the same reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leases {
    pub count: usize,
    pub seconds: f64,
    pub cost_s: f64,
    pub stalls: u64,
    pub caught: u64,
}

/// The leases of a log; controls are none.
fn all_leases(told: &str) -> impl Iterator<Item = Value> {
    let lines = told.lines();
    let objects = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.filter(|one| one["type"] == "lease" && one["control"] == false)
}

/// The seconds after which the first of them began that are over.
pub fn first_lease(told: &str, began: SystemTime) -> Option<f64> {
    let seconds = all_leases(told).filter_map(|lease| {
        let time = humantime::parse_rfc3339(lease["began"].as_str()?).ok()?;
        Some(time.duration_since(began).ok()?.as_secs_f64())
    });
    seconds.min_by(f64::total_cmp)
}

/// The leases of a log, by what has ended them.
pub fn leases(told: &str) -> BTreeMap<String, Leases> {
    let mut all: BTreeMap<String, Leases> = BTreeMap::new();
    for lease in all_leases(told) {
        let why = lease["why"].as_str().unwrap_or("?").to_owned();
        let sum = all.entry(why).or_default();
        sum.count += 1;
        sum.seconds += lease["lasted_s"].as_f64().unwrap_or(0.0);
        sum.cost_s += lease["cost_s"].as_f64().unwrap_or(0.0);
        sum.stalls += lease["stalls"].as_u64().unwrap_or(0);
        sum.caught += lease["caught"].as_u64().unwrap_or(0);
    }
    all
}

/// The messages of a log that are for people, those of the same words once, with how often they came.
pub fn messages(told: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for line in told.lines().filter(|line| !line.starts_with('{')) {
        // Numbers differ from time to time.
        let words = line.split(' ').map(|word| {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            if is_number { "N" } else { word }
        });
        let line = words.collect::<Vec<_>>().join(" ");
        if !line.trim().is_empty() {
            *all.entry(line).or_default() += 1;
        }
    }
    all
}

/// Who has had a lease, by `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Processes that the daemon knows.
    pub known: usize,
    /// Those that have, or have had, a lease.
    pub leased: usize,
    /// Those that have had none, though their purses hold what the smallest lease needs.
    pub waiting: usize,
}

/// What a lease needs at least, seconds: `LEAST` of the scheduler's records.
const LEAST_S: f64 = 0.002;

impl Served {
    /// What `status --format json` tells.
    pub fn of(status: &Value) -> Self {
        let mut served = Self::default();
        for process in status["processes"].as_array().into_iter().flatten() {
            served.known += 1;
            let has_one = !process["lease"].is_null();
            if has_one || process["leases"].as_u64() > Some(0) {
                served.leased += 1;
            } else if process["purse_s"].as_f64() >= Some(LEAST_S) {
                served.waiting += 1;
            }
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    /// Check that the first report of a planted race counts, with its time, and that all others are wrong.
    #[test]
    fn races_by_time() {
        let side = |name: &str| format!("{{\"stack\":[{{\"function\":\"{name}\"}}]}}");
        let race = |second: u32, one: &str, other: &str| {
            let (one, other) = (side(one), side(other));
            format!(
                "{{\"type\":\"race\",\"time\":\"1970-01-01T00:00:{second:02}.5Z\",\"accesses\":[{one},{other}]}}\n"
            )
        };
        let plan = Plan::new(10, 10, 10, Some(2)).unwrap();
        let told = race(7, "served_1", "served_1")
            + &race(5, "served_1", "served_1")
            + &race(9, "served_0", "served_0")
            + &race(9, "served_2", "served_2")
            + &race(9, "served_0", "store")
            + "gwp-race: watching\n";
        let races = Races::of(&told, &plan, UNIX_EPOCH);
        assert_eq!(races.times(), [5.5, 9.5]);
        assert_eq!(races.wrong.len(), 2);
    }

    /// Check that leases are counted by their ends, and messages by their words.
    #[test]
    fn leases_and_messages() {
        let lease = |why: &str, control: bool| {
            format!(
                "{{\"type\":\"lease\",\"why\":\"{why}\",\"control\":{control},\"began\":\"1970-01-01T00:00:04Z\",\"lasted_s\":2.0,\"cost_s\":0.25,\"stalls\":3,\"caught\":1}}\n"
            )
        };
        let told = lease("spent", false)
            + &lease("spent", false)
            + &lease("quiet", false)
            + &lease("quiet", true)
            + "gwp-race: 17 processes\ngwp-race: 18 processes\n\n";
        assert_eq!(first_lease(&told, UNIX_EPOCH), Some(4.0));
        assert_eq!(first_lease(&lease("quiet", true), UNIX_EPOCH), None);
        let leases = leases(&told);
        assert_eq!(leases.len(), 2);
        let spent = Leases {
            count: 2,
            seconds: 4.0,
            cost_s: 0.5,
            stalls: 6,
            caught: 2,
        };
        assert_eq!(leases["spent"], spent);
        assert_eq!(leases["quiet"].count, 1);
        let messages = messages(&told);
        assert_eq!(messages.len(), 1);
        assert_eq!(messages["gwp-race: N processes"], 2);
    }

    /// Check who has had a lease, and who should have.
    #[test]
    fn who_was_served() {
        let status = serde_json::json!({"processes": [
            {"lease": null, "leases": 2, "purse_s": 0.0},
            {"lease": {}, "leases": 0, "purse_s": 0.0},
            {"lease": null, "leases": 0, "purse_s": 0.002},
            {"lease": null, "leases": 0, "purse_s": 0.001},
        ]});
        let served = Served {
            known: 4,
            leased: 2,
            waiting: 1,
        };
        assert_eq!(Served::of(&status), served);
    }
}
