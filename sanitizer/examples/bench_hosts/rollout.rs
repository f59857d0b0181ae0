//! A rollout: a new build with a race comes to all machines, which all find it at once.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Instant,
};

use anyhow::Result;
use gwp_race::{
    delivery::Message,
    report::Race,
    store::{Batch, Caught, Lost},
};
use serde_json::{Value, json};

use super::{collector::Collector, shared::place};

/// Machines that send at the same moment.
const AT_ONCE: usize = 16;
/// Senders of before have lower numbers.
const SENDERS: u128 = 1 << 64;

/// Has so many machines send the same race, as fast as it is taken.
pub fn all_at_once(collector: &Collector, race: &Race, machines: usize) -> Result<Value> {
    let bodies = (0..machines).map(|machine| {
        let mut race = race.clone();
        race.pid = u32::try_from(machine).unwrap_or_default();
        let caught = Caught {
            race,
            place: place(machine),
            times: 1,
            last: None,
        };
        let message = Message {
            sender: format!("{:032x}", SENDERS + machine as u128),
            sequence: 1,
            lost: Lost::default(),
            batch: Batch {
                caught: vec![caught],
                ..Batch::default()
            },
            learned: Vec::new(),
        };
        message.encode()
    });
    let bodies: Vec<_> = bodies.collect();
    let (next, later) = (AtomicUsize::new(0), AtomicU64::new(0));
    let (begun, cpu_s) = (Instant::now(), collector.cpu_s());
    thread::scope(|scope| {
        let senders: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(body) = bodies.get(next.fetch_add(1, Relaxed)) {
                        later.fetch_add(collector.send_body(body)?, Relaxed);
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for sender in senders {
            match sender.join() {
                Ok(sent) => sent?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(())
    })?;
    Ok(json!({
        "machines": machines,
        "race": race.identity.race,
        "message_bytes": bodies.first().map_or(0, Vec::len),
        "took_s": begun.elapsed().as_secs_f64(),
        "collector_cpu_s": collector.cpu_s() - cpu_s,
        "later": later.into_inner(),
    }))
}
