//! Handing over to an agent what was found: by a socket that root and the agent's own user alone may use.
//!
//! Both sides are the same program, so messages are those of [`wire`], and whoever has rights reads no text of others. What is handed over is
//! a [`Message`], as it goes to a collector, with a number of the giver's own: one that was taken in and not answered is handed over again, and known by that.

use std::{
    io::{self, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use serde::{Deserialize, Serialize};

use super::{Asking, DaemonFigures, Figures, Wanted};
use crate::{
    delivery::{Lost, Message, hints::LONGEST},
    hunt::wire,
    kernel::rights::as_caller,
    learned::{Learned, MOST_LEARNED},
    store::Batch,
};

/// Counts incompatible changes of what is said.
pub const VERSION: u32 = 4;
/// The longest question, bytes: what a daemon keeps at most is less.
pub const LONGEST_HANDED: usize = 32 << 20;
/// The longest answer: a file of hints, and what stands around it.
const LONGEST_ANSWER: usize = LONGEST + (1 << 16);
/// How long an agent may take to answer: it writes to its disk meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// A question, and the version of its form, which stands at its beginning in all versions.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    /// See [`VERSION`].
    pub version: u32,
    /// The question.
    pub question: Question,
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// To take in a message, as [`Message::encode`] has it.
    Take(Vec<u8>),
    /// What there is to say of the outbox.
    Status,
    /// To take in what a daemon, which has this name, has done since it was started.
    Tell(String, Box<DaemonFigures>),
    /// What other machines have learned of these builds.
    Hints(Vec<Wanted>),
}

/// What the agent says to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is on the disk.
    Taken,
    /// It never will be.
    Never(String),
    /// It is not, for this reason.
    Refused(String),
    /// What there is to say of the outbox.
    Status(Box<Figures>),
    /// What other machines have learned.
    Hints(Asking),
}

/// Why nothing was handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandingError {
    /// Nobody answers.
    #[error(
        "the agent that is to listen to {socket} does not answer ({source}): start it (systemctl start gwp-race-agent.socket), or take `agent` out of [export]"
    )]
    Silent {
        /// The socket.
        socket: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// What it says is nothing that can be understood.
    #[error(
        "the agent that listens to {socket} is another version of gwp-race, and says nothing that can be understood: restart it, and use its program"
    )]
    Foreign {
        /// The socket.
        socket: PathBuf,
    },
    /// The agent cannot take it now.
    #[error("the agent takes nothing now: {0}")]
    Refused(String),
    /// It never will, so it is not kept.
    #[error("the agent will never take some of what was found, which is lost: {0}")]
    Never(String),
}

/// An agent, as whoever has found something sees it.
pub struct Agent {
    socket: PathBuf,
    giver: String,
    sequence: u64,
    /// What was handed over and not answered: it may have been taken, and stays as it is.
    pending: Option<Vec<u8>>,
}

impl Agent {
    /// The one that listens there.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            giver: format!("{:032x}", fastrand::u128(..)),
            sequence: 0,
            pending: None,
        }
    }

    /// Whether something was handed over that was not answered.
    #[must_use]
    pub const fn owes(&self) -> bool {
        self.pending.is_some()
    }

    /// Hands over what there is, so that the batch is empty.
    ///
    /// # Errors
    /// It is not, and is to be handed over again; or something is that cannot be.
    pub fn hand_over(&mut self, batch: &mut Batch) -> Result<(), HandingError> {
        self.settle()?;
        if batch.is_empty() {
            return Ok(());
        }
        self.give(std::mem::take(batch), Vec::new())
    }

    /// Hands over what was learned, as much of it at once as a message has, so that nothing of it is left.
    ///
    /// # Errors
    /// Something is left, and is to be handed over again; or something cannot be, which is not kept.
    pub fn hand_over_learned(&mut self, learned: &mut Vec<Learned>) -> Result<(), HandingError> {
        self.settle()?;
        while !learned.is_empty() {
            let some = learned.drain(..learned.len().min(MOST_LEARNED)).collect();
            self.give(Batch::default(), some)?;
        }
        Ok(())
    }

    fn give(&mut self, batch: Batch, learned: Vec<Learned>) -> Result<(), HandingError> {
        self.sequence += 1;
        let message = Message {
            sender: self.giver.clone(),
            sequence: self.sequence,
            lost: Lost::default(),
            batch,
            learned,
        };
        self.pending = Some(message.encode());
        self.settle()
    }

    /// What other machines have learned of these builds, as far as the agent knows it by now.
    ///
    /// # Errors
    /// The agent does not say it.
    pub fn hints(&self, wanted: Vec<Wanted>) -> Result<Asking, HandingError> {
        match ask(&self.socket, Question::Hints(wanted))? {
            Answer::Hints(asking) => Ok(asking),
            Answer::Never(why) | Answer::Refused(why) => Err(HandingError::Refused(why)),
            Answer::Taken | Answer::Status(_) => Err(HandingError::Foreign {
                socket: self.socket.clone(),
            }),
        }
    }

    /// Tells what this daemon has done since it was started.
    ///
    /// # Errors
    /// The agent has not taken it. It need not be told again: what is told later has all of it.
    pub fn tell(&self, figures: &DaemonFigures) -> Result<(), HandingError> {
        let question = Question::Tell(self.giver.clone(), Box::new(figures.clone()));
        match ask(&self.socket, question)? {
            Answer::Taken => Ok(()),
            Answer::Never(why) | Answer::Refused(why) => Err(HandingError::Refused(why)),
            Answer::Status(_) | Answer::Hints(_) => Err(HandingError::Foreign {
                socket: self.socket.clone(),
            }),
        }
    }

    /// Hands over what was not answered.
    fn settle(&mut self) -> Result<(), HandingError> {
        let Some(body) = &self.pending else {
            return Ok(());
        };
        match ask(&self.socket, Question::Take(body.clone()))? {
            Answer::Taken => self.pending = None,
            Answer::Never(why) => {
                self.pending = None;
                return Err(HandingError::Never(why));
            }
            Answer::Refused(why) => return Err(HandingError::Refused(why)),
            Answer::Status(_) | Answer::Hints(_) => {
                return Err(HandingError::Foreign {
                    socket: self.socket.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Asks the agent that listens to a socket.
///
/// # Errors
/// Nobody answers.
pub fn ask(path: &Path, question: Question) -> Result<Answer, HandingError> {
    let silent = |source: io::Error| {
        let socket = path.to_owned();
        match source.kind() {
            io::ErrorKind::InvalidData => HandingError::Foreign { socket },
            _ => HandingError::Silent { socket, source },
        }
    };
    let asked = Asked {
        version: VERSION,
        question,
    };
    let frame = wire::encode(&asked).map_err(|error| silent(io::Error::other(error)))?;
    // Under its own user's rights, as whatever the user names.
    let stream = as_caller(|| open(path)).map_err(|error| silent(io::Error::other(error)))?;
    stream
        .and_then(|stream| exchange(stream, &frame))
        .map_err(silent)
}

/// Connects. Where too many others wait already that fails, and waits for nobody.
fn open(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn exchange(mut stream: UnixStream, frame: &[u8]) -> io::Result<Answer> {
    let until = Instant::now() + PATIENCE;
    // Whoever may not ask is told so before he has.
    let written = stream.write_all(frame);
    let mut buffer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let decoded = wire::decode(&mut buffer);
        let decoded = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        if let Some(answer) = decoded? {
            return Ok(answer);
        }
        if buffer.len() > LONGEST_ANSWER {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if until <= Instant::now() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(written.err().unwrap_or(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => buffer.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(written.err().unwrap_or(error)),
        }
    }
}
