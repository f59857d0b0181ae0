//! A tracer process as the daemon sees it: a link to each of its slots.

use std::{
    io::Write as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream as StdStream, process::ExitStatusExt as _},
    },
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::anyhow;
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    process::{Child, Command},
    sync::{mpsc, watch},
};

use crate::{
    hunt::{
        memory::Remembered,
        wire::{self, Notice, Preparation, Setup},
    },
    kernel::{
        limits::{explained, met},
        passing::give_descriptor,
    },
};

/// Tells the slots of all tracers of a session apart.
pub type LinkId = u64;

/// What comes from a slot.
#[derive(Debug)]
pub enum Message {
    /// It says something.
    Notice(Box<Notice>),
    /// It is gone.
    Gone,
}

/// A slot of a running tracer.
#[derive(Debug)]
pub struct Link {
    socket: StdStream,
    process: Process,
}

impl Link {
    /// Starts a tracer with a slot for each id, which makes itself ready; what a slot says comes through `messages` with its id.
    ///
    /// # Errors
    /// Fails when no process can be started.
    pub fn start(
        ids: impl ExactSizeIterator<Item = LinkId>,
        preparation: Preparation,
        messages: &mpsc::Sender<(LinkId, Message)>,
    ) -> anyhow::Result<Vec<(LinkId, Self)>> {
        let preparation = Preparation {
            slots: u8::try_from(ids.len()).unwrap_or(u8::MAX),
            ..preparation
        };
        let (first, theirs) = socket_pair()?;
        let child = Command::new("/proc/self/exe")
            .arg0("gwp-race")
            .arg("__tracer")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // A terminal's Ctrl-C is for the target and the daemon.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| anyhow!("cannot start the tracer: {}", explained(&error)))?;
        let process = Process::of(child);
        // One that has died already is heard of as any other is.
        let _ = (&first).write_all(&wire::encode(&preparation)?);
        let mut sockets = vec![first];
        for _ in 1..ids.len() {
            let (ours, theirs) = socket_pair()?;
            let _ = give_descriptor(&sockets[0], theirs.as_fd());
            sockets.push(ours);
        }
        let links = ids.zip(sockets).map(|(id, socket)| {
            let link = Self::over(id, socket, process.clone(), messages.clone())?;
            Ok((id, link))
        });
        links.collect()
    }

    fn over(
        id: LinkId,
        socket: StdStream,
        process: Process,
        messages: mpsc::Sender<(LinkId, Message)>,
    ) -> anyhow::Result<Self> {
        let reader = socket.try_clone()?;
        reader.set_nonblocking(true)?;
        tokio::spawn(read(id, UnixStream::from_std(reader)?, messages));
        Ok(Self { socket, process })
    }

    /// Lets the slot watch a process, as soon as it can.
    pub fn watch(&mut self, setup: Setup) {
        self.tell(&wire::Command::Watch(Box::new(setup)));
    }

    /// Tells the slot to disarm and release its target, if it has one, and to be ready for another one.
    pub fn leave(&mut self) {
        self.tell(&wire::Command::Leave);
    }

    /// Tells the slot to disarm and release its target, if it has one, and to end; with the last one the tracer ends.
    pub fn stop(&mut self) {
        self.tell(&wire::Command::Stop);
    }

    /// Tells the slot what its target's races have cost to explain.
    pub fn charge(&mut self, cpu_ns: u64) {
        self.tell(&wire::Command::Charge(cpu_ns));
    }

    /// Tells the slot whether other processes are watched as well, and the part of the processors that is used by whatever then.
    pub fn has_company(&mut self, used: Option<f64>) {
        self.tell(&wire::Command::Company(used));
    }

    /// Tells the slot that a race was dropped.
    pub fn tell_again(&mut self) {
        self.tell(&wire::Command::TellAgain);
    }

    /// Tells the slot that a race which it has told is none.
    pub fn refute(&mut self, refuted: wire::Refuted) {
        self.tell(&wire::Command::Refuted(refuted));
    }

    /// Tells the slot what is remembered of a module of its target: so much that it is to be told of the next part only when it has asked for it.
    pub fn remember(&mut self, remembered: Remembered) {
        self.tell(&wire::Command::Remember(remembered));
    }

    fn tell(&mut self, command: &wire::Command) {
        if let Ok(frame) = wire::encode(command) {
            // A tracer that is gone has released everything already.
            let _ = self.socket.write_all(&frame);
        }
    }

    /// Kills the tracer, which releases the targets of all of its slots at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits for the end of the tracer and its watchdog, by which all is released. After `patience` they are killed, and
    /// waited for once more.
    pub async fn ended(&mut self, patience: Duration) -> Death {
        let ended = tokio::time::timeout(patience, self.process.ended()).await;
        let Ok(ended) = ended else {
            self.kill();
            // Whoever does not end now waits in the kernel, and holds nobody.
            let _ = tokio::time::timeout(patience, self.process.ended()).await;
            return Death::TooSlow(patience);
        };
        match ended {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Death::Tracer(code),
                (None, signal) => Death::Watchdog(signal.unwrap_or_default()),
            },
            Err(error) => Death::Unknown(error),
        }
    }
}

fn socket_pair() -> anyhow::Result<(StdStream, StdStream)> {
    StdStream::pair().map_err(|error| anyhow!("cannot make a socket pair: {}", explained(&error)))
}

/// A tracer and its watchdog, for the links to all of its slots. It is killed when nobody has one any more.
#[derive(Clone, Debug)]
struct Process {
    kill: mpsc::Sender<()>,
    ended: watch::Receiver<Option<Result<ExitStatus, String>>>,
}

impl Process {
    fn of(mut child: Child) -> Self {
        let (kill, mut asked) = mpsc::channel(1);
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            let status = tokio::select! {
                status = child.wait() => status,
                _ = asked.recv() => {
                    let _ = child.start_kill();
                    child.wait().await
                }
            };
            let _ = tell.send(Some(status.map_err(|error| error.to_string())));
        });
        Self { kill, ended }
    }

    fn kill(&self) {
        // It is killed already where there is no room for more.
        let _ = self.kill.try_send(());
    }

    async fn ended(&mut self) -> Result<ExitStatus, String> {
        let ended = self.ended.wait_for(Option::is_some).await;
        let status = ended.ok().and_then(|status| status.clone());
        status.unwrap_or_else(|| Err("nobody waits for it any more".to_owned()))
    }
}

/// How a tracer and its watchdog have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// The tracer with this exit code, or by signal n with 128 + n; the watchdog has told it.
    Tracer(i32),
    /// The watchdog by this signal, and the tracer with it.
    Watchdog(i32),
    /// They had to be killed: they said nothing any more and did not end within this time.
    TooSlow(Duration),
    /// Nobody can tell, for this reason.
    Unknown(String),
}

async fn read(id: LinkId, mut socket: UnixStream, messages: mpsc::Sender<(LinkId, Message)>) {
    let mut buffer = Vec::new();
    loop {
        loop {
            match wire::decode::<Notice>(&mut buffer) {
                Ok(Some(notice)) => {
                    let message = Message::Notice(Box::new(notice));
                    if messages.send((id, message)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let text = format!("the tracer speaks another version: {error}");
                    let message = Message::Notice(Box::new(Notice::Failed(text)));
                    let _ = messages.send((id, message)).await;
                    let _ = messages.send((id, Message::Gone)).await;
                    return;
                }
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let _ = messages.send((id, Message::Gone)).await;
}

/// What is said of a tracer that has not said anything itself.
#[must_use]
pub fn tracer_died(death: &Death) -> String {
    let how = match death {
        Death::Tracer(code @ 129..) => format!("by signal {}", code - 128),
        Death::Tracer(code) => format!("with exit code {code}"),
        Death::Watchdog(signal) => format!("with its watchdog, by signal {signal}"),
        Death::TooSlow(patience) => format!(
            "in more than {}, after which it was killed",
            humantime::format_duration(*patience)
        ),
        Death::Unknown(error) => format!("in a way that cannot be told: {error}"),
    };
    // By the kernel, by itself where it could get none (Rust aborts then), or where its stack could not grow.
    let is_memory = matches!(
        death,
        Death::Tracer(134 | 137 | 139)
            | Death::Watchdog(libc::SIGABRT | libc::SIGKILL | libc::SIGSEGV)
    );
    let why = match death {
        _ if is_memory => {
            let limits = met(libc::ENOMEM).unwrap_or_default();
            format!("it may have wanted more memory than it could get: {limits}")
        }
        Death::TooSlow(_) => {
            "the machine may be overloaded, or its memory be swapped out: see `uptime` and `free`"
                .to_owned()
        }
        _ => "that is a fault of gwp-race's: please report it, with what -v says".to_owned(),
    };
    format!("the tracer has died ({how}), and so released the process; {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that memory is blamed for those deaths alone that come of it.
    #[test]
    fn deaths_have_their_reason() {
        for signal in [libc::SIGKILL, libc::SIGABRT, libc::SIGSEGV] {
            for death in [Death::Tracer(128 + signal), Death::Watchdog(signal)] {
                let told = tracer_died(&death);
                assert!(told.contains("memory"), "{told}");
                assert!(told.contains(&format!("by signal {signal}")), "{told}");
            }
        }
        for code in [1, 101, 128 + libc::SIGBUS, 128 + libc::SIGILL] {
            let told = tracer_died(&Death::Tracer(code));
            assert!(
                !told.contains("memory") && told.contains("report it"),
                "{told}"
            );
        }
    }

    /// Check that each way to end is told from the others: by itself, by a signal to the watchdog, and not at all.
    #[tokio::test]
    async fn deaths_are_told_apart() {
        let link = |script: &str| {
            let (socket, _theirs) = StdStream::pair().unwrap();
            let child = Command::new("sh")
                .args(["-c", script])
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let process = Process::of(child);
            Link { socket, process }
        };
        let long = Duration::from_secs(60);
        assert_eq!(link("exit 75").ended(long).await, Death::Tracer(75));
        let killed = link("kill -9 $$").ended(long).await;
        assert_eq!(killed, Death::Watchdog(libc::SIGKILL));
        let short = Duration::from_millis(1);
        let mut hung = link("exec sleep 600");
        assert_eq!(hung.ended(short).await, Death::TooSlow(short));
        assert!(tracer_died(&Death::TooSlow(short)).contains("1ms"));
    }
}
