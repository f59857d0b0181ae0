//! What other machines have learned, asked of the collector for the daemon, which has no network: for the builds that this machine runs, each from time to time, one after the other. Nothing of it is kept once the daemon has it.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{Collector, collector::Told};
use crate::learned::Module;

/// Builds that are asked for.
const MOST: usize = 256;
/// The longest tag of a build, bytes.
const LONGEST_TAG: usize = 128;
/// Bytes that wait until the daemon takes them: as long as there are so many, nothing more is asked for.
const MOST_WAITING: usize = 4 << 20;
/// A build that the daemon has not named for so long is not asked for any more.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// How long whoever has asked for a build waits until he asks again, and how long at most: it doubles each time when there was something new. What was learned first is
/// worth most, and after some hours hardly anything that a busy fleet adds.
const PERIOD: Duration = Duration::from_secs(900);
const LONGEST_PERIOD: Duration = Duration::from_hours(6);
/// How long nothing is asked for after a failure, at least, and at most.
const PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// A build that the daemon wants to know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The build.
    pub module: Module,
    /// Tells what it knows already; empty where it knows nothing.
    pub tag: String,
}

/// What others have learned of a build, as the collector has said it: a file of hints, or something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hinted {
    /// The build that was asked for.
    pub module: Module,
    /// Tells it from what will be said later.
    pub tag: String,
    /// What is in it.
    pub body: Vec<u8>,
}

/// What the daemon is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// Something that it has not.
    pub hinted: Option<Box<Hinted>>,
    /// There is more, or will be soon.
    pub is_pending: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Hinting {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    builds: BTreeMap<Module, Build>,
    /// Nothing is asked for before that.
    paused_until: Option<Instant>,
    is_over: bool,
}

/// How often a build is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Pace(Duration);

impl Default for Pace {
    fn default() -> Self {
        Self(PERIOD)
    }
}

impl Pace {
    /// How long after an answer it is asked for again; the next time that is longer, where there was something new.
    pub fn after(&mut self, is_new: bool) -> Duration {
        let period = self.0;
        if is_new {
            self.0 = (period * 2).min(LONGEST_PERIOD);
        }
        period
    }
}

/// A build that is asked for.
#[derive(Debug)]
struct Build {
    /// What the daemon has.
    tag: String,
    /// When the daemon named it last.
    named: Instant,
    /// When it is to be asked for; `None`: at once.
    due: Option<Instant>,
    pace: Pace,
    /// What has come: the daemon is to take it.
    came: Option<(String, Vec<u8>)>,
}

impl Build {
    fn is_due(&self, now: Instant) -> bool {
        self.came.is_none() && self.due.is_none_or(|due| due <= now)
    }
}

impl Hinting {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon wants to know of these builds; what there is to tell it now.
    pub fn ask(&self, wanted: &[Wanted]) -> Asking {
        let now = Instant::now();
        let mut inner = self.lock();
        let mut asking = Asking::default();
        for Wanted { module, tag } in wanted.iter().take(MOST) {
            let is_known = inner.builds.contains_key(module);
            if !module.can_be_shared()
                || tag.len() > LONGEST_TAG
                || !tag.bytes().all(|byte| byte.is_ascii_graphic())
                || (!is_known && inner.builds.len() >= MOST)
            {
                continue;
            }
            let build = inner.builds.entry(module.clone()).or_insert(Build {
                tag: String::new(),
                named: now,
                due: None,
                pace: Pace::default(),
                came: None,
            });
            build.named = now;
            // It has taken that.
            let has_taken = build.came.take_if(|(came, _)| came == tag).is_some();
            if build.tag != *tag {
                build.tag.clone_from(tag);
                // Or has begun anew.
                if !has_taken {
                    build.due = None;
                    build.pace = Pace::default();
                }
            }
            match &build.came {
                Some((tag, body)) if asking.hinted.is_none() => {
                    asking.hinted = Some(Box::new(Hinted {
                        module: module.clone(),
                        tag: tag.clone(),
                        body: body.clone(),
                    }));
                }
                Some(_) => asking.is_pending = true,
                None => asking.is_pending |= build.due.is_none(),
            }
        }
        drop(inner);
        self.changed.notify_all();
        asking
    }

    /// Nothing more is asked for.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Asks a collector, until all is over.
    pub fn fetch(&self, collector: &Collector) {
        let mut random = fastrand::Rng::new();
        let mut fails = false;
        while let Some(Wanted { module, tag }) = self.next() {
            let told = collector.hints(&module, &tag);
            let name = collector.name();
            if let Told::Later(_, why) = &told {
                if std::mem::replace(&mut fails, true) {
                    tracing::debug!("{name} still does not tell what others have learned: {why}");
                } else {
                    tracing::warn!(
                        "{name} does not tell what other machines have learned, which it is asked again: {why}"
                    );
                }
            } else if std::mem::take(&mut fails) {
                tracing::warn!("{name} tells again what other machines have learned");
            }
            self.came(&module, told, &mut random);
        }
    }

    /// Waits for the build that is to be asked for next; nothing where all is over.
    fn next(&self) -> Option<Wanted> {
        let mut inner = self.lock();
        while !inner.is_over {
            let now = Instant::now();
            let is_named = |build: &Build| now.saturating_duration_since(build.named) < KEPT_FOR;
            inner.builds.retain(|_, build| is_named(build));
            let came = inner
                .builds
                .values()
                .filter_map(|build| build.came.as_ref());
            let has_room = came.map(|(_, body)| body.len()).sum::<usize>() < MOST_WAITING;
            let pause = inner
                .paused_until
                .map(|until| until.saturating_duration_since(now));
            let wait = pause.filter(|pause| !pause.is_zero());
            if wait.is_none() && has_room {
                let due = inner.builds.iter().filter(|(_, build)| build.is_due(now));
                if let Some((module, build)) = due.min_by_key(|(_, build)| build.due) {
                    return Some(Wanted {
                        module: module.clone(),
                        tag: build.tag.clone(),
                    });
                }
            }
            let dues = inner.builds.values().filter_map(|build| build.due);
            let next = dues.map(|due| due.saturating_duration_since(now)).min();
            let wait = wait.or(next).unwrap_or(PAUSE);
            let wait = wait.clamp(Duration::from_millis(100), PAUSE);
            let waited = self.changed.wait_timeout(inner, wait);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// This was said of a build.
    fn came(&self, module: &Module, told: Told, random: &mut fastrand::Rng) {
        let now = Instant::now();
        let mut inner = self.lock();
        let mut pause = None;
        if let Told::Later(wanted, _) = &told {
            let wanted = wanted.unwrap_or_default().clamp(PAUSE, LONGEST_PAUSE);
            let wanted = wanted.mul_f64(1.0 + random.f64() / 2.0);
            inner.paused_until = Some(now + wanted);
            pause = Some(wanted);
        }
        if let Some(build) = inner.builds.get_mut(module) {
            let again = pause.unwrap_or_else(|| {
                let period = build
                    .pace
                    .after(matches!(&told, Told::New(tag, _) if *tag != build.tag));
                // So that many machines do not come at once.
                period.mul_f64(0.75 + random.f64() / 2.0)
            });
            build.due = Some(now + again);
            if let Told::New(tag, body) = told
                && tag != build.tag
            {
                build.came = Some((tag, body));
            }
        }
    }
}
