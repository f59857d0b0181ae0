//! A running reader or copier as the daemon sees it.

use std::{
    ffi::OsString,
    fmt, io,
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};

use super::wire::{self, LONGEST_REPLY, Reply};
use crate::kernel::{passing::Passing, process::CpuClock, sandbox::Room};

/// Whoever does not end when he has to is waited for no longer.
pub(super) const LONGEST_END: Duration = Duration::from_millis(200);

/// How often whoever waits for one looks whether it is still wanted.
const TURN: Duration = Duration::from_millis(50);

/// What says that it reads large files.
const LARGE: &str = "--large";

/// What is executed as a reader or copier.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// What reads whole files, of whatever size: this program itself.
    #[must_use]
    pub fn of_outlines() -> Self {
        Self {
            arguments: vec!["__reader".into(), LARGE.into()],
            ..Self::default()
        }
    }

    fn memory(&self) -> u64 {
        Room::of(self.arguments.iter().any(|argument| argument == LARGE)).memory
    }

    /// What copies: this program itself.
    #[must_use]
    pub fn copier() -> Self {
        Self {
            arguments: vec!["__copier".into()],
            ..Self::default()
        }
    }
}

impl Default for Program {
    /// What reads: this program itself, whatever has become of its name.
    fn default() -> Self {
        Self {
            file: "/proc/self/exe".into(),
            arguments: vec!["__reader".into()],
        }
    }
}

/// How a reader came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It did not answer in time.
    Late(Duration),
    /// It said what it cannot have said.
    Nonsense,
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By itself, where there was no more memory, of so many bytes, or nothing else to do.
    GaveUp(u64),
    /// Nobody knows: it is not gone yet.
    Unknown,
}

impl End {
    fn of(status: ExitStatus, memory: u64) -> Self {
        match (status.code(), status.signal()) {
            (None, Some(libc::SIGABRT)) => Self::GaveUp(memory),
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl End {
    /// What to do where a file has brought it about again and again.
    pub(super) const fn mend(&self) -> &'static str {
        match self {
            Self::Late(_) => "watch a smaller build of it, with fewer functions",
            Self::GaveUp(_) => "watch a build of it with fewer functions and tables",
            Self::Signal(libc::SIGKILL) | Self::Unknown => {
                "see what kills processes (the kernel's log tells of memory), or give the service more memory"
            }
            Self::Nonsense | Self::Signal(_) | Self::Code(_) => "build it or copy it again",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(deadline) => {
                let deadline = humantime::format_duration(*deadline);
                write!(f, "it took more than {deadline} for one question")
            }
            Self::Nonsense => write!(f, "it answered nonsense"),
            Self::Signal(libc::SIGKILL) => {
                write!(f, "it was killed by somebody, or for want of memory")
            }
            Self::Signal(libc::SIGSYS) => write!(f, "it tried what it may not"),
            Self::GaveUp(memory) => {
                let most = memory >> 20;
                write!(f, "it wanted more than {most} MiB of memory, or gave up")
            }
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Unknown => write!(f, "it does not end"),
        }
    }
}

/// See the module. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    clock: CpuClock,
    /// What that was when it was asked last.
    used_ns: u64,
    socket: Passing,
    /// Bytes of memory that it may have.
    memory: u64,
    /// So long it is waited for at its end.
    patience: Duration,
    /// What of the sandbox it does without.
    pub(super) missing: Vec<String>,
}

impl Process {
    /// Starts one that reads, and waits until it has given up its rights, as long as it is [wanted](Self::hear_while).
    ///
    /// # Errors
    /// Fails where no process can be started, or it does not say in time that it is ready.
    pub(super) fn start(
        program: &Program,
        until: Instant,
        is_past: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<Self> {
        // Whatever comes now ends it.
        let mut process = Self::spawn(program, Passing::giving)?;
        match process.hear_while(LONGEST_REPLY, until, is_past)? {
            Reply::Ready(missing) => process.missing = missing,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(process)
    }

    /// Starts any. `end`: makes this end of the socket.
    ///
    /// # Errors
    /// Fails where no process can be started.
    pub(super) fn spawn(program: &Program, end: fn(UnixStream) -> Passing) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&program.file);
        command
            .arg0("gwp-race")
            .args(&program.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It goes to the root folder itself: whoever asks for that here may get fork(2) instead of posix_spawn(3), which copies what a tracer with all its threads has mapped.
            // A terminal's Ctrl-C is for the target and the daemon.
            .process_group(0)
            .env_clear();
        // Where the C library is, should that not be known otherwise.
        let kept = std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path));
        let child = command.envs(kept).spawn()?;
        Ok(Self {
            clock: CpuClock::of(child.id()),
            child,
            used_ns: 0,
            socket: end(ours),
            memory: program.memory(),
            patience: LONGEST_END,
            missing: Vec::new(),
        })
    }

    pub(super) fn tell(
        &self,
        request: &impl Serialize,
        file: Option<&std::fs::File>,
        until: Option<Instant>,
    ) -> io::Result<()> {
        let descriptor = file.map(std::os::fd::AsFd::as_fd);
        wire::send(&self.socket, request, descriptor, until)
    }

    pub(super) fn hear<T: DeserializeOwned>(
        &mut self,
        most: usize,
        until: Option<Instant>,
    ) -> io::Result<(T, Option<OwnedFd>)> {
        wire::receive(&mut self.socket, most, until)
    }

    /// The same as long as somebody wants it: he is told every now and then how much CPU time this one has used, ns, and says whether it is past.
    ///
    /// # Errors
    /// Fails where nothing is heard until then, and with `Interrupted` where nobody wants it.
    pub(super) fn hear_while<T: DeserializeOwned>(
        &mut self,
        most: usize,
        until: Instant,
        is_past: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<T> {
        loop {
            let turn = until.min(Instant::now() + TURN);
            match self.hear(most, Some(turn)) {
                Ok((heard, _)) => return Ok(heard),
                Err(error) if error.kind() == io::ErrorKind::TimedOut && turn < until => {}
                Err(error) => return Err(error),
            }
            if is_past(self.cpu_ns()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }

    /// CPU time that it has used, ns.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.clock.ns().max(self.used_ns)
    }

    /// Kills it; it has ended as soon as the kernel lets it.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Whether it has ended when nobody had asked it anything.
    pub(super) fn is_gone(&mut self) -> bool {
        self.used_ns = self.cpu_ns();
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// How it has come to its end, once its socket has none at the other end any more.
    pub(super) fn end(&mut self) -> End {
        let start = Instant::now();
        loop {
            // Nobody knows that any more once it was waited for.
            self.used_ns = self.cpu_ns();
            match self.child.try_wait() {
                Ok(Some(status)) => return End::of(status, self.memory),
                Ok(None) if start.elapsed() < self.patience => sleep(Duration::from_millis(1)),
                _ => return End::Unknown,
            }
        }
    }

    /// How it has come to its end, or has to, after it could not be told or heard something within this time.
    pub(super) fn end_by(&mut self, error: &io::Error, deadline: Duration) -> End {
        match error.kind() {
            io::ErrorKind::TimedOut => End::Late(deadline),
            io::ErrorKind::InvalidData => End::Nonsense,
            _ => self.end(),
        }
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or does as soon as the kernel lets it: nobody waits for long for one that waits for a file system. What is not
        // waited for here is gone with the daemon.
        let _ = self.child.kill();
        let _ = self.end();
    }
}
