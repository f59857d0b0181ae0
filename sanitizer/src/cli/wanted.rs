//! Which process `attach` is asked for: by its id, or by its name where that is the name of one alone.

use anyhow::{anyhow, bail};
use nix::unistd::Pid;

use super::descendants::{as_pid, start_ticks};
use crate::tracee::{
    TargetError,
    called::{Called, called},
    process::check_is_program,
    status::Status,
    traced::Tracer,
};

/// How a user says which process is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// By its id.
    Id(u32),
    /// By its name.
    Name(String),
}

/// A process that can be watched, as far as can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub pid: u32,
    /// When it was started, in clock ticks after boot.
    start_ticks: Option<u64>,
}

impl Wanted {
    /// Reads an argument: what has nothing but digits is an id.
    ///
    /// # Errors
    /// Says what is wanted.
    pub fn parse(text: &str) -> Result<Self, String> {
        const MOST: u32 = i32::MAX.cast_unsigned();
        if text.is_empty() || text.contains('/') {
            return Err(
                "give the id of a process, or its name without folders; `ps -e` lists both"
                    .to_owned(),
            );
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self::Name(text.to_owned()));
        }
        let id = text.parse().ok().filter(|id| (1..=MOST).contains(id));
        id.map(Self::Id).ok_or_else(|| {
            format!("ids of processes are from 1 to {MOST}; `pgrep -a NAME` finds them")
        })
    }

    /// Finds the process, and sees whether it can be watched.
    ///
    /// # Errors
    /// Says why not, and what to do.
    pub fn find(&self) -> anyhow::Result<Found> {
        let found = match self {
            Self::Id(pid) => Found {
                pid: *pid,
                start_ticks: start_ticks(*pid),
            },
            Self::Name(name) => one_of(name, &called(name)?).map_err(|text| anyhow!(text))?,
        };
        check(as_pid(found.pid))?;
        Ok(found)
    }
}

impl Found {
    /// Sees whether another process has got its id meanwhile.
    ///
    /// # Errors
    /// It has.
    pub fn check_lives(self) -> Result<(), TargetError> {
        match (start_ticks(self.pid), self.start_ticks) {
            (Some(now), Some(then)) if now != then => Err(TargetError::Vanished(as_pid(self.pid))),
            // While a thread executes another program there may be nothing to be seen: whoever holds it finds out.
            _ => Ok(()),
        }
    }
}

/// The one that is meant by a name, of those that have it; else what is said.
fn one_of(name: &str, processes: &[Called]) -> Result<Found, String> {
    /// So many are listed.
    const MOST: usize = 20;
    match processes {
        [] => Err(format!(
            "no process is called {name}; give the id of one (a number), which `ps -e` lists"
        )),
        [one] => Ok(Found {
            pid: one.pid.as_raw().cast_unsigned(),
            start_ticks: Some(one.start_ticks),
        }),
        [first, ..] => {
            let mut text = format!(
                "{} processes are called {name}; give the id of one of them, say: gwp-race attach {}",
                processes.len(),
                first.pid
            );
            for Called { pid, program, .. } in processes.iter().take(MOST) {
                let program = program.as_deref().map(|path| path.display().to_string());
                let program = program.unwrap_or_else(|| "which you may not look into".to_owned());
                // Names of files may have ends of lines.
                text.push_str(&format!("\n{pid} {}", program.replace('\n', "\u{fffd}")));
            }
            if processes.len() > MOST {
                text.push_str(&format!("\nand {} more", processes.len() - MOST));
            }
            Err(text)
        }
    }
}

/// Whether an id is that of a process that nobody watches yet.
fn check(pid: Pid) -> anyhow::Result<()> {
    // The threads of a process have files, too, although no listing shows them.
    if let Ok(status) = Status::of_process(pid)
        && status.tgid != pid
    {
        let process = status.tgid;
        bail!("{pid} is a thread of process {process}; watch that: gwp-race attach {process}");
    }
    check_is_program(pid)?;
    if let Some(tracer) = Tracer::of(pid) {
        bail!(tracer.told(pid));
    }
    Ok(())
}

/// What is to be known of a process that somebody attaches to; `namespace` is its pid namespace, as `/proc/PID/ns/pid` names it.
///
/// In a container the program itself is often process 1, and a process like any other.
#[must_use]
pub fn caution(pid: u32, namespace: Option<&str>) -> Option<&'static str> {
    /// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`: the namespace that was there first.
    const FIRST: &str = "pid:[4026531836]";
    (pid == 1 && namespace == Some(FIRST)).then_some(
        "process 1 is the machine's init: services wait while it is held, and whatever it starts is watched as well; give --follow-forks no, \
         or watch the service itself",
    )
}

/// The pid namespace of a process.
#[must_use]
pub fn namespace(pid: u32) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> Called {
        Called {
            pid: Pid::from_raw(pid),
            start_ticks: 5,
            program: (pid != 9).then(|| "/opt/my\nserver".into()),
        }
    }

    /// Check which arguments are ids, which are names, and which are neither.
    #[test]
    fn arguments() {
        assert_eq!(Wanted::parse("1"), Ok(Wanted::Id(1)));
        assert_eq!(Wanted::parse("2147483647"), Ok(Wanted::Id(2_147_483_647)));
        for name in ["server", "7zip", "a b", "-1", "1.5"] {
            assert_eq!(Wanted::parse(name), Ok(Wanted::Name(name.to_owned())));
        }
        for neither in ["", "0", "2147483648", "99999999999", "./server", "/bin/x"] {
            assert!(Wanted::parse(neither).is_err(), "{neither}");
        }
    }

    /// Check that a name means a process where one alone has it, and what is said where none or several do.
    #[test]
    fn names() {
        let found = one_of("server", &[process(7)]);
        let expected = Found {
            pid: 7,
            start_ticks: Some(5),
        };
        assert_eq!(found, Ok(expected));
        let none = one_of("server", &[]).unwrap_err();
        assert!(
            none.starts_with("no process is called server; give the id of one (a number)"),
            "{none}"
        );
        let several = one_of("server", &[process(7), process(9)]).unwrap_err();
        assert_eq!(
            several,
            "2 processes are called server; give the id of one of them, say: gwp-race attach 7\n\
             7 /opt/my\u{fffd}server\n9 which you may not look into"
        );
        let many: Vec<_> = (10..100).map(process).collect();
        let many = one_of("server", &many).unwrap_err();
        assert_eq!(many.lines().count(), 22);
        assert!(many.ends_with("and 70 more"), "{many}");
    }

    /// Check that a process which was there when it was found is told as gone once another one has its id.
    #[test]
    fn who_has_ended_is_told() {
        let own = std::process::id();
        let found = Found {
            pid: own,
            start_ticks: start_ticks(own),
        };
        assert!(found.check_lives().is_ok());
        let other = Found {
            start_ticks: Some(1),
            ..found
        };
        assert!(other.check_lives().unwrap_err().is_vanished());
    }

    /// Check that the machine's init is cautioned of, and neither other processes nor the first one of a container.
    #[test]
    fn init_is_special() {
        let first = Some("pid:[4026531836]");
        assert!(caution(1, first).is_some());
        assert_eq!(caution(7, first), None);
        assert_eq!(caution(1, Some("pid:[4026532001]")), None);
        assert_eq!(caution(1, None), None);
        assert!(namespace(std::process::id()).is_some_and(|text| text.starts_with("pid:[")));
    }
}
