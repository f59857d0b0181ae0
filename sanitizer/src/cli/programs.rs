//! What is known of the programs that are executed below the first process, by their files: so that those are told by name whose
//! processes end before anybody has looked at them, and what is executed again and again is looked at once.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use gwp_race_abi::descent::ExecutedFile;

use super::covered::{Covered, CoveredFiles};
use crate::kernel::{executed::Executed, foreign::About};

/// So many programs are remembered.
const MOST: usize = 1024;
/// How long a process must have lived before it gets a tracer, where one came too late the last time; each further time doubles it.
const LEAST_LIFE: Duration = Duration::from_millis(5);
/// As often it is doubled at most: to 640 ms.
const MOST_DOUBLED: u32 = 7;
/// After so long it is half as long.
const FORGETS: Duration = Duration::from_secs(5);

/// Whether the file of a program carries metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Nobody has looked yet.
    Unknown,
    /// Somebody was asked, who has not answered yet.
    Asked,
    /// It cannot be found or read.
    Hidden,
    /// What it will load may.
    No,
    /// It does.
    Yes,
}

/// A program.
#[derive(Clone, Debug)]
struct Program {
    executed: Executed,
    name: String,
    carries: Carries,
    /// Whether the process that was looked at last had metadata mapped.
    maps_some: bool,
    /// Processes in a row that had none when they were looked at first.
    without: usize,
    /// Tracers in a row that came too late for processes that were forked, and for those that were executed.
    too_late: [u32; 2],
    /// When that was so for the last time.
    late_at: [Option<Instant>; 2],
    /// Processes that ended before it was known whether it carries metadata.
    ended: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Programs {
    known: HashMap<ExecutedFile, Program>,
    /// Those with processes that have ended and of which nothing is known yet.
    unknown: VecDeque<ExecutedFile>,
    have_metadata: bool,
    /// Processes that ended before anything was known of a program that is not remembered any more.
    forgotten: u64,
}

impl Programs {
    /// A process executes this. `name`: what it is called where its path says nothing.
    pub fn met(&mut self, executed: Executed, name: &str) -> ExecutedFile {
        let file = executed.file;
        if self.known.len() >= MOST && !self.known.contains_key(&file) {
            // Those that were to be counted stay.
            self.known.retain(|_, program| program.ended > 0);
            if self.known.len() >= MOST {
                let ended = self.known.values().map(|program| program.ended);
                self.forgotten += ended.sum::<u64>();
                self.known.clear();
                self.unknown.clear();
            }
        }
        self.known.entry(file).or_insert_with(|| Program {
            name: name_of(&executed, name),
            executed,
            carries: Carries::Unknown,
            maps_some: false,
            without: 0,
            too_late: [0; 2],
            late_at: [None; 2],
            ended: 0,
        });
        file
    }

    /// What a program is called: as it was executed first.
    #[must_use]
    pub fn name(&self, file: ExecutedFile) -> Option<&str> {
        self.known.get(&file).map(|program| program.name.as_str())
    }

    /// Whether the file carries metadata, as far as is known.
    #[must_use]
    pub fn carries(&self, file: ExecutedFile) -> Carries {
        self.known
            .get(&file)
            .map_or(Carries::Unknown, |program| program.carries)
    }

    /// Whether a process that executes it is likely to have metadata mapped.
    #[must_use]
    pub fn is_covered(&self, file: ExecutedFile) -> bool {
        let program = self.known.get(&file);
        program.is_some_and(|program| program.carries == Carries::Yes || program.maps_some)
    }

    /// Finds out whether the file carries metadata, through the process that executes it or whoever of some others finds it by
    /// its name.
    pub fn identify(
        &mut self,
        file: ExecutedFile,
        pid: Option<u32>,
        others: &[u32],
        files: &mut CoveredFiles,
    ) -> Carries {
        let Some(program) = self.known.get_mut(&file) else {
            return Carries::Unknown;
        };
        if matches!(
            program.carries,
            Carries::Unknown | Carries::Asked | Carries::Hidden
        ) {
            let is_covered = files.is_executed_covered(&program.executed, pid, others);
            program.carries = match is_covered {
                Covered::Is(true) => Carries::Yes,
                Covered::Is(false) => Carries::No,
                Covered::Hidden => Carries::Hidden,
                Covered::Asked => Carries::Asked,
            };
            self.have_metadata |= program.carries == Carries::Yes;
        }
        program.carries
    }

    /// Whether one of those that were executed carries metadata.
    #[must_use]
    pub const fn have_metadata(&self) -> bool {
        self.have_metadata
    }

    /// Whether a process executes it at this moment, as far as can be seen.
    #[must_use]
    pub fn is_executed_by(&self, file: ExecutedFile, pid: u32) -> bool {
        let program = self.known.get(&file);
        let now = About::at(format!("/proc/{pid}/exe").as_ref());
        match (program, now) {
            (Some(program), Ok(now)) => program.executed.is(&now),
            (_, Err(error)) => error.kind() == std::io::ErrorKind::PermissionDenied,
            (None, Ok(_)) => true,
        }
    }

    /// What was found mapped by a process when it was looked at, and whether that was the first look.
    pub fn learn(&mut self, file: ExecutedFile, maps_some: bool, is_first: bool) {
        if let Some(program) = self.known.get_mut(&file) {
            program.maps_some = maps_some;
            if maps_some {
                program.without = 0;
            } else if is_first {
                program.without += 1;
            }
        }
    }

    /// How many processes in a row had nothing mapped at their first looks.
    #[must_use]
    pub fn without(&self, file: ExecutedFile) -> usize {
        self.known.get(&file).map_or(0, |program| program.without)
    }

    /// How long a process must have lived to be worth a tracer: half of that each few seconds after the last one came too late, since
    /// nobody would find out otherwise that things have changed.
    #[must_use]
    pub fn least_life(&self, file: ExecutedFile, executes: bool, now: Instant) -> Duration {
        let kind = usize::from(executes);
        let times = self.known.get(&file).map_or(0, |program| {
            let since = program.late_at[kind].map(|at| now.saturating_duration_since(at));
            let halved = since.unwrap_or_default().as_secs() / FORGETS.as_secs();
            let halved = u32::try_from(halved).unwrap_or(u32::MAX);
            program.too_late[kind].saturating_sub(halved)
        });
        match times {
            0 => Duration::ZERO,
            times => LEAST_LIFE * 2u32.pow(times - 1),
        }
    }

    /// Whether a tracer was there before its process ended.
    pub fn traced(&mut self, file: ExecutedFile, executes: bool, in_time: bool, now: Instant) {
        if let Some(program) = self.known.get_mut(&file) {
            program.late_at[usize::from(executes)] = (!in_time).then_some(now);
            let too_late = &mut program.too_late[usize::from(executes)];
            *too_late = if in_time {
                *too_late / 2
            } else {
                (*too_late + 1).min(MOST_DOUBLED + 1)
            };
        }
    }

    /// A process has ended before anything was known of the program.
    pub fn ended(&mut self, file: ExecutedFile) {
        if let Some(program) = self.known.get_mut(&file) {
            if program.ended == 0 {
                self.unknown.push_back(file);
            }
            program.ended += 1;
        } else {
            self.forgotten += 1;
        }
    }

    /// Takes those of programs that are not remembered any more: how many.
    pub const fn take_forgotten(&mut self) -> u64 {
        std::mem::replace(&mut self.forgotten, 0)
    }

    /// The next one with processes that have ended before anything was known of it.
    pub fn next_unknown(&mut self) -> Option<ExecutedFile> {
        self.unknown.pop_front()
    }

    /// Nothing is known of it yet: it comes again.
    pub fn ask_again(&mut self, file: ExecutedFile) {
        self.unknown.push_back(file);
    }

    /// Takes those that have ended before anything was known: how many.
    pub fn take_ended(&mut self, file: ExecutedFile) -> u64 {
        let program = self.known.get_mut(&file);
        program.map_or(0, |program| std::mem::take(&mut program.ended))
    }
}

fn name_of(executed: &Executed, name: &str) -> String {
    let path = &executed.path;
    // Of what was executed by a descriptor the kernel's name tells more.
    if path.as_os_str().is_empty() || path.starts_with("/dev/fd") {
        name.to_owned()
    } else {
        path.to_string_lossy().into_owned()
    }
}
