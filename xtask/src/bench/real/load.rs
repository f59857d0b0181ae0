//! The load: clients that ask a memcached for what it does, one request after the other.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::bench::numbers::Numbers;

/// Keys; with their values some times what the server may keep, so that it drops some.
const KEYS: usize = 100_000;
const LEAST_VALUE: usize = 16;
const MOST_VALUE: usize = 1024;
/// How much more often some of them are asked for than others: the exponent of Zipf's law that the clients of YCSB
/// have (Cooper and others, "Benchmarking Cloud Serving Systems with YCSB", 2010).
const SKEW: f64 = 0.99;
/// One request in so many asks for the server's figures.
const STATS: usize = 500;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets so many clients ask for so long: how many requests were answered.
pub fn apply(port: u16, clients: usize, time: Duration) -> Result<u64> {
    let keys = &Keys::new(KEYS, SKEW);
    let end = Instant::now() + time;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(port, number as u64, keys, end)))
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

fn client(port: u16, number: u64, keys: &Keys, end: Instant) -> Result<u64> {
    let stream = TcpStream::connect(("127.0.0.1", port)).context("connecting to memcached")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut numbers = Numbers(number);
    let value = vec![b'v'; MOST_VALUE];
    let (mut answered, mut request, mut line) = (0, Vec::new(), String::new());
    while Instant::now() < end {
        request.clear();
        let key = keys.choose(&mut numbers);
        let ends = match numbers.below(100) {
            _ if numbers.below(STATS) == 0 => {
                request.extend_from_slice(b"stats\r\n");
                "END"
            }
            0..60 => {
                write!(request, "get key{key}\r\n")?;
                "END"
            }
            60..85 => {
                let len = LEAST_VALUE + numbers.below(MOST_VALUE - LEAST_VALUE);
                // Some of them expire soon.
                let expires = u8::from(numbers.below(10) == 0);
                write!(request, "set key{key} 0 {expires} {len}\r\n")?;
                request.extend_from_slice(value.get(..len).unwrap_or_default());
                request.extend_from_slice(b"\r\n");
                ""
            }
            85..95 => {
                write!(request, "delete key{key}\r\n")?;
                ""
            }
            _ => {
                write!(request, "touch key{key} 0\r\n")?;
                ""
            }
        };
        stream.write_all(&request).context("asking memcached")?;
        read_answer(&mut answers, ends, &mut line)?;
        answered += 1;
    }
    Ok(answered)
}

/// Reads up to the line that ends an answer; any line where it has only one.
fn read_answer(answers: &mut impl BufRead, ends: &str, line: &mut String) -> Result<()> {
    loop {
        line.clear();
        if answers.read_line(line).context("memcached's answer")? == 0 {
            bail!("memcached has closed a connection; see what it said above");
        }
        let said = line.trim_end();
        if said.contains("ERROR") && !said.starts_with("SERVER_ERROR out of memory") {
            bail!("memcached says: {said}");
        }
        if ends.is_empty() || said == ends || said.starts_with("SERVER_ERROR") {
            return Ok(());
        }
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

    /// Check where answers end, and that errors are told.
    #[test]
    fn answers() {
        let read = |mut text: &[u8], ends: &str| {
            let result = read_answer(&mut text, ends, &mut String::new());
            result.map(|()| text.len()).ok()
        };
        assert_eq!(read(b"STORED\r\nEND\r\n", ""), Some(5));
        assert_eq!(read(b"VALUE key1 0 1\r\nv\r\nEND\r\n", "END"), Some(0));
        assert_eq!(read(b"SERVER_ERROR out of memory\r\n", ""), Some(0));
        assert_eq!(read(b"CLIENT_ERROR bad data chunk\r\n", ""), None);
        assert_eq!(read(b"VALUE key1 0 1\r\n", "END"), None);
    }
}
