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
    time::{interval, sleep},
};

use crate::cli::races::{before, now};
use crate::store::{Access, Address, Store, StoreError, day_of, hour};

/// How often.
pub(super) const PERIOD: Duration = Duration::from_secs(3600);

/// Goes on for ever; of a store that is filled here, days are kept for this time. That a store cannot be used is told by those who do.
pub(super) async fn keep_up(address: Address, period: Duration, days: Option<Duration>) {
    // The day on which rows were made fewer last.
    let done = Arc::new(AtomicI64::new(i64::MIN));
    // It has been opened just now.
    sleep(period).await;
    let mut periods = interval(period);
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
fn make_fewer(store: &mut Store, days: Option<Duration>, done: &AtomicI64) {
    let (Some(days), now) = (days, now()) else {
        return;
    };
    let today = day_of(hour(now));
    if done.load(Ordering::Relaxed) == today {
        return;
    }
    match rows_less(store, days, now) {
        Ok(less) => {
            done.store(today, Ordering::Relaxed);
            tracing::info!("there are {less} rows of old sightings less in the store");
        }
        Err(error) => tracing::warn!(
            "old rows of the store could not be made fewer, which is tried again in an hour: {error}"
        ),
    }
}

/// How many rows there are less.
fn rows_less(store: &mut Store, days: Duration, now: i64) -> Result<u64, StoreError> {
    let rolled_up = store.roll_up(now)?;
    let condensed = store.condense(before(now, days))?;
    Ok(rolled_up + condensed)
}
