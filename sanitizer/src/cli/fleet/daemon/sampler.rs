//! The one tracer of a machine, and its slots. Where it dies, another one is started after a while: after longer each time that this comes soon.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tracing::warn;

use crate::{
    cli::{
        link::{Death, Link, LinkId, Message},
        pauses::Pauses,
        told,
    },
    hunt::wire::{Preparation, Setup},
};

/// How long the tracer may take to end when told to, or when one of its slots is gone.
pub const END_TIME: Duration = Duration::from_secs(5);

/// What a slot does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It makes itself ready, or ends.
    Making,
    Free,
    /// It has a lease.
    Taken,
}

struct Slot {
    link: Link,
    state: State,
}

/// See the module.
pub struct Sampler {
    slots: BTreeMap<LinkId, Slot>,
    /// Slots of a tracer, and the name of the next one: no other one has ever had it.
    count: usize,
    next: LinkId,
    preparation: Preparation,
    messages: mpsc::Sender<(LinkId, Message)>,
    pauses: Pauses,
    /// When the next tracer is started, where there is none.
    start: Option<Instant>,
    /// The present one has had a lease.
    was_used: bool,
    /// Another one takes its place as soon as it has ended, for which it is killed then.
    renewed: Option<Instant>,
    /// The part of the machine's processors that is used, as slots were told.
    used: f64,
}

impl Sampler {
    /// Without a tracer yet. `preparation`: with the number of its slots.
    pub fn new(preparation: Preparation, messages: mpsc::Sender<(LinkId, Message)>) -> Self {
        let now = Instant::now();
        Self {
            slots: BTreeMap::new(),
            count: preparation.slots.into(),
            next: 0,
            preparation,
            messages,
            pauses: Pauses::new(now),
            start: Some(now),
            was_used: false,
            renewed: None,
            used: 1.0,
        }
    }

    /// Starts a tracer, if there is none and it is time to.
    pub fn keep(&mut self, now: Instant) {
        if self.renewed.is_some_and(|deadline| deadline <= now) {
            self.kill();
        }
        if self.start.is_none_or(|start| now < start) {
            return;
        }
        self.start = None;
        self.was_used = false;
        let ids: Vec<_> = (self.next..).take(self.count).collect();
        self.next += self.count as LinkId;
        match Link::start(ids.into_iter(), self.preparation, &self.messages) {
            Ok(links) => {
                let slots = links.into_iter().map(|(id, link)| {
                    let state = State::Making;
                    (id, Slot { link, state })
                });
                self.slots.extend(slots);
            }
            Err(error) => {
                let wait = self.rest(now);
                warn!(
                    "no tracer can be started, and it is tried again in {}: {}",
                    humantime::format_duration(wait),
                    told(&error)
                );
            }
        }
    }

    /// There is no tracer; another one is started after this time.
    fn rest(&mut self, now: Instant) -> Duration {
        let wait = self.pauses.begin(now);
        self.start = Some(now + wait);
        wait
    }

    /// Slots that have leases, or could have some.
    pub fn usable(&self) -> usize {
        let usable = |slot: &&Slot| slot.state != State::Making;
        self.slots.values().filter(usable).count()
    }

    /// Has another tracer take the place of one that has had leases and has none now.
    pub fn renew(&mut self, now: Instant) {
        if self.was_used && self.renewed.is_none() && !self.is_gone() {
            self.renewed = Some(now + END_TIME);
            for slot in self.slots.values_mut() {
                slot.state = State::Making;
                slot.link.stop();
            }
        }
    }

    /// Whether the present one ends since another one takes its place.
    pub const fn is_renewed(&self) -> bool {
        self.renewed.is_some()
    }

    /// Whether a slot could have a lease now.
    pub fn has_free(&self) -> bool {
        self.slots.values().any(|slot| slot.state == State::Free)
    }

    /// Has a free slot watch a process; which one, if there is one.
    pub fn watch(&mut self, setup: Setup) -> Option<LinkId> {
        let mut slots = self.slots.iter_mut();
        let (&id, slot) = slots.find(|(_, slot)| slot.state == State::Free)?;
        slot.state = State::Taken;
        self.was_used = true;
        slot.link.watch(setup);
        // The tracer has others to look after.
        slot.link.has_company(Some(self.used));
        Some(id)
    }

    /// This part of the processors is used, by whatever: slots that have leases are told where that is another one than before.
    pub fn machine_uses(&mut self, used: f64) {
        /// Less than that is not worth a message.
        const NEWS: f64 = 0.1;
        if (used - self.used).abs() < NEWS {
            return;
        }
        self.used = used;
        for slot in self.slots.values_mut() {
            if slot.state == State::Taken {
                slot.link.has_company(Some(used));
            }
        }
    }

    /// A slot says that it is ready for a process.
    pub fn is_ready(&mut self, id: LinkId) {
        let is_renewed = self.is_renewed();
        if let Some(slot) = self.slots.get_mut(&id).filter(|_| !is_renewed) {
            slot.state = State::Free;
        }
    }

    /// A slot of the present tracer.
    pub fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        Some(&mut self.slots.get_mut(&id)?.link)
    }

    /// Kills the tracer, of which one hears as of any other end.
    pub fn kill(&mut self) {
        if let Some(slot) = self.slots.values_mut().next() {
            slot.link.kill();
        }
    }

    /// A slot is gone, and so the tracer is to be: waits for its end, which has released all. How it has ended; nothing where that is known already.
    pub async fn has_gone(&mut self, id: LinkId) -> Option<Death> {
        let mut slot = self.slots.remove(&id)?;
        // Should one alone have failed, nobody is to wait for the others.
        for other in self.slots.values_mut() {
            other.link.stop();
        }
        let death = slot.link.ended(END_TIME).await;
        self.slots.clear();
        self.rest(Instant::now());
        Some(death)
    }

    /// Lets all slots end, each with its last words.
    pub fn stop(&mut self) {
        (self.start, self.renewed) = (None, None);
        self.slots.values_mut().for_each(|slot| slot.link.stop());
    }

    /// A slot has ended as it was told to; waits for the tracer's end with the last one, and tells whether that was it.
    pub async fn has_stopped(&mut self, id: LinkId) -> bool {
        if let Some(mut slot) = self.slots.remove(&id)
            && self.slots.is_empty()
        {
            let _ = slot.link.ended(END_TIME).await;
            if self.renewed.take().is_some() {
                self.start = Some(Instant::now());
            }
        }
        self.slots.is_empty()
    }

    /// Whether there is no tracer.
    pub fn is_gone(&self) -> bool {
        self.slots.is_empty()
    }
}
