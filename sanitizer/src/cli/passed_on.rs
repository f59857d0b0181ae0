//! The signals that `run` passes on: whoever has started gwp-race takes it for the program.

use std::{
    io::{self, IsTerminal as _},
    task::{Context, Poll},
};

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Signals that ask a program for something; a terminal sends the last two.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGINT,
    Signal::SIGQUIT,
];

/// The signals for the program, from when this is made on: they are kept until they are asked for.
pub struct PassedOn {
    streams: Vec<(Signal, Stream)>,
    /// A terminal sends its signals to the whole foreground group: the program has them already.
    from_terminal: bool,
}

impl PassedOn {
    /// Catches them instead of being ended by them.
    ///
    /// # Errors
    /// Fails where the kernel refuses the handlers.
    pub fn new() -> io::Result<Self> {
        let streams = PASSED_ON.map(|number| {
            let stream = signal(SignalKind::from_raw(number as i32))?;
            Ok((number, stream))
        });
        Ok(Self {
            streams: streams.into_iter().collect::<io::Result<_>>()?,
            from_terminal: io::stdin().is_terminal(),
        })
    }

    /// The next one for the program.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| self.poll_next(context)).await
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
}
