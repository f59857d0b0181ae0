//! What a recorded program comes to in a few numbers, for the oracle: how often threads come to each site, and how likely and how soon whoever is
//! held there meets another one.

use std::collections::BTreeMap;

use super::index::Index;
use crate::hunt::{
    plan::event::SiteId,
    world::{
        costs::LONGEST_STALL,
        program::{After, Comes, Meeting, Order, Program, Site},
    },
};

/// Arrivals at a site that are looked at.
const ARRIVALS: usize = 500;

/// A program whose sites and races are those, where bytes are watched so long after a thread has come, s.
pub(super) fn program(index: &Index<'_>, delay_s: f64) -> Program {
    let mut program = Program::new("recorded", "");
    program.processors = index.recorded.processors;
    program.sites = (index.recorded.sites.iter())
        .map(|site| Site {
            facts: site.facts,
            comes: if site.comes > 0.0 {
                Comes::Rate(site.comes)
            } else {
                Comes::Never
            },
            area: None,
            cpu: 0.0,
        })
        .collect();
    let mut sides: Vec<u32> = index
        .recorded
        .races
        .iter()
        .flat_map(|race| race.sites)
        .collect();
    sides.sort_unstable();
    sides.dedup();
    sides.retain(|site| *site < index.recorded.plain);
    for site in sides {
        program.meetings.extend(meetings(index, site, delay_s));
    }
    program
}

/// The races of a site: how likely each is met, and how soon on average.
fn meetings(index: &Index<'_>, site: u32, delay_s: f64) -> Vec<Meeting> {
    let longest = LONGEST_STALL.as_secs_f64();
    let count = index
        .of_site
        .get(site as usize)
        .map_or(0, |times| times.count());
    let each = count.div_ceil(ARRIVALS).max(1);
    let arrivals = index
        .arrivals(SiteId(site.into()), 0.0)
        .take(count)
        .step_by(each);
    let mut tried = 0.0;
    let mut met = BTreeMap::<u32, (f64, f64)>::new();
    for (at, event) in arrivals {
        let Some(own) = index.event(event) else {
            continue;
        };
        tried += 1.0;
        let mut first = BTreeMap::new();
        let begin = at + delay_s;
        for (other_at, other) in index.others(event, begin, begin + longest) {
            let races = index.race(own.site, other.site).is_some()
                && index.common_lock(own, other).is_none();
            if races {
                first.entry(other.site).or_insert(other_at - begin);
            }
        }
        for (other, after) in first {
            let (times, sum) = met.entry(other).or_default();
            *times += 1.0;
            *sum += after;
        }
    }
    let meeting = |(other, (times, sum)): (u32, (f64, f64))| {
        let rate = times / f64::max(sum, 1e-9);
        let within = 1.0 - (-rate * longest).exp();
        Meeting {
            site: site as usize,
            other: other as usize,
            chance: (times / f64::max(tried, 1.0) / within).min(1.0),
            after: After::Rate(rate),
            order: Order::None,
        }
    };
    met.into_iter().map(meeting).collect()
}
