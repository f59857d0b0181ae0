//! memcached: a server with worker threads that share a cache.

use std::{
    io::{BufRead, Write as _},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Result, bail};

use super::{
    load::{self, Protocol, read_line, value_len},
    program::{Build, Load, Program},
    server::free_port,
};
use crate::{bench::numbers::Numbers, source::Tree, steps::step};

/// MiB that the server may keep: less than the load sets, so that it has to drop some.
const MEMORY: &str = "16";
/// One request in so many asks for the server's figures.
const STATS: usize = 500;

pub struct Memcached;

impl Program for Memcached {
    fn package(&self) -> &'static str {
        "memcached"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["libevent-dev"]
    }

    fn work(&self, load: &Load) -> String {
        format!(
            "requests to memcached with {} threads, of {} clients",
            load.threads, load.clients
        )
    }

    fn build(&self, build: Build, tree: &Tree, directory: &Path) -> Result<()> {
        step(
            &format!("configuring memcached, {}", build.name()),
            Command::new(tree.path().join("configure"))
                .current_dir(directory)
                // Its own counters of coverage race, as they are meant to.
                .args([
                    "--quiet",
                    "--disable-docs",
                    "--disable-coverage",
                    "CC=clang-22",
                ])
                .arg(format!("CFLAGS={}", build.flags()))
                .arg(format!("LDFLAGS={}", build.link_flags()?)),
        )?;
        step(
            "building it",
            Command::new("make")
                .current_dir(directory)
                .args(["-j2", "--quiet", "memcached"]),
        )
    }

    fn built(&self) -> &'static str {
        "memcached"
    }

    fn run(&self, mut command: Command, load: &Load, time: Duration) -> Result<f64> {
        let port = free_port()?;
        command
            .args(["-U", "0", "-l", "127.0.0.1", "-u", "root", "-m", MEMORY])
            .args(["-t", &load.threads.to_string(), "-p", &port.to_string()]);
        load::serve(command, port, self, load, time)
    }
}

impl Protocol for Memcached {
    fn ask(
        &self,
        key: usize,
        numbers: &mut Numbers,
        request: &mut Vec<u8>,
    ) -> Result<&'static str> {
        Ok(match numbers.below(100) {
            _ if numbers.below(STATS) == 0 => {
                request.extend_from_slice(b"stats\r\n");
                "END"
            }
            0..60 => {
                write!(request, "get key{key}\r\n")?;
                "END"
            }
            60..85 => {
                let len = value_len(numbers);
                // Some of them expire soon.
                let expires = u8::from(numbers.below(10) == 0);
                write!(request, "set key{key} 0 {expires} {len}\r\n")?;
                request.resize(request.len() + len, b'v');
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
        })
    }

    /// Reads up to the line that ends an answer; any line where it has only one.
    fn read(&self, answers: &mut dyn BufRead, ends: &str) -> Result<()> {
        loop {
            let line = read_line(answers)?;
            let said = line.trim_end();
            if said.contains("ERROR") && !said.starts_with("SERVER_ERROR out of memory") {
                bail!("memcached says: {said}");
            }
            if ends.is_empty() || said == ends || said.starts_with("SERVER_ERROR") {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check where answers end, and that errors are told.
    #[test]
    fn answers() {
        let read = |mut text: &[u8], ends: &str| {
            let result = Memcached.read(&mut text, ends);
            result.map(|()| text.len()).ok()
        };
        assert_eq!(read(b"STORED\r\nEND\r\n", ""), Some(5));
        assert_eq!(read(b"VALUE key1 0 1\r\nv\r\nEND\r\n", "END"), Some(0));
        assert_eq!(read(b"SERVER_ERROR out of memory\r\n", ""), Some(0));
        assert_eq!(read(b"CLIENT_ERROR bad data chunk\r\n", ""), None);
        assert_eq!(read(b"VALUE key1 0 1\r\n", "END"), None);
    }
}
