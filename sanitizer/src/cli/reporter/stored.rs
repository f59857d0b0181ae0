//! What `--store` keeps of a run. A race is written when it is found, so that a gwp-race which is killed loses none but the one in hand; how often each was
//! caught is written now and then. What the store does not take is kept, and tried again before the next one: nobody knows whether a server that did not answer has it, so it comes again as it was, under
//! the same number, and is written once.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant, SystemTime},
};

use nix::unistd::{Pid, gethostname};

use super::State;
use super::sightings::Sightings;
use crate::cli::args::WatchArgs;
use crate::report::{Race, WatchedProgram, build_name};
use crate::store::{
    Access, Batch, Caught, Counted, Lost, Seen, Stamp, Store, StoreError, Whereabouts, millis,
    millis_of,
};
use crate::tracee::container::{group, groups, in_groups, lasting};

/// How often figures of repeats are written.
const PERIOD: Duration = Duration::from_secs(60);
/// How long a store is waited for that is locked.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same after it has failed: reports wait meanwhile.
const LESS_PATIENCE: Duration = Duration::from_millis(100);
/// How long a server may take for a batch, after which it counts as one that is away.
const LIMIT: Duration = Duration::from_secs(20);
/// Races that are kept for a store which takes none, at most; each is some 10 kB.
const MOST_KEPT: usize = 256;

/// What the store was told of a race.
struct Told {
    race: String,
    build: String,
    exe: String,
    place: Whereabouts,
    times: u64,
}

/// See the module.
pub(super) struct Stored {
    pub(super) store: Store,
    host: String,
    /// What is new since what was given to the store last.
    batch: Batch,
    /// What was given to it and not acknowledged, and its number.
    given: Option<Batch>,
    sequence: u64,
    /// By which the store knows this session.
    sender: String,
    /// By fingerprints.
    told: HashMap<String, Told>,
    written: Instant,
    /// It has failed, and has not taken anything since.
    fails: bool,
    /// More was found meanwhile than could be kept.
    is_lost: bool,
}

impl Stored {
    /// Opens or makes the store that the options name.
    pub(super) fn open(args: &WatchArgs) -> Result<Option<Self>, StoreError> {
        let Some(address) = &args.store else {
            return Ok(None);
        };
        let mut store = Store::open(address, Access::Create)?;
        store.set_limit(LIMIT);
        // One that has no room, or is locked, is told before the program begins.
        store.write(&Batch::default())?;
        let host = gethostname().unwrap_or_default();
        Ok(Some(Self {
            store,
            host: host.to_string_lossy().into_owned(),
            batch: Batch::default(),
            given: None,
            sequence: 1,
            sender: format!("{:032x}", fastrand::u128(..)),
            told: HashMap::new(),
            written: Instant::now(),
            fails: false,
            is_lost: false,
        }))
    }

    fn is_full(&self) -> bool {
        let given = self.given.as_ref().map_or(0, |batch| batch.caught.len());
        given + self.batch.caught.len() >= MOST_KEPT
    }

    fn add(&mut self, race: &Race) {
        let groups = groups(Pid::from_raw(race.pid.cast_signed())).unwrap_or_default();
        let place = Whereabouts {
            host: self.host.clone(),
            cgroup: lasting(group(&groups)).unwrap_or_default().to_owned(),
            container: in_groups(&groups).unwrap_or_default(),
        };
        self.batch.caught.push(Caught {
            race: race.clone(),
            place: place.clone(),
            times: 1,
            last: None,
        });
        let told = Told {
            race: race.identity.race.clone(),
            build: race.build(),
            exe: race.exe.clone(),
            place,
            times: 1,
        };
        self.told.insert(race.fingerprint.clone(), told);
    }

    /// Adds what was caught again since the last time.
    fn count(&mut self, sightings: &Sightings) {
        for sighting in sightings.all() {
            let Some(told) = self.told.get_mut(&sighting.fingerprint) else {
                continue;
            };
            let times = sighting.times.saturating_sub(told.times);
            let (Some(last), true) = (millis_of(&sighting.last), times > 0) else {
                continue;
            };
            told.times = sighting.times;
            let counted = self.batch.counted.iter_mut();
            let mut same = counted.filter(|counted| {
                counted.race == told.race
                    && counted.build == told.build
                    && counted.place == told.place
            });
            if let Some(before) = same.next() {
                before.times += times;
                before.last = last;
                continue;
            }
            self.batch.counted.push(Counted {
                race: told.race.clone(),
                build: told.build.clone(),
                exe: told.exe.clone(),
                place: told.place.clone(),
                times,
                last,
            });
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.written = Instant::now();
        self.give()?;
        if !self.batch.is_empty() {
            self.given = Some(mem::take(&mut self.batch));
            self.give()?;
        }
        Ok(())
    }

    /// Gives the store what it has not acknowledged.
    fn give(&mut self) -> Result<(), StoreError> {
        let Some(batch) = &self.given else {
            return Ok(());
        };
        let stamp = Stamp {
            sender: &self.sender,
            sequence: self.sequence,
            lost: Lost::default(),
        };
        self.store
            .receive(&stamp, batch, millis(SystemTime::now()))?;
        self.given = None;
        self.sequence += 1;
        Ok(())
    }
}

/// A program that is being watched.
fn seen(program: &WatchedProgram) -> Seen {
    Seen {
        build: build_name(&program.exe, program.build_id.as_deref()),
        exe: program.exe.clone(),
        at: millis(SystemTime::now()),
    }
}

impl State {
    /// Keeps a race.
    pub(super) fn keep(&mut self, race: &Race) {
        if self.stored.as_ref().is_some_and(Stored::is_full) {
            self.put();
        }
        let Some(stored) = &mut self.stored else {
            return;
        };
        let is_in = if stored.is_full() {
            stored.is_lost = true;
            false
        } else {
            stored.add(race);
            stored.count(&self.sightings);
            self.put().is_none()
        };
        if let (false, Some(resort)) = (is_in, &mut self.resort) {
            // Beyond this there is nobody to tell; the exit code does.
            let _ = resort.race(race);
        }
    }

    /// Keeps that a program is watched: what is said of its races from now on is said with this build known.
    pub(super) fn keep_program(&mut self, program: &WatchedProgram) {
        if let Some(stored) = &mut self.stored {
            stored.batch.builds.push(seen(program));
            self.put();
        }
    }

    /// Keeps how often races were caught, if that was not done for a while.
    pub(super) fn keep_counts(&mut self) {
        let Some(stored) = &mut self.stored else {
            return;
        };
        if stored.written.elapsed() >= PERIOD {
            stored.count(&self.sightings);
            self.put();
        }
    }

    /// Keeps the rest, and which programs were watched.
    pub(super) fn keep_all(&mut self, programs: &[WatchedProgram]) {
        let Some(stored) = &mut self.stored else {
            return;
        };
        stored.count(&self.sightings);
        stored.batch.builds.extend(programs.iter().map(seen));
        if stored.fails {
            // There is no later attempt.
            stored.store.set_patience(PATIENCE);
        }
        let error = self.put();
        let is_lost = self.stored.as_ref().is_some_and(|stored| stored.is_lost);
        let failure = error.map(anyhow::Error::from).or_else(|| {
            is_lost.then(|| {
                anyhow::anyhow!("some races are not in the store; they were told on standard error")
            })
        });
        if let Some(failure) = failure {
            self.failure.get_or_insert(failure);
        }
        // All is in one file by the time that this process ends.
        self.stored = None;
    }

    /// Writes what there is; why it could not be.
    fn put(&mut self) -> Option<StoreError> {
        let stored = self.stored.as_mut()?;
        self.progress.set_writing(true);
        let written = stored.write();
        self.progress.set_writing(false);
        match (&written, stored.fails) {
            (Err(error), false) => {
                // Told at once: the session may last for days.
                tracing::error!(
                    "{error}; what it does not take is told on standard error, and tried again"
                );
                stored.store.set_patience(LESS_PATIENCE);
            }
            (Ok(()), true) => {
                tracing::warn!("the store takes races again");
                stored.store.set_patience(PATIENCE);
            }
            _ => {}
        }
        stored.fails = written.is_err();
        written.err()
    }
}
