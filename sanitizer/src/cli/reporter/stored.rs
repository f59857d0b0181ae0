//! What is kept of a run: in the store of `--store`, and by the agent of a fleet. A race is written when it is found, so that a gwp-race which is killed loses none but the one in hand; how often each was
//! caught is written now and then. What one of them does not take is kept for it, and tried again with the next one.

use std::{
    collections::HashMap,
    time::{Duration, Instant, SystemTime},
};

use nix::unistd::Pid;

use super::keeps::{self, Failure, Keeps};
use super::sightings::Sightings;
use super::{Reporter, State, Work};
use crate::cli::args::WatchArgs;
use crate::cli::host::host;
use crate::outbox::DaemonFigures;
use crate::report::{Baseline, Race, WatchedProgram, build_name};
use crate::store::{Batch, Caught, Counted, Seen, Whereabouts, millis, millis_of};
use crate::tracee::container::{group, groups, in_groups, lasting};

/// How often figures of repeats are written.
const PERIOD: Duration = Duration::from_secs(60);
/// Races that are kept for one who takes none, at most; each is some 10 kB.
const MOST_KEPT: usize = 256;

/// What was told of a race.
struct Told {
    race: String,
    build: String,
    exe: String,
    place: Whereabouts,
    times: u64,
}

/// Somebody who keeps what is found, and what he has not taken yet.
struct Keeper {
    keeps: Box<dyn Keeps>,
    batch: Batch,
    /// He has failed, and has not taken anything since.
    fails: bool,
    /// More was found meanwhile than could be kept for him.
    is_lost: bool,
}

impl Keeper {
    fn of(keeps: Box<dyn Keeps>) -> Self {
        Self {
            keeps,
            batch: Batch::default(),
            fails: false,
            is_lost: false,
        }
    }

    fn is_full(&self) -> bool {
        self.keeps.given() + self.batch.caught.len() >= MOST_KEPT
    }

    /// Something is still to be taken by him.
    fn is_owed(&self) -> bool {
        !self.batch.is_empty() || self.keeps.owes()
    }

    fn count(&mut self, more: &Counted) {
        let counted = self.batch.counted.iter_mut();
        let mut same = counted.filter(|counted| {
            counted.race == more.race && counted.build == more.build && counted.place == more.place
        });
        match same.next() {
            Some(before) => {
                before.times += more.times;
                before.last = more.last;
            }
            None => self.batch.counted.push(more.clone()),
        }
    }

    /// Has him take what there is; why he has not.
    fn put(&mut self) -> Option<anyhow::Error> {
        let taken = if self.is_owed() {
            self.keeps.take(&mut self.batch)
        } else {
            Ok(())
        };
        let name = self.keeps.name();
        match (&taken, self.fails) {
            (Err(Failure::Now(error)), false) => {
                // Told at once: the session may last for days.
                tracing::error!(
                    "{error}; what it does not take is told on standard error, and tried again"
                );
                self.keeps.be_patient(false);
            }
            (Err(Failure::Ever(error)), _) => tracing::error!("{error}"),
            (Ok(()), true) => {
                tracing::warn!("{name} takes races again");
                self.keeps.be_patient(true);
            }
            _ => {}
        }
        self.fails = matches!(taken, Err(Failure::Now(_)));
        match taken {
            Ok(()) => None,
            Err(Failure::Now(error)) => Some(error),
            Err(Failure::Ever(error)) => {
                self.is_lost = true;
                Some(error)
            }
        }
    }
}

/// See the module.
pub(super) struct Stored {
    keepers: Vec<Keeper>,
    host: String,
    /// By fingerprints.
    told: HashMap<String, Told>,
    written: Instant,
}

impl Stored {
    /// Opens or makes what the options name.
    pub(super) fn open(args: &WatchArgs) -> anyhow::Result<Option<Self>> {
        let store = args.store.as_ref().map(keeps::store).transpose()?;
        let agent = args.agent.as_deref().map(keeps::agent);
        let keepers: Vec<_> = store.into_iter().chain(agent).map(Keeper::of).collect();
        if keepers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            keepers,
            host: host(),
            told: HashMap::new(),
            written: Instant::now(),
        }))
    }

    /// Adds the races of which somebody has said there that they are known.
    pub(super) fn add_known(&mut self, baseline: &mut Baseline, now: i64) -> anyhow::Result<()> {
        let mut keepers = self.keepers.iter_mut();
        keepers.try_for_each(|keeper| keeper.keeps.add_known(baseline, now))
    }

    fn is_full(&self) -> bool {
        self.keepers.iter().any(Keeper::is_full)
    }

    /// Adds a race for all who have room for it; whether they have.
    fn add(&mut self, race: &Race) -> bool {
        let groups = groups(Pid::from_raw(race.pid.cast_signed())).unwrap_or_default();
        let place = Whereabouts {
            host: self.host.clone(),
            cgroup: lasting(group(&groups)).unwrap_or_default().to_owned(),
            container: in_groups(&groups).unwrap_or_default(),
        };
        let mut is_everywhere = true;
        for keeper in &mut self.keepers {
            if keeper.is_full() {
                keeper.is_lost = true;
                is_everywhere = false;
                continue;
            }
            keeper.batch.caught.push(Caught {
                race: race.clone(),
                place: place.clone(),
                times: 1,
                last: None,
            });
        }
        let told = Told {
            race: race.identity.race.clone(),
            build: race.build(),
            exe: race.exe.clone(),
            place,
            times: 1,
        };
        self.told.insert(race.fingerprint.clone(), told);
        is_everywhere
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
            let more = Counted {
                race: told.race.clone(),
                build: told.build.clone(),
                exe: told.exe.clone(),
                place: told.place.clone(),
                times,
                last,
            };
            for keeper in &mut self.keepers {
                keeper.count(&more);
            }
        }
    }

    /// Adds programs that are watched.
    fn see(&mut self, programs: &[WatchedProgram]) {
        for keeper in &mut self.keepers {
            keeper.batch.builds.extend(programs.iter().map(seen));
        }
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

impl Reporter {
    /// What the daemon has done until now, for the agent.
    pub fn figures(&self, figures: DaemonFigures) {
        let _ = self.work.send(Work::Figures(Box::new(figures)));
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
        let has_room = stored.add(race);
        stored.count(&self.sightings);
        let is_in = self.put().is_none() && has_room;
        if let (false, Some(resort)) = (is_in, &mut self.resort) {
            // Beyond this there is nobody to tell; the exit code does.
            let _ = resort.race(race);
        }
    }

    /// Keeps that a program is watched: what is said of its races from now on is said with this build known.
    pub(super) fn keep_program(&mut self, program: &WatchedProgram) {
        if let Some(stored) = &mut self.stored {
            stored.see(std::slice::from_ref(program));
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

    /// Has those hear what the daemon has done who care for it.
    pub(super) fn tell_figures(&mut self, figures: &DaemonFigures) {
        self.progress.set_writing(true);
        let keepers = self.stored.iter_mut().flat_map(|all| &mut all.keepers);
        // What takes nothing now would be waited for; the next figures have all of it.
        for keeper in keepers.filter(|keeper| !keeper.fails) {
            keeper.keeps.told(figures);
        }
        self.progress.set_writing(false);
    }

    /// Whether something was not taken, and is to be tried again although nothing happens.
    pub(super) fn has_unkept(&self) -> bool {
        let stored = self.stored.as_ref();
        stored.is_some_and(|stored| stored.keepers.iter().any(Keeper::is_owed))
    }

    /// Keeps the rest, and which programs were watched.
    pub(super) fn keep_all(&mut self, programs: &[WatchedProgram]) {
        let Some(stored) = &mut self.stored else {
            return;
        };
        stored.count(&self.sightings);
        stored.see(programs);
        for keeper in stored.keepers.iter_mut().filter(|keeper| keeper.fails) {
            // There is no later attempt.
            keeper.keeps.be_patient(true);
        }
        let error = self.put();
        let keepers = self.stored.iter().flat_map(|stored| &stored.keepers);
        let mut lost = keepers.filter(|keeper| keeper.is_lost);
        let failure = error.or_else(|| {
            let name = lost.next()?.keeps.name();
            Some(anyhow::anyhow!(
                "{name} has not taken some races; they were told on standard error"
            ))
        });
        if let Some(failure) = failure {
            self.failure.get_or_insert(failure);
        }
        // All is in one file by the time that this process ends.
        for mut keeper in self.stored.take().into_iter().flat_map(|all| all.keepers) {
            keeper.keeps.end();
        }
    }

    /// Has all take what there is; why one of them has not.
    fn put(&mut self) -> Option<anyhow::Error> {
        let stored = self.stored.as_mut()?;
        stored.written = Instant::now();
        self.progress.set_writing(true);
        let failures: Vec<_> = stored.keepers.iter_mut().filter_map(Keeper::put).collect();
        self.progress.set_writing(false);
        failures.into_iter().next()
    }
}
