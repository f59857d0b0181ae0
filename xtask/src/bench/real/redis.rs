//! redis: one thread that executes commands, and others that read and write for it.

use std::{
    io::{BufRead, Read as _, Write as _},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    load::{self, Protocol, read_line, value_len},
    program::{Build, Load, Program},
    server::free_port,
};
use crate::{bench::numbers::Numbers, source::Tree, steps::step};

/// One request in so many asks for the server's figures.
const INFO: usize = 500;

pub struct Redis;

impl Program for Redis {
    fn package(&self) -> &'static str {
        "redis"
    }

    fn work(&self, load: &Load) -> String {
        format!(
            "requests to redis with {} I/O threads, of {} clients",
            load.threads, load.clients
        )
    }

    /// Its I/O threads work only while two clients wait for each of them.
    fn clients(&self, threads: usize) -> usize {
        8 * threads
    }

    fn build(&self, build: Build, tree: &Tree, directory: &Path) -> Result<()> {
        // It is built where its source is.
        step(
            &format!("copying the source of redis, {}", build.name()),
            Command::new("cp")
                .args(["--recursive", "--no-target-directory"])
                .args([tree.path(), directory]),
        )?;
        step(
            "building it",
            Command::new("make")
                .current_dir(directory.join("src"))
                .args([
                    "-j2",
                    "--quiet",
                    "CC=clang-22",
                    "MALLOC=libc",
                    "redis-server",
                ])
                .arg(format!("REDIS_CFLAGS={}", build.flags()))
                .arg(format!("REDIS_LDFLAGS={}", build.link_flags()?)),
        )
    }

    fn built(&self) -> &'static str {
        "src/redis-server"
    }

    fn run(&self, mut command: Command, load: &Load, time: Duration) -> Result<f64> {
        let port = free_port()?;
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--io-threads", &load.threads.to_string()])
            .args(["--io-threads-do-reads", "yes"]);
        load::serve(command, port, self, load, time)
    }
}

impl Protocol for Redis {
    /// Writes it as redis' "inline command". An answer tells by itself where it ends.
    fn ask(
        &self,
        key: usize,
        numbers: &mut Numbers,
        request: &mut Vec<u8>,
    ) -> Result<&'static str> {
        match numbers.below(100) {
            _ if numbers.below(INFO) == 0 => write!(request, "INFO")?,
            0..50 => write!(request, "GET key{key}")?,
            50..75 => {
                let len = value_len(numbers);
                write!(request, "SET key{key} ")?;
                request.resize(request.len() + len, b'v');
            }
            75..85 => write!(request, "DEL key{key}")?,
            85..90 => write!(request, "INCR count{key}")?,
            90..95 => write!(request, "LPUSH list{key} {key}")?,
            95..97 => write!(request, "LTRIM list{key} 0 9")?,
            _ => write!(request, "LRANGE list{key} 0 9")?,
        }
        request.extend_from_slice(b"\r\n");
        Ok("")
    }

    fn read(&self, answers: &mut dyn BufRead, _ends: &str) -> Result<()> {
        read_answer(answers)
    }
}

/// Reads an answer of redis' protocol, version 2.
fn read_answer(answers: &mut dyn BufRead) -> Result<()> {
    let line = read_line(answers)?;
    let said = line.trim_end();
    let number = || -> Result<i64> {
        let number = said.get(1..).unwrap_or_default();
        (number.parse()).with_context(|| format!("redis says: {said}"))
    };
    match said.as_bytes().first() {
        Some(b'+' | b':') => Ok(()),
        Some(b'$') => {
            // None is -1.
            let Ok(len) = u64::try_from(number()?) else {
                return Ok(());
            };
            let (mut bytes, with_end) = (Vec::new(), len + 2);
            answers.take(with_end).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != with_end {
                bail!("redis has closed a connection; see what it said above");
            }
            Ok(())
        }
        Some(b'*') => (0..number()?).try_for_each(|_| read_answer(answers)),
        _ => bail!("redis says: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check where answers end, and that errors are told.
    #[test]
    fn answers() {
        let read = |mut text: &[u8]| {
            let result = Redis.read(&mut text, "");
            result.map(|()| text.len()).ok()
        };
        assert_eq!(read(b"+OK\r\n+OK\r\n"), Some(5));
        assert_eq!(read(b":7\r\n"), Some(0));
        assert_eq!(read(b"$-1\r\n:1\r\n"), Some(4));
        assert_eq!(read(b"$3\r\na\nb\r\n:1\r\n"), Some(4));
        assert_eq!(read(b"*2\r\n$1\r\na\r\n:1\r\n+OK\r\n"), Some(5));
        assert_eq!(read(b"$3\r\na"), None);
        assert_eq!(read(b"-ERR unknown command\r\n"), None);
        assert_eq!(read(b"*x\r\n"), None);
    }
}
