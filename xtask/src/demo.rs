//! `cargo xtask demo`: a small server with a race is put under load, and gwp-race catches it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{build, children, fixture, steps::shown};

/// Connections that send requests.
const CLIENTS: u32 = 4;
/// Requests that a client sends before it reads the answers.
const BATCH: u32 = 64;
/// How long the load lasts.
const LOAD: Duration = Duration::from_secs(10);
/// How long gwp-race may take to write its closing line after that.
const CLOSING: Duration = Duration::from_secs(20);

/// Builds everything, puts the server under load and shows what gwp-race says about it.
pub fn run() -> Result<()> {
    let gwp_race = build::run(true)?;
    let server = fixture::compile("demo", "server")?;
    let mut command = Command::new(gwp_race);
    command
        .args([
            "run",
            "--sample-period",
            "1ms",
            "--max-overhead",
            "20%",
            "--",
        ])
        .arg(&server);
    println!("==> {}", shown(&command));
    let child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("starting gwp-race")?;
    let mut watched = Watched { child, server };
    let port = watched.port()?;
    println!(
        "==> {CLIENTS} clients send requests for {} s",
        LOAD.as_secs()
    );
    let requests = load(port, LOAD);
    println!("==> {requests} requests answered; the server is told to end");
    watched.end()
}

/// gwp-race with the server; both are ended when it is dropped.
struct Watched {
    child: Child,
    server: PathBuf,
}

impl Watched {
    /// The port that the server says it listens on.
    fn port(&mut self) -> Result<u16> {
        port(&mut self.child)?.with_context(|| {
            "the server has not started; try `gwp-race doctor`, which says what this machine \
             lacks"
        })
    }

    /// Ends the server; gwp-race ends with it, and passes its signal on.
    fn end(mut self) -> Result<()> {
        for pid in children::executing(self.pid(), &self.server.canonicalize()?) {
            let _ = kill(pid, Signal::SIGTERM);
        }
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                let of_signal = 128 + Signal::SIGTERM as i32;
                if status.code() == Some(of_signal) || status.signal().is_some() {
                    return Ok(());
                }
                bail!("gwp-race ended with {status}; try `gwp-race doctor`");
            }
            if start.elapsed() > CLOSING {
                bail!("gwp-race has not ended with its target");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        for pid in children::of(self.pid()) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that the server says it listens on, whose output is piped; `None` where it says something else.
pub fn port(server: &mut Child) -> Result<Option<u16>> {
    let stdout = server.stdout.take().context("the server's output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let port = line.trim().strip_prefix("port ");
    Ok(port.and_then(|port| port.parse().ok()))
}

/// Sends requests for so long; the result is how many were answered.
pub fn load(port: u16, time: Duration) -> u64 {
    let stopping = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (stopping, answered) = (Arc::clone(&stopping), Arc::clone(&answered));
            thread::spawn(move || {
                // An error is the server's end.
                let _ = client(port, number, &stopping, &answered);
            })
        })
        .collect();
    thread::sleep(time);
    stopping.store(true, Relaxed);
    for client in clients {
        let _ = client.join();
    }
    answered.load(Relaxed)
}

fn client(
    port: u16,
    number: u32,
    stopping: &AtomicBool,
    answered: &AtomicU64,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(CLOSING))?;
    let mut turn = number;
    let mut answers = vec![0; 1 << 16];
    while !stopping.load(Relaxed) {
        let mut requests = String::new();
        for _ in 0..BATCH {
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = turn >> 24;
            if turn & 0x10000 == 0 {
                requests.push_str(&format!("GET key{key}\n"));
            } else {
                requests.push_str(&format!("SET key{key} value{turn}\n"));
            }
        }
        stream.write_all(requests.as_bytes())?;
        let mut lines = 0;
        while lines < BATCH as usize {
            let got = stream.read(&mut answers)?;
            if got == 0 {
                return Ok(());
            }
            lines += answers
                .iter()
                .take(got)
                .filter(|byte| **byte == b'\n')
                .count();
        }
        answered.fetch_add(u64::from(BATCH), Relaxed);
    }
    Ok(())
}
