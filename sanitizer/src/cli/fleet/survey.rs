//! A look at the processes of a machine: what each of them is, and the verdict on it.

use std::{collections::HashMap, io, path::Path, time::Duration};

use nix::unistd::Pid;

use crate::{
    cli::{
        covered::{Covered, CoveredFiles},
        descendants::start_ticks,
    },
    fleet::{
        process::{Kind, OPT_OUT, Process},
        rule::{Rules, Said},
        verdict::{Code, Verdict, opted_out, traced, wanted, with_code},
    },
    kernel::{
        executed::Executed,
        foreign::{About, ForeignError, ForeignFile, Purpose},
        limits::is_shortage,
    },
    reader::HeaderReader,
    tracee::{
        TargetError,
        container::{container, group},
        process::{Architecture, executed, without_mark},
        procfs,
        status::Status,
        threads::{Stat, live_thread, name},
        traced::Tracer,
    },
};

/// A process as it was at a moment.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its id.
    pub pid: u32,
    /// When it was started, in clock ticks after boot: with the id, tells it from a later one.
    pub start_ticks: u64,
    /// What is known of the file that it executes; nothing of one that executes none, or may not be looked into.
    pub program: Option<About>,
    /// What it is.
    pub kind: Kind,
    /// The id of the container that it is in.
    pub container: Option<String>,
    /// Whether it is watched.
    pub verdict: Verdict,
}

/// See the module. What was found of files is kept, as long as they do not change.
pub struct Surveyor {
    rules: Rules,
    files: CoveredFiles,
    /// Device and inode of the file that this process executes.
    own: Option<(u64, u64)>,
}

impl Surveyor {
    /// By these rules; the headers of files are read by this one. Has looked at nothing yet.
    #[must_use]
    pub fn new(rules: Rules, reader: HeaderReader) -> Self {
        let own = About::at(Path::new("/proc/self/exe")).ok();
        Self {
            rules,
            files: CoveredFiles::local(reader),
            own: own.map(|about| (about.device, about.inode)),
        }
    }

    /// All processes, by their ids.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn all(&mut self) -> io::Result<Vec<Found>> {
        let mut pids = pids()?;
        pids.sort_unstable();
        Ok(pids.into_iter().filter_map(|pid| self.look(pid)).collect())
    }

    /// One process; nothing of one that is gone.
    pub fn look(&mut self, pid: u32) -> Option<Found> {
        let id = Pid::from_raw(pid.cast_signed());
        let started = start_ticks(pid)?;
        // First: if it executes another one meanwhile, that is seen by the next look.
        let program = program_of(id);
        let (kind, short) = match self.kind(id) {
            Ok(kind) => (kind, None),
            Err(error) if error.is_vanished() => return None,
            Err(error) => (Kind::Hidden, error.is_shortage().then(|| unread(&error))),
        };
        let verdict = match wanted(&kind, &self.rules) {
            Err(verdict) => short.map_or(verdict, |code| with_code(Said::Nothing, code)),
            Ok(said) => {
                let code = self.code(id);
                let is_covered = code == Code::Covered;
                let verdict = with_code(said, code);
                if is_covered {
                    Self::of_covered(id, verdict)?
                } else {
                    verdict
                }
            }
        };
        // What was found may be of another one, which has got its id.
        (start_ticks(pid) == Some(started)).then(|| Found {
            pid,
            start_ticks: started,
            program,
            container: matches!(kind, Kind::Program(_))
                .then(|| container(id))
                .flatten(),
            kind,
            verdict,
        })
    }

    /// Whether a process that was to be watched still is: it executes the same file, the rules say so of what it is now, and it has not executed
    /// that file anew with the wish to be left alone. Who traces it does not matter.
    pub fn is_wanted_still(&self, pid: u32, program: (u64, u64)) -> bool {
        let id = Pid::from_raw(pid.cast_signed());
        let kind = match self.kind(id) {
            Ok(kind) => kind,
            // That it has ended is told, or seen the next time.
            Err(error) if error.is_vanished() || error.is_shortage() => return true,
            Err(_) => return false,
        };
        if kind == Kind::Ended {
            return true;
        }
        let opts_out = || {
            let thread = live_thread(id).ok()?;
            Some(has_opted_out(&procfs::read(id, thread, "environ").ok()?))
        };
        let executes_it = program_of(id).is_none_or(|now| program == (now.device, now.inode));
        executes_it && wanted(&kind, &self.rules).is_ok() && opts_out() != Some(true)
    }

    /// CPU time of those who read headers of files.
    pub fn cpu_of_readers(&self) -> Duration {
        self.files.reader().cpu()
    }

    /// The same, and for how long they were waited for in vain.
    pub fn cost_of_readers(&self) -> Duration {
        self.files.reader().cost()
    }

    /// Whether the process that was looked at last executed this file, which is known to carry no metadata.
    pub fn has_seen_none_in(&self, executed: &Executed) -> bool {
        self.files.has_seen_none_in(executed)
    }

    fn kind(&self, pid: Pid) -> Result<Kind, TargetError> {
        if Stat::read(pid, pid)?.is_kernels {
            return Ok(Kind::Kernel);
        }
        let thread = match live_thread(pid) {
            Err(error) if error.is_vanished() && Stat::read(pid, pid).is_ok() => {
                return Ok(Kind::Ended);
            }
            thread => thread?,
        };
        let exe = executed(pid)?;
        let path = procfs::path(thread, "exe");
        let is_own = match About::at(&path) {
            Ok(about) => self.own == Some((about.device, about.inode)),
            Err(error) if is_shortage(&error) => {
                return Err(TargetError::from_io(pid, &path, error));
            }
            Err(_) => false,
        };
        if is_own {
            return Ok(Kind::Own);
        }
        Ok(Kind::Program(Process {
            comm: name(pid, pid)?,
            exe: without_mark(&exe).to_owned(),
            user: Status::of_process(pid)?.effective_uid.as_raw(),
            cgroup: group(&String::from_utf8_lossy(&procfs::read(
                pid, thread, "cgroup",
            )?))
            .to_owned(),
        }))
    }

    /// What its code is, as far as it is mapped by now.
    fn code(&mut self, pid: Pid) -> Code {
        let thread = match live_thread(pid) {
            Ok(thread) => thread,
            Err(error) if error.is_shortage() => return unread(&error),
            Err(_) => return Code::Uncovered,
        };
        let program = ForeignFile::executed(thread.as_raw().cast_unsigned(), Purpose::Local);
        if let Err(ForeignError::FileSystem { kind, .. }) = program {
            return Code::Served(kind);
        }
        match self.files.are_in(pid.as_raw().cast_unsigned()) {
            Covered::Is(false) | Covered::Hidden if self.files.are_short() => {
                Code::Short("descriptors or memory have run out".to_owned())
            }
            Covered::Is(false) => Code::Uncovered,
            // Nobody else is asked for this purpose.
            Covered::Hidden | Covered::Asked => {
                let why = "the process that reads their headers cannot be started, or has come to its end over one";
                Code::Unreadable(why.to_owned())
            }
            Covered::Is(true) => match Architecture::of(pid) {
                Ok(architecture) if architecture.is_x86_64() => Code::Covered,
                Ok(_) => Code::OtherMachine,
                Err(error) => unread(&error),
            },
        }
    }

    /// The verdict on one with metadata, by what it asks for and who traces it; nothing of one that is gone.
    fn of_covered(pid: Pid, verdict: Verdict) -> Option<Verdict> {
        let thread = live_thread(pid).ok()?;
        let opts_out = match procfs::read(pid, thread, "environ") {
            Ok(environment) => has_opted_out(&environment),
            Err(error) if error.is_vanished() => return None,
            // Whoever cannot be asked is left alone.
            Err(error) => return Some(with_code(Said::Nothing, unread(&error))),
        };
        if opts_out {
            return Some(opted_out());
        }
        Some(match Tracer::of(pid) {
            Some(tracer) => traced(tracer.told(pid)),
            None => verdict,
        })
    }
}

/// What a process executes; nothing of one that has ended.
fn program_of(pid: Pid) -> Option<About> {
    About::at(&procfs::path(live_thread(pid).ok()?, "exe")).ok()
}

/// The code of a process that cannot be read.
fn unread(error: &TargetError) -> Code {
    let why = error.to_string();
    if error.is_shortage() {
        Code::Short(why)
    } else {
        Code::Unreadable(why)
    }
}

/// All processes, in any order.
fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// All processes, each with when it was started.
///
/// # Errors
/// `/proc` cannot be read, or descriptors or memory have run out.
pub(super) fn started() -> io::Result<HashMap<u32, u64>> {
    let mut all = HashMap::new();
    for pid in pids()? {
        match stat(pid) {
            Ok(stat) => {
                all.insert(pid, stat.start_ticks);
            }
            Err(TargetError::Unreadable { source, .. }) if is_shortage(&source) => {
                return Err(source);
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Whether a process that was started then is gone. For want of descriptors or memory it is not taken for gone.
pub(super) fn is_gone(pid: u32, start_ticks: u64) -> bool {
    match stat(pid) {
        Ok(stat) => stat.start_ticks != start_ticks,
        Err(error) => !error.is_shortage(),
    }
}

fn stat(pid: u32) -> Result<Stat, TargetError> {
    let id = Pid::from_raw(pid.cast_signed());
    Stat::read(id, id)
}

/// Whether an environment (proc_pid_environ(5)) says that its process is not to be watched.
fn has_opted_out(environment: &[u8]) -> bool {
    let mut strings = environment.split(|&byte| byte == 0);
    strings.any(|string| string == OPT_OUT.as_bytes())
}

#[cfg(test)]
mod tests;
