//! The programs, which of their functions race, and what is wanted of the planner there.

use std::path::PathBuf;

use anyhow::Result;

use super::needle;
use crate::{bench::calibration::hashes, fixture};

/// A program.
pub struct Workload {
    pub name: &'static str,
    program: Program,
    /// Every function that races with one of these.
    pub racy: &'static [&'static str],
    pub wishes: &'static [Wish],
}

#[derive(Clone, Copy)]
enum Program {
    /// `increments.c`, with private work of so many seconds between two increments.
    Increments(f64),
    /// The same, the counter in a shared library.
    Library(f64),
    /// The same in Rust.
    Rust(f64),
    /// One that is generated.
    Needle,
    /// A fixture, and what it is told beside the seconds.
    Fixture(&'static str, &'static [&'static str]),
}

/// What is wanted of the planner.
#[derive(Clone, Copy)]
pub enum Wish {
    /// Its median is smaller than clock's by this factor.
    Faster(f64),
    /// Its median is at most so many seconds.
    Within(f64),
    /// Its median is at most so many times clock's, or so many seconds.
    NotSlower { times: f64, or_s: f64 },
}

/// All of them.
pub const WORKLOADS: [Workload; 10] = [
    Workload {
        wishes: &[Wish::NotSlower {
            times: 1.25,
            or_s: 0.2,
        }],
        ..new("hot", Program::Increments(0.0), &["increment"])
    },
    new("warm", Program::Increments(15e-6), &["increment"]),
    Workload {
        wishes: &[Wish::Faster(30.0), Wish::Within(0.5)],
        ..new("rare", Program::Increments(1.5e-3), &["increment"])
    },
    Workload {
        wishes: &[Wish::Within(5.0)],
        ..new("very-rare", Program::Increments(20e-3), &["increment"])
    },
    Workload {
        wishes: &[Wish::Faster(30.0)],
        ..new("needle", Program::Needle, &needle::RACY)
    },
    Workload {
        wishes: &[Wish::Faster(5.0)],
        ..new(
            "locked",
            Program::Fixture("locked", &[]),
            &["write_latest", "read_latest"],
        )
    },
    Workload {
        wishes: &[Wish::Faster(5.0)],
        ..new(
            "pool",
            Program::Fixture("queue", &["200"]),
            &["count_completed"],
        )
    },
    new(
        "pipeline",
        Program::Fixture("pipeline", &[]),
        &["request_stop", "should_stop"],
    ),
    new("library", Program::Library(15e-6), &["add"]),
    new("rust", Program::Rust(15e-6), &["increment"]),
];

const fn new(name: &'static str, program: Program, racy: &'static [&'static str]) -> Workload {
    Workload {
        name,
        program,
        racy,
        wishes: &[],
    }
}

impl Workload {
    /// Builds it.
    pub fn build(&self) -> Result<PathBuf> {
        match self.program {
            Program::Increments(_) => fixture::compile("bench", "increments"),
            Program::Library(_) => fixture::compile_with_library("bench", "increments", "counter"),
            Program::Rust(_) => fixture::compile_rust("bench", "increments"),
            Program::Needle => fixture::compile_generated("bench", "needle", &needle::source()),
            Program::Fixture(name, _) => fixture::compile("bench", name),
        }
    }

    /// What it is told beside the seconds, where a hash of `increments` takes so long.
    pub fn arguments(&self, hash_s: f64) -> Vec<String> {
        match self.program {
            Program::Increments(gap_s) | Program::Library(gap_s) | Program::Rust(gap_s) => {
                vec![hashes(gap_s, hash_s)]
            }
            Program::Needle => Vec::new(),
            Program::Fixture(_, arguments) => {
                arguments.iter().map(|&word| word.to_owned()).collect()
            }
        }
    }

    /// How many of the reported pairs are none that race.
    pub fn false_among(&self, pairs: &[[String; 2]]) -> usize {
        let races = |function: &String| self.racy.contains(&function.as_str());
        pairs.iter().filter(|pair| !pair.iter().all(races)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that both sides must be known to race.
    #[test]
    fn false_reports() {
        let workload = new("locked", Program::Needle, &["write", "read"]);
        let pair = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
        assert_eq!(workload.false_among(&[]), 0);
        let pairs = [
            pair("read", "write"),
            pair("write", "?"),
            pair("add", "add"),
        ];
        assert_eq!(workload.false_among(&pairs), 2);
    }
}
