//! The signals that `run` passes on: whoever has started gwp-race takes it for the program.

use std::{
    io::{self, IsTerminal as _},
    os::fd::OwnedFd,
    task::{Context, Poll},
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::{
    net::unix::pipe::Receiver,
    signal::unix::{Signal as Stream, SignalKind, signal},
    time::{Instant, timeout_at},
};

use crate::kernel::{
    process::{monotonic_ns, nanos},
    requests::{REQUESTS, Seen, Witness},
};

/// Whoever sends a signal to several processes has sent it to all of them within this time.
const TOGETHER: Duration = Duration::from_millis(100);

/// A signal for the program.
#[derive(Clone, Copy, Debug)]
struct Request {
    signal: Signal,
    came_ns: u64,
    until: Instant,
}

/// The signals for the program, from when this is made on: they are kept until they are asked for.
pub struct PassedOn {
    streams: Vec<(Signal, Stream)>,
    /// A terminal sends its signals to the whole foreground group: the program has them already.
    from_terminal: bool,
    /// Who finds what was sent to all, and the pipe with what it has found.
    witness: Option<(Witness, Receiver)>,
    /// What it has found lately.
    seen: Vec<Seen>,
    /// One of which it is not known yet.
    held: Option<Request>,
}

impl PassedOn {
    /// Catches them instead of being ended by them. What the witness has seen as well, the program has already.
    ///
    /// # Errors
    /// Fails where the kernel refuses the handlers.
    pub fn new(witness: Option<(Witness, OwnedFd)>) -> io::Result<Self> {
        let streams = REQUESTS.map(|number| {
            let stream = signal(SignalKind::from_raw(number as i32))?;
            Ok((number, stream))
        });
        let witness = witness.map(|(witness, pipe)| {
            let pipe = Receiver::from_owned_fd(pipe)?;
            Ok::<_, io::Error>((witness, pipe))
        });
        Ok(Self {
            streams: streams.into_iter().collect::<io::Result<_>>()?,
            from_terminal: io::stdin().is_terminal(),
            witness: witness.transpose()?,
            seen: Vec::new(),
            held: None,
        })
    }

    /// The next one for the program. Nothing is lost where this is not waited for to its end.
    pub async fn next(&mut self) -> Signal {
        loop {
            let request = match self.held {
                Some(request) => request,
                None => {
                    let signal = std::future::poll_fn(|context| self.poll_next(context)).await;
                    *self.held.insert(Request {
                        signal,
                        came_ns: monotonic_ns(),
                        until: Instant::now() + TOGETHER,
                    })
                }
            };
            let was_sent_to_all = timeout_at(request.until, self.has_come_to_all(request)).await;
            self.held = None;
            if !was_sent_to_all.unwrap_or(false) {
                return request.signal;
            }
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Signal> {
        let from_terminal = self.from_terminal;
        for (number, stream) in &mut self.streams {
            while stream.poll_recv(context).is_ready() {
                if !(from_terminal && matches!(number, Signal::SIGINT | Signal::SIGQUIT)) {
                    return Poll::Ready(*number);
                }
            }
        }
        Poll::Pending
    }

    /// Whether the witness finds the signal as well, once it does; `false` where there is none.
    async fn has_come_to_all(&mut self, request: Request) -> bool {
        /// More than come at once.
        const MOST: usize = 64;
        let is_near = |seen: &Seen| seen.at_ns.abs_diff(request.came_ns) < nanos(TOGETHER);
        loop {
            self.seen.retain(is_near);
            let mut seen = self.seen.iter();
            if let Some(index) = seen.position(|seen| seen.signal == request.signal as i32) {
                self.seen.remove(index);
                return true;
            }
            let Some((_, pipe)) = &self.witness else {
                return false;
            };
            let mut bytes = [0; Seen::SIZE * MOST];
            let length = match pipe.readable().await {
                Ok(()) => pipe.try_read(&mut bytes),
                Err(error) => Err(error),
            };
            match length {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => self.witness = None,
                Ok(length) => self.seen.extend(Seen::all(&bytes[..length])),
            }
        }
    }
}
