//! Whoever serves a store for long goes on doing for it what is done when one is opened: others, who are older, may have written to it since, and do not keep what they do not know.

use std::time::Duration;

use tokio::{
    task::spawn_blocking,
    time::{interval, sleep},
};

use crate::store::{Access, Address, Store};

/// How often.
pub(super) const PERIOD: Duration = Duration::from_secs(3600);

/// Goes on for ever. That a store cannot be used is told by those who do.
pub(super) async fn keep_up(address: Address, period: Duration) {
    // It has been opened just now.
    sleep(period).await;
    let mut periods = interval(period);
    loop {
        periods.tick().await;
        let address = address.clone();
        let opened = spawn_blocking(move || Store::open(&address, Access::Existing).map(drop));
        if let Ok(Err(error)) = opened.await {
            tracing::debug!("nothing was made anew in the store: {error}");
        }
    }
}
