//! Answers whoever hands something over, or asks.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::net::UnixStream;

use crate::{
    cli::{
        fleet::socket::{may_ask, read_of, write},
        size::size,
    },
    delivery::{Lost, Message},
    outbox::{Answer, Asked, Hinting, LONGEST_HANDED, Question, Shared, VERSION},
    store::StoreError,
};

/// How often it is told that something was dropped.
const PERIOD: Duration = Duration::from_secs(600);
/// The longest message that is taken, unpacked, bytes.
const MOST_UNPACKED: usize = 64 << 20;

/// See the module.
pub(super) struct Desk {
    shared: Arc<Shared>,
    /// Who asks what other machines have learned, where that is wanted; what was learned here is kept for others then.
    hinting: Option<Arc<Hinting>>,
    /// When it was told last that something was dropped.
    told: Mutex<Option<Instant>>,
}

impl Desk {
    pub(super) const fn new(shared: Arc<Shared>, hinting: Option<Arc<Hinting>>) -> Self {
        Self {
            shared,
            hinting,
            told: Mutex::new(None),
        }
    }

    /// Answers one who has connected.
    pub(super) async fn serve(self: Arc<Self>, mut stream: UnixStream) -> io::Result<()> {
        let answer = if may_ask(&stream)? {
            match read_of::<Asked>(VERSION, &mut stream, LONGEST_HANDED).await? {
                Some(asked) => self.answer(asked.question),
                None => Answer::Refused(
                    "the agent is another version of gwp-race: restart it, or use its program"
                        .to_owned(),
                ),
            }
        } else {
            Answer::Refused("root and the agent's own user alone may ask it: use sudo".to_owned())
        };
        write(&mut stream, &answer).await
    }

    fn answer(&self, question: Question) -> Answer {
        let refused = |error: StoreError| Answer::Refused(error.to_string());
        match question {
            Question::Take(body) => self.take(&body),
            Question::Status => match self.shared.figures() {
                Ok(figures) => Answer::Status(Box::new(figures)),
                Err(error) => refused(error),
            },
            Question::Tell(daemon, figures) => match self.shared.told(&daemon, &figures) {
                Ok(()) => Answer::Taken,
                Err(error) => refused(error),
            },
            Question::Hints(wanted) => {
                let asking = self.hinting.as_ref();
                let asking = asking.map(|hinting| hinting.ask(&wanted));
                Answer::Hints(asking.unwrap_or_default())
            }
        }
    }

    fn take(&self, body: &[u8]) -> Answer {
        let mut message = match Message::decode(body, MOST_UNPACKED) {
            Ok(message) => message,
            Err(error) => return Answer::Never(error.to_string()),
        };
        if self.hinting.is_none() {
            message.learned.clear();
        }
        match self.shared.take(&message) {
            Ok(lost) => {
                if lost != Lost::default() {
                    self.tell_lost();
                }
                Answer::Taken
            }
            // It keeps it, and tries again.
            Err(error) => Answer::Refused(error.to_string()),
        }
    }

    fn tell_lost(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.elapsed() < PERIOD) {
            return;
        }
        *told = Some(Instant::now());
        drop(told);
        if let Ok(figures) = self.shared.figures() {
            tracing::warn!(
                "the outbox is full ({}), and what is worth least was dropped. In all, since it was made: {} records of races that are known, {} counts of what was seen again, {} first sightings. See that {} takes messages, or raise spool of [limits]",
                size(figures.most_bytes),
                figures.lost_evidence,
                figures.lost_repeats,
                figures.lost_sightings,
                figures.collector
            );
        }
    }
}
