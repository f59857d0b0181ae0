//! `gwp-race doctor`: what this machine allows, what is missing, and the command that mends it.

mod check;
mod file;
mod machine;
mod metadata;
mod process;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use nix::unistd::Pid;
use serde::Serialize;

use crate::cli::debug_files::DebugDirArgs;
use crate::kernel::rights::as_caller;
use crate::report::clean::write_json;

pub use check::{Check, Status};

/// Tells whether races can be caught here, and what to do if not.
///
/// Tries out what `run` and `attach` need of this machine, with the real system calls, on
/// nothing but itself. With a FILE or PID also looks at that program: whether it carries the
/// compiler's metadata, and whether anything stands in the way of watching it. The program is
/// not touched.
///
/// The exit code is 0 where races can be caught and 1 where they cannot; warnings do not count.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race doctor                  this machine
  gwp-race doctor ./server         ... and whether ./server can be watched
  sudo gwp-race doctor 4711        ... and whether process 4711 can
  gwp-race doctor --json | jq '.checks[] | select(.status != \"ok\")'")]
pub struct DoctorArgs {
    /// A program (a path, or a name in PATH) or a process's id
    #[arg(value_name = "FILE|PID")]
    pub subject: Option<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub debug_files: DebugDirArgs,
}

/// What is looked at besides the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    File(PathBuf),
    Process(Pid),
}

impl Subject {
    fn parse(text: &str) -> anyhow::Result<Self> {
        if let Ok(pid) = text.parse::<i32>()
            && pid > 0
        {
            return Ok(Self::Process(Pid::from_raw(pid)));
        }
        if text.contains('/') || Path::new(text).exists() {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let in_path = std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .map(|dir| dir.join(text))
                .find(|file| file.is_file())
        });
        match in_path {
            Some(file) => Ok(Self::File(file)),
            None => bail!(
                "{text} is neither a file, nor a program in PATH, nor a process id; give a path \
                 such as ./{text}, or find the process id with `pgrep -a {text}`"
            ),
        }
    }
}

/// All findings, as `--json` prints them.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    r#type: &'static str,
    schema: u32,
    ok: bool,
    checks: &'a [Check],
}

/// Runs the command.
///
/// # Errors
/// The subject is nothing that can be looked at, or the output cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let subject = args.subject.as_deref();
    let subject = as_caller(|| subject.map(Subject::parse).transpose())??;
    let debug_dirs = args.debug_files.shared()?;
    let mut checks = machine::checks();
    match &subject {
        None => {}
        Some(Subject::File(path)) => checks.extend(as_caller(|| file::checks(path, &debug_dirs))?),
        Some(Subject::Process(pid)) => checks.extend(process::checks(*pid, &debug_dirs)),
    }
    let ok = checks.iter().all(|check| check.status < Status::Fail);
    let mut out = std::io::stdout().lock();
    let written = if args.json {
        let findings = Findings {
            r#type: "doctor",
            schema: 1,
            ok,
            checks: &checks,
        };
        write_json(&findings, &mut out).map_err(std::io::Error::from)
    } else {
        print(&mut out, &checks)
    };
    match written.and_then(|()| writeln!(out)) {
        // A reader that has seen enough (`| head`) is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(out: &mut impl Write, checks: &[Check]) -> std::io::Result<()> {
    for check in checks {
        writeln!(out, "{check}")?;
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    match (count(Status::Fail), count(Status::Warn)) {
        (0, 0) => write!(out, "Races can be caught here."),
        (0, warnings) => write!(
            out,
            "Races can be caught here; {} above.",
            plural(warnings, "warning")
        ),
        (failures, _) => {
            write!(
                out,
                "Races cannot be caught here: {} above to mend.",
                plural(failures, "problem")
            )
        }
    }
}

/// "1 thread", "2 threads".
fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

#[cfg(test)]
mod tests;
