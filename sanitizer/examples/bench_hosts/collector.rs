//! The collector: a process of its own.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use gwp_race::{
    delivery::Message,
    http::{Destination, Server},
    kernel::process::CpuClock,
    learned::Module,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until what was not taken is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// See the module.
pub struct Collector {
    child: Child,
    destination: Destination,
    client: ureq::Agent,
}

impl Collector {
    /// Starts it, at a port that is free.
    pub fn start(gwp_race: &Path, store: &str) -> Result<Self> {
        let mut child = Command::new(gwp_race)
            .args(["races", "serve", "--store", store])
            .args(["--ingest", "127.0.0.1:0", "--hints-age", "0s"])
            .stderr(Stdio::piped())
            .spawn()
            .context("starting the collector")?;
        let mut said = BufReader::new(child.stderr.take().context("its messages")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        thread::spawn(move || {
            let _ = std::io::copy(&mut said, &mut std::io::stderr());
        });
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http"));
        let Some(url) = url else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the collector said: {line}");
        };
        let server = Server::new(url.trim_end_matches(';').trim_end_matches('/'));
        let destination = Destination {
            server: server.map_err(anyhow::Error::msg)?,
            secret: None,
            authorities: None,
            identity: None,
        };
        let client = destination.client()?;
        Ok(Self {
            child,
            destination,
            client,
        })
    }

    /// CPU time that it has used, s.
    pub fn cpu_s(&self) -> f64 {
        CpuClock::of(self.child.id()).ns() as f64 / 1e9
    }

    /// Sends a message until it is taken; how many bytes it has.
    pub fn send(&self, message: &Message) -> Result<usize> {
        let body = message.encode();
        self.send_body(&body)?;
        Ok(body.len())
    }

    /// The same with one that is packed; how often it was to come again later.
    pub fn send_body(&self, body: &[u8]) -> Result<u64> {
        let about = [
            ("Content-Type", "application/json"),
            ("Content-Encoding", "zstd"),
        ];
        let begun = Instant::now();
        let mut later = 0;
        loop {
            let answer =
                self.destination
                    .post(&self.client, "v1/messages", &about, body, "the bench");
            let mut answer = answer.map_err(anyhow::Error::msg)?;
            match answer.status().as_u16() {
                204 => return Ok(later),
                429 | 503 => later += 1,
                status => bail!("{status}: {}", answer.body_mut().read_to_string()?),
            }
            ensure!(begun.elapsed() < PATIENCE, "the collector takes nothing");
            thread::sleep(PAUSE);
        }
    }

    /// What it says of a build, if that has not this tag: another tag, and a file.
    pub fn hints(&self, module: &Module, tag: &str) -> Result<Option<(String, Vec<u8>)>> {
        let path = format!("v1/hints/{}/{}", module.name, module.build);
        let known = format!("\"{tag}\"");
        let about: &[_] = match tag {
            "" => &[],
            _ => &[("If-None-Match", &*known)],
        };
        let answer = self
            .destination
            .get(&self.client, &path, about, "the bench");
        let mut answer = answer.map_err(anyhow::Error::msg)?;
        match answer.status().as_u16() {
            200 => {
                let tag = answer.headers().get("ETag").context("a tag")?;
                let tag = tag.to_str()?.trim_matches('"').to_owned();
                Ok(Some((tag, answer.body_mut().read_to_vec()?)))
            }
            304 | 404 => Ok(None),
            status => bail!("{status}: {}", answer.body_mut().read_to_string()?),
        }
    }

    /// Ends it; what it had taken is in the store then.
    pub fn end(mut self) -> Result<()> {
        kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        )?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the collector has failed ({status})");
        Ok(())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It has ended, or something has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
