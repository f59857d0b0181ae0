//! Whoever serves a store for long goes on doing for it what is done when one is opened: others, who are older, may have written to it since, and do not keep what they do not know. A collector, which fills its store, also makes
//! fewer rows of what is old in it, once a day.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::cli::races::{before, now};
use crate::store::{Access, Address, Fewer, Store, StoreError, day_of, hour};

/// How often.
pub(super) const PERIOD: Duration = Duration::from_secs(3600);
/// The first time, after that part of it.
const FIRST: u32 = 12;
/// How much later it may be than when a race was caught last of all, milliseconds: where none is caught for longer, nothing becomes old meanwhile.
const AHEAD: i64 = 7 * 24 * 3_600_000;

/// Goes on for ever; of a store that is filled here, days are kept for this time. That a store cannot be used is told by those who do.
pub(super) async fn keep_up(address: Address, period: Duration, days: Option<Duration>) {
    // The day on which rows were made fewer last.
    let done = Arc::new(AtomicI64::new(i64::MIN));
    // It has been opened just now, but one that is started anew all the time is to come to it, too.
    sleep(period / FIRST).await;
    let mut periods = interval(period);
    // What took longer than that is not made up for.
    periods.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        periods.tick().await;
        let (address, done) = (address.clone(), Arc::clone(&done));
        let kept = spawn_blocking(move || match Store::open(&address, Access::Existing) {
            Ok(mut store) => make_fewer(&mut store, days, &done),
            Err(error) => tracing::debug!("nothing was made anew in the store: {error}"),
        });
        let _ = kept.await;
    }
}

/// Makes fewer rows of what is old, where it was not done today.
pub(super) fn make_fewer(store: &mut Store, days: Option<Duration>, done: &AtomicI64) {
    let (Some(days), now) = (days, now()) else {
        return;
    };
    let today = day_of(hour(now));
    if done.load(Ordering::Relaxed) == today {
        return;
    }
    match rows_less(store, days, now) {
        Ok(Fewer { less, is_whole }) => {
            tracing::info!("there are {less} rows of old sightings less in the store");
            if is_whole {
                done.store(today, Ordering::Relaxed);
            } else {
                tracing::warn!(
                    "some old rows of the store stay for now, since somebody has them locked; it is tried again in an hour"
                );
            }
        }
        Err(error) => tracing::warn!(
            "old rows of the store could not be made fewer, which is tried again in an hour: {error}"
        ),
    }
}

/// What came of it. A clock that is far ahead of all that is in the store is not believed: what it takes for old would be condensed for good.
fn rows_less(store: &mut Store, days: Duration, now: i64) -> Result<Fewer, StoreError> {
    let now = store
        .newest()?
        .map_or(now, |newest| now.min(newest + AHEAD));
    let rolled_up = store.roll_up(now)?;
    let condensed = store.condense(before(now, days))?;
    Ok(Fewer {
        less: rolled_up.less + condensed.less,
        is_whole: rolled_up.is_whole && condensed.is_whole,
    })
}
