//! The load of a server: clients that ask for few keys often and for most of them rarely, one request after the other.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::TcpStream,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{program::Load, server::Server};
use crate::bench::numbers::Numbers;

/// Keys; with their values some times what a memcached may keep, so that it drops some.
const KEYS: usize = 100_000;
const LEAST_VALUE: usize = 16;
const MOST_VALUE: usize = 1024;
/// How much more often some of them are asked for than others: the exponent of Zipf's law that the clients of YCSB
/// have (Cooper and others, "Benchmarking Cloud Serving Systems with YCSB", 2010).
const SKEW: f64 = 0.99;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the load lasts before it counts: meanwhile whoever watches starts up.
const WARM_UP: Duration = Duration::from_secs(1);

/// What clients say to a server.
pub trait Protocol: Sync {
    /// Writes a request about a key; the result says how the answer ends.
    fn ask(&self, key: usize, numbers: &mut Numbers, request: &mut Vec<u8>)
    -> Result<&'static str>;
    /// Reads an answer to its end, and no further.
    fn read(&self, answers: &mut dyn BufRead, ends: &str) -> Result<()>;
}

/// Starts a server, lets clients ask it for so long, and ends it: how many requests were answered in a second.
pub fn serve(
    command: Command,
    port: u16,
    protocol: &dyn Protocol,
    load: &Load,
    time: Duration,
) -> Result<f64> {
    let server = Server::start(command, port)?;
    apply(port, protocol, load.clients, WARM_UP)?;
    let answered = apply(port, protocol, load.clients, time)?;
    server.end()?;
    Ok(answered as f64 / time.as_secs_f64())
}

fn apply(port: u16, protocol: &dyn Protocol, clients: usize, time: Duration) -> Result<u64> {
    let keys = &Keys::new(KEYS, SKEW);
    let end = Instant::now() + time;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(port, protocol, number as u64, keys, end)))
            .collect();
        clients
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .sum()
    })
}

fn client(
    port: u16,
    protocol: &dyn Protocol,
    number: u64,
    keys: &Keys,
    end: Instant,
) -> Result<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("connecting to the server")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut numbers = Numbers(number);
    let (mut answered, mut request) = (0, Vec::new());
    while Instant::now() < end {
        request.clear();
        let key = keys.choose(&mut numbers);
        let ends = protocol.ask(key, &mut numbers, &mut request)?;
        stream.write_all(&request).context("asking the server")?;
        protocol.read(&mut answers, ends)?;
        answered += 1;
    }
    Ok(answered)
}

/// How long a new value is, bytes.
pub fn value_len(numbers: &mut Numbers) -> usize {
    LEAST_VALUE + numbers.below(MOST_VALUE - LEAST_VALUE)
}

/// Reads a line that ends with a line feed.
pub fn read_line(answers: &mut dyn BufRead) -> Result<String> {
    let mut line = String::new();
    if answers
        .read_line(&mut line)
        .context("the server's answer")?
        == 0
    {
        bail!("the server has closed a connection; see what it said above");
    }
    Ok(line)
}

/// Keys by how often they are asked for.
struct Keys {
    /// For each how often it or one before it is, of 1.
    cumulative: Vec<f64>,
}

impl Keys {
    fn new(count: usize, skew: f64) -> Self {
        let weights = (1..=count).map(|rank| (rank as f64).powf(-skew));
        let all: f64 = weights.clone().sum();
        let cumulative = weights.scan(0.0, |sum, weight| {
            *sum += weight / all;
            Some(*sum)
        });
        Self {
            cumulative: cumulative.collect(),
        }
    }

    fn choose(&self, numbers: &mut Numbers) -> usize {
        let number = numbers.unit();
        let key = self.cumulative.partition_point(|sum| *sum <= number);
        // The sum of all may be a little less than 1.
        key.min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check against the shares of Zipf's law, by hand: 1, 1/2 and 1/3 of 11/6.
    #[test]
    fn few_keys_are_asked_for_often() {
        let keys = Keys::new(3, 1.0);
        let mut numbers = Numbers(1);
        let mut counts = [0_u32; 3];
        for _ in 0..110_000 {
            counts[keys.choose(&mut numbers)] += 1;
        }
        for (count, expected) in counts.into_iter().zip([60_000_u32, 30_000, 20_000]) {
            assert!(
                count.abs_diff(expected) < 1_000,
                "{count} instead of {expected}"
            );
        }
    }
}
