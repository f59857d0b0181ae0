//! What machines tell a collector, and are told.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Result, ensure};
use gwp_race::{
    delivery::{Message, hints::HintFile},
    hunt::world::{fleet::Learned as OfRound, lease::Known, population::Population},
    learned::{Learned, MOST_FUNCTIONS, MOST_LEARNED, Module},
    outbox::Pace,
    report::Race,
    store::{Batch, Caught, Lost, Whereabouts, millis},
};

use super::{code::Code, collector::Collector};

/// What has gone over the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub messages: u64,
    /// Bytes that machines have sent, and were told, as they are packed; without headers.
    pub sent: u64,
    pub told: u64,
    /// Functions and races that were sent.
    pub rows: u64,
    /// How long sending took in all.
    pub sending: Duration,
    /// The largest file of hints, bytes.
    pub largest: usize,
}

/// See the module.
pub struct Shared {
    code: Code,
    module: Module,
    race: Race,
    /// Of each machine the number of its next message, and what it was told last.
    sequences: Vec<u64>,
    tags: Vec<String>,
    /// When each asks again, s, and how long after that.
    dues: Vec<(f64, Pace)>,
    /// What was made of the file with a tag.
    made: Option<(String, Arc<Known>)>,
    pub figures: Figures,
}

impl Shared {
    pub fn new(population: &Population, hosts: usize, race: Race, seed: u64) -> Self {
        Self {
            code: Code::of(&population.whole),
            module: Module {
                name: "fleet-server".to_owned(),
                build: format!("{seed:016x}"),
            },
            race,
            sequences: vec![1; hosts],
            tags: vec![String::new(); hosts],
            dues: vec![(0.0, Pace::default()); hosts],
            made: None,
            figures: Figures::default(),
        }
    }

    /// Sends what a machine has found and learned in a round.
    pub fn send(&mut self, collector: &Collector, host: usize, of_round: &OfRound) -> Result<()> {
        let at = millis(SystemTime::now());
        let races: BTreeSet<_> = of_round.finds.iter().map(|find| find.race).collect();
        let functions = self.code.functions(&of_round.sites, &races);
        let caught = races.iter().map(|race| Caught {
            race: named(&self.race, host, *race),
            place: place(host),
            times: 1,
            last: None,
        });
        let mut batch = Batch {
            caught: caught.collect(),
            ..Batch::default()
        };
        self.figures.rows += (functions.len() + races.len()) as u64;
        for some in functions.chunks(MOST_FUNCTIONS * MOST_LEARNED) {
            let learned = some.chunks(MOST_FUNCTIONS).map(|functions| Learned {
                module: self.module.clone(),
                at,
                functions: functions.to_vec(),
            });
            let message = Message {
                sender: format!("{host:032x}"),
                sequence: self.sequences[host],
                lost: Lost::default(),
                batch: std::mem::take(&mut batch),
                learned: learned.collect(),
            };
            let begun = Instant::now();
            self.figures.sent += collector.send(&message)? as u64;
            self.figures.sending += begun.elapsed();
            self.figures.messages += 1;
            self.sequences[host] += 1;
        }
        Ok(())
    }

    /// What a machine is told that it does not know yet, where it asks by now.
    pub fn ask(
        &mut self,
        collector: &Collector,
        host: usize,
        now_s: f64,
    ) -> Result<Option<Arc<Known>>> {
        let (due, pace) = &mut self.dues[host];
        if now_s < *due {
            return Ok(None);
        }
        let told = collector.hints(&self.module, &self.tags[host])?;
        *due = now_s + pace.after(told.is_some()).as_secs_f64();
        let Some((tag, body)) = told else {
            return Ok(None);
        };
        self.figures.told += body.len() as u64;
        self.figures.largest = self.figures.largest.max(body.len());
        self.tags[host].clone_from(&tag);
        if let Some((made, known)) = &self.made
            && *made == tag
        {
            return Ok(Some(Arc::clone(known)));
        }
        let file = HintFile::decode(&body)?;
        ensure!(file.module == self.module, "the file is of another build");
        let known = Arc::new(self.code.known(&file.functions));
        self.made = Some((tag, Arc::clone(&known)));
        Ok(Some(known))
    }
}

/// A race that was found, as it is told.
fn named(race: &Race, host: usize, (one, other): (usize, usize)) -> Race {
    let mut race = race.clone();
    race.pid = u32::try_from(host).unwrap_or_default();
    race.identity.race = format!("r3:{:032x}", (one << 32) | other);
    race.identity.issue = format!("i3:{:032x}", (one << 32) | other);
    race
}

/// Where it was found.
pub fn place(host: usize) -> Whereabouts {
    Whereabouts {
        host: format!("node-{host:06}.example.org"),
        cgroup: format!("/system.slice/fleet-server@{host}.service"),
        container: String::new(),
    }
}
