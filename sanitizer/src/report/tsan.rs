//! Races in the literal words of ThreadSanitizer's reports (compiler-rt, `lib/tsan/rtl/tsan_report.cpp`), for tools that look for those.
//!
//! What such reports have no words for is left out: the verdict, notes, and names that outlive a rebuild.

use std::fmt::{self, Write as _};
use std::io::Write;

use super::clean::clean;
use super::model::{Access, LocationKind, Lock, LockMode, Race};
use super::summary::Summary;
use super::words::{capitalized, creation_place, frame_text, global, padded, summary_place, what};
use super::writer::{Output, ReportWriter, WriteError};

const RULE: &str = "==================";

/// Writes such reports. Races that are known are none of them.
pub struct TsanWriter {
    output: Output,
    told: u64,
}

impl TsanWriter {
    /// Writes to `out`, which errors call `path`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, path: impl Into<String>) -> Self {
        Self {
            output: Output::new(out, path),
            told: 0,
        }
    }
}

impl ReportWriter for TsanWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        if race.known {
            return Ok(());
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write_race(&mut text, race);
        self.output.write(&text)?;
        self.told += 1;
        Ok(())
    }

    fn summary(&mut self, _: &Summary) -> Result<(), WriteError> {
        match self.told {
            0 => Ok(()),
            told => (self.output).write(&format!("ThreadSanitizer: reported {told} warnings\n")),
        }
    }
}

/// What ThreadSanitizer calls a thread: the program's first one has no number.
fn thread(race: &Race, access: &Access) -> String {
    let [stalled, _] = &race.accesses;
    if access.tid == race.pid {
        "main thread".to_owned()
    } else if access.tid == stalled.tid {
        "thread T1".to_owned()
    } else {
        "thread T2".to_owned()
    }
}

/// The locks that the two sides hold, each once, in the order of their numbers.
fn locks(race: &Race) -> Vec<&Lock> {
    let mut locks: Vec<&Lock> = Vec::new();
    for lock in race.accesses.iter().flat_map(|access| &access.holds) {
        if locks.iter().all(|known| known.address != lock.address) {
            locks.push(lock);
        }
    }
    locks
}

/// Those of one side (`PrintMutexSet`).
fn mutexes(race: &Race, access: &Access) -> String {
    let locks = locks(race);
    let numbered = access.holds.iter().filter_map(|held| {
        let number = locks.iter().position(|lock| lock.address == held.address)?;
        let mode = match held.mode {
            LockMode::Read => "read",
            LockMode::Write => "write",
        };
        Some(format!("{mode} M{number}"))
    });
    let numbered: Vec<String> = numbered.collect();
    match numbered.is_empty() {
        true => String::new(),
        false => format!(" (mutexes: {})", numbered.join(", ")),
    }
}

fn write_race(out: &mut String, race: &Race) -> fmt::Result {
    writeln!(out, "{RULE}")?;
    writeln!(
        out,
        "WARNING: ThreadSanitizer: data race (pid={})",
        race.pid
    )?;
    for (index, access) in race.accesses.iter().enumerate() {
        // There are reads and writes only.
        let what = what(access).replace("read-write", "write");
        let what = match index {
            0 => capitalized(&what),
            _ => format!("Previous {what}"),
        };
        let address = padded(access.address);
        let thread = thread(race, access);
        writeln!(
            out,
            "  {what} of size {} at {address} by {thread}{}:",
            access.size,
            mutexes(race, access)
        )?;
        for (number, frame) in access.stack.iter().enumerate() {
            writeln!(out, "    #{number} {}", frame_text(frame))?;
        }
        writeln!(out)?;
    }
    write_location(out, race)?;
    for (number, lock) in locks(race).into_iter().enumerate() {
        // Where that was, is not known: these are the words for it.
        let address = padded(lock.address);
        writeln!(out, "  Mutex M{number} ({address}) created at:")?;
        writeln!(out, "    [failed to restore the stack]\n")?;
    }
    for access in &race.accesses {
        if access.tid != race.pid {
            let thread = capitalized(&thread(race, access));
            let name = clean(&access.thread_name);
            let tid = access.tid;
            let Some(creation) = &access.created_by else {
                writeln!(out, "  {thread} '{name}' (tid={tid}, running)\n")?;
                continue;
            };
            let by = match creation.tid == race.pid {
                true => "main thread".to_owned(),
                false => format!("thread (tid={})", creation.tid),
            };
            writeln!(
                out,
                "  {thread} '{name}' (tid={tid}, running) created by {by} at:"
            )?;
            match creation_place(creation) {
                Some(place) => writeln!(out, "    #0 {place}\n")?,
                None => writeln!(out, "    [failed to restore the stack]\n")?,
            }
        }
    }
    let [stalled, _] = &race.accesses;
    let place = summary_place(stalled);
    writeln!(out, "SUMMARY: ThreadSanitizer: data race {place}\n{RULE}")
}

/// Of memory that neither has a name nor is a stack, ThreadSanitizer tells who has allocated it, which is not known here.
fn write_location(out: &mut String, race: &Race) -> fmt::Result {
    let location = &race.location;
    match location.kind {
        LocationKind::Global => writeln!(out, "  Location is {}\n", global(race)),
        LocationKind::Stack => {
            let of = race
                .accesses
                .iter()
                .find(|access| Some(access.tid) == location.tid);
            let of = of.map_or_else(|| "main thread".to_owned(), |access| thread(race, access));
            writeln!(out, "  Location is stack of {of}.\n")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::finding::LockKind;
    use crate::report::hex::Hex;
    use crate::report::sample;

    /// Check the words that tools look for, and that known races are none of them.
    #[test]
    fn words() {
        let race = sample::race();
        let mut text = String::new();
        write_race(&mut text, &race).unwrap();
        let pid = race.pid;
        let begins = [
            RULE.to_owned(),
            format!("WARNING: ThreadSanitizer: data race (pid={pid})"),
            "  Write of size 4 at 0x".to_owned(),
            "    #0 bump /src/worker.c:7:5 (libwork.so+0x1139)".to_owned(),
        ];
        for (line, begin) in text.lines().zip(begins) {
            assert!(line.starts_with(&begin), "{line}");
        }
        for part in [
            " by thread T1 (mutexes: write M0):\n",
            "\n  Mutex M0 (0x555500004040) created at:\n    [failed to restore the stack]\n\n",
            "\n  Previous ",
            " by thread T",
            "\n  Thread T1 'worker' (tid=11, running) created by main thread at:\n    #0 start_all /src/main.c:31\n\n",
            "\nSUMMARY: ThreadSanitizer: data race /src/worker.c:7:5 in bump\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut race = race;
        for access in &mut race.accesses {
            access.holds = vec![Lock {
                kind: LockKind::Rwlock,
                mode: LockMode::Read,
                name: None,
                address: Hex(0x9000),
            }];
        }
        let mut text = String::new();
        write_race(&mut text, &race).unwrap();
        assert_eq!(text.matches(" (mutexes: read M0):\n").count(), 2, "{text}");
        assert_eq!(text.matches("\n  Mutex M0 (0x").count(), 1, "{text}");
        let written = |known| {
            let (out, written) = crate::report::writer::testing::kept();
            let mut writer = TsanWriter::new(out, "test");
            let race = Race {
                known,
                ..sample::race()
            };
            writer.race(&race).unwrap();
            writer.summary(&Summary::default()).unwrap();
            written()
        };
        assert!(written(false).ends_with("ThreadSanitizer: reported 1 warnings\n"));
        assert_eq!(written(true), "");
    }
}
