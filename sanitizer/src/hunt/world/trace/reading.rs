//! Reads a recording in the order of its threads' deeds, and puts together what is to be kept of it.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use anyhow::{Context as _, Result};

use super::{
    census::Census,
    clocks::Clocks,
    code::{self, CodeSite, Names},
    format::{Access, Header, Recording, What},
    lines,
    order::InOrder,
    races::{Place, Races},
    recorded::{Event, Race, Recorded, Site},
};
use crate::{
    hunt::plan::event::{FunctionId, MemberId, SiteFacts, SiteId, VariableId},
    image::Image,
};

/// Arrivals at a site that are kept where the bytes are a thread's own, about.
const MOST_ALONE: u64 = 2000;
/// It is looked so often where each thread is, s.
const SAMPLE_S: f64 = 100e-6;
/// A thread whose next access is no later than this is before it; else it is in code without any, or in the kernel, s.
const NEAR_S: f64 = 5e-6;
/// Accesses ahead of where a thread is that are told.
const AHEAD: usize = 4;

/// Reads a recording of a program, which was made so many times slower by it.
///
/// # Errors
/// Says what cannot be read.
pub fn recorded(folder: &Path, program: &Path, slower: f64) -> Result<Recorded> {
    let recording = Recording::open(folder)?;
    let census = Census::of(&recording)?;
    let image = Image::open(program)?;
    let mut reading = Reading::new(&census, &recording, slower)?;
    reading.code(&code::sites(&image)?);
    reading.read(&recording)?;
    let header = reading.header;
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut recorded = reading.end(name);
    lines::name(&mut recorded, program, &image, &header);
    Ok(recorded)
}

/// Where a thread is looked at.
#[derive(Clone, Debug, Default)]
struct Sampling {
    /// When that is next, in ticks.
    due: u64,
    /// The last look, and how many accesses ahead of it are still to come.
    last: usize,
    to_come: usize,
}

/// See the module.
struct Reading<'a> {
    census: &'a Census,
    header: Header,
    /// What to divide ticks by for seconds of a program that is not recorded.
    ticks_per_s: f64,
    clocks: Clocks,
    races: Races,
    sites: Vec<Site>,
    plain: u32,
    numbers: HashMap<u32, u32>,
    alone: HashMap<u32, u64>,
    events: Vec<Event>,
    samples: Vec<Vec<u32>>,
    sampling: Vec<Sampling>,
}

impl<'a> Reading<'a> {
    fn new(census: &'a Census, recording: &Recording, slower: f64) -> Result<Self> {
        let header = *recording
            .headers()
            .next()
            .context("a recording has threads")?;
        let threads = recording.headers().count();
        Ok(Self {
            census,
            header,
            ticks_per_s: header.ticks_per_s as f64 * slower,
            clocks: Clocks::new(threads),
            races: Races::default(),
            sites: Vec::new(),
            plain: 0,
            numbers: HashMap::new(),
            alone: HashMap::new(),
            events: Vec::new(),
            samples: Vec::new(),
            sampling: vec![Sampling::default(); threads],
        })
    }

    /// How long it lasted, s, if it had not been recorded.
    fn lasted_s(&self) -> f64 {
        self.header.lasted.as_secs_f64() * self.header.ticks_per_s as f64 / self.ticks_per_s
    }

    fn site(&mut self, offset: u32, facts: SiteFacts) {
        let number = self.sites.len() as u32;
        self.numbers.insert(offset, number);
        let comes = self.census.executions(offset) as f64 / self.lasted_s();
        let site = SiteId(number.into());
        self.sites.push(Site {
            facts: SiteFacts { site, ..facts },
            offset,
            line: None,
            comes,
        });
    }

    /// All sites: first those that the code has.
    fn code(&mut self, code: &[CodeSite]) {
        let base = self.header.base;
        for of_code in code {
            let facts = SiteFacts {
                site: SiteId(0),
                function: FunctionId(base + of_code.function),
                can_be_probed: false,
                writes: of_code.writes,
                variable: match of_code.names {
                    Names::Variable(offset) => Some(VariableId(base + offset)),
                    _ => None,
                },
                member: match of_code.names {
                    Names::Member(distance) => Some(MemberId(distance)),
                    _ => None,
                },
            };
            self.site(of_code.site, facts);
        }
        self.plain = self.sites.len() as u32;
        for offset in self.census.executed() {
            if !self.numbers.contains_key(&offset) {
                let facts = SiteFacts {
                    site: SiteId(0),
                    function: FunctionId(0),
                    can_be_probed: false,
                    writes: true,
                    variable: None,
                    member: None,
                };
                self.site(offset, facts);
            }
        }
    }

    /// Reads all of it.
    fn read(&mut self, recording: &Recording) -> Result<()> {
        let turns = self.census.turns.clone();
        for (thread, entry) in InOrder::new(recording.entries()?, turns) {
            match entry.what {
                What::Access(access) => self.access(thread, access, entry.site, entry.time),
                What::Sync { object, operation } => {
                    self.clocks.synchronize(thread, object, operation);
                }
                What::Allocated { address, length } => self.races.allocated(address, length),
                What::Freed => {}
            }
        }
        Ok(())
    }

    fn access(&mut self, thread: usize, access: Access, offset: u32, time: u64) {
        let Access { writes, atomic, .. } = access;
        let mut is_contended = false;
        for (word, bytes) in access.words() {
            if self.census.is_contended(word) {
                is_contended = true;
                let place = Place {
                    site: offset,
                    writes,
                    atomic,
                };
                self.races
                    .access(&self.clocks, thread, (word, bytes), place, time);
            }
        }
        let is_sampled = self.is_sampled(thread, time);
        let is_one_of_many = !is_contended && {
            let each = self.census.executions(offset).div_ceil(MOST_ALONE);
            let so_far = self.alone.entry(offset).or_default();
            *so_far += 1;
            !so_far.is_multiple_of(each.max(1))
        };
        if is_one_of_many && !is_sampled {
            return;
        }
        let Some(&site) = self.numbers.get(&offset) else {
            return;
        };
        if is_sampled && site < self.plain {
            let number = self.events.len() as u32;
            let last = self.sampling.get(thread).map(|sampling| sampling.last);
            if let Some(sample) = last.and_then(|last| self.samples.get_mut(last)) {
                sample.push(number);
            }
        }
        self.events.push(Event {
            time_ns: (time as f64 / self.ticks_per_s * 1e9) as u64,
            access,
            site,
            thread: thread as u16,
            locks: self.clocks.held(thread),
        });
    }

    /// Whether an access is ahead of a thread when that is looked at.
    fn is_sampled(&mut self, thread: usize, time: u64) -> bool {
        let Some(sampling) = self.sampling.get_mut(thread) else {
            return false;
        };
        if time >= sampling.due {
            let each = (SAMPLE_S * self.ticks_per_s) as u64;
            // The last look before the access; where several were, the thread was elsewhere.
            let looked = time - (time - sampling.due) % each.max(1);
            sampling.due = looked + each.max(1);
            if ((time - looked) as f64) < NEAR_S * self.ticks_per_s {
                sampling.last = self.samples.len();
                sampling.to_come = AHEAD;
                self.samples.push(Vec::new());
            }
        }
        let is_sampled = sampling.to_come > 0;
        sampling.to_come = sampling.to_come.saturating_sub(1);
        is_sampled
    }

    /// What is kept.
    fn end(mut self, name: String) -> Recorded {
        let mut races = BTreeMap::new();
        for (places, seen) in self.races.into_found() {
            let numbers = places.map(|place| self.numbers.get(&place.site).copied());
            let [Some(one), Some(other)] = numbers else {
                continue;
            };
            let sites = [one.min(other), one.max(other)];
            let nearest_ns = (seen.nearest as f64 / self.ticks_per_s * 1e9) as u64;
            let race = races.entry(sites).or_insert(Race {
                sites,
                times: 0,
                nearest_ns,
            });
            race.times += seen.times;
            race.nearest_ns = race.nearest_ns.min(nearest_ns);
        }
        self.samples.retain(|sample| !sample.is_empty());
        let recorded = self.header.lasted.as_secs_f64();
        let cpu_s =
            self.header.cpu.as_secs_f64() * self.header.ticks_per_s as f64 / self.ticks_per_s;
        let lasted_s = recorded * self.header.ticks_per_s as f64 / self.ticks_per_s;
        Recorded {
            name,
            processors: self.header.cpu.as_secs_f64() / recorded,
            beside_sites: (self.samples.len() as f64 * SAMPLE_S / cpu_s).min(1.0),
            length_ns: (lasted_s * 1e9) as u64,
            sites: self.sites,
            plain: self.plain,
            lines: Vec::new(),
            races: races.into_values().collect(),
            locks: self.clocks.into_locks().sets().to_vec(),
            events: self.events,
            samples: self.samples,
        }
    }
}
