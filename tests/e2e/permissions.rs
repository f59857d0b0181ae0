//! What gwp-race can do with few rights, and what it says when it has too few.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{
    Configuration, Program, Report, binary,
    chaos::{self, target::Target},
    compile,
};
use tempfile::TempDir;

/// The user and group `nobody`.
const NOBODY: &str = "65534";
/// How often a race may be missed.
const TRIES: u32 = 5;

/// A directory in which an ordinary user can run gwp-race and a racy program.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        open(directory.path(), 0o777);
        let program = Program::new("races/many_threads.c");
        let program = compile::program(&program, Configuration::USUAL).unwrap();
        for (from, name) in [(binary::gwp_race(), "gwp-race"), (program, "racy")] {
            let to = directory.path().join(name);
            fs::copy(from, &to).unwrap();
            open(&to, 0o755);
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// gwp-race as an ordinary user who has these capabilities.
    fn gwp_race(&self, capabilities: &[&str], arguments: &[&str]) -> Output {
        let mut list = "-all".to_owned();
        for capability in capabilities {
            list += &format!(",+{capability}");
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .arg(format!("--inh-caps={list}"))
            .arg(format!("--ambient-caps={list}"))
            .arg(format!("--bounding-set={list}"))
            .arg(self.path("gwp-race"))
            .args(arguments)
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Runs the racy program below gwp-race, and returns the output and the report.
    fn run(&self, capabilities: &[&str]) -> (Output, String) {
        let report = self.path("report");
        let _ = fs::remove_file(&report);
        let (report, racy) = (report.to_str().unwrap(), self.path("racy"));
        let aggressive = ["--max-overhead", "100%", "--sample-period", "1ms"];
        let mut arguments = vec!["run", "--format", "json", "--output", report];
        arguments.extend(aggressive);
        arguments.extend(["--", racy.to_str().unwrap(), "3", "2"]);
        let output = self.gwp_race(capabilities, &arguments);
        (output, fs::read_to_string(report).unwrap_or_default())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Check that CAP_BPF and CAP_PERFMON are all that is needed for programs of one's own.
#[test]
fn two_capabilities_suffice() {
    let place = Place::new();
    for attempt in 1..=TRIES {
        let (output, report) = place.run(&["bpf", "perfmon"]);
        assert!(output.status.success(), "{}", said(&output));
        if let Some(race) = Report::read(&report).unwrap().races.first() {
            println!("caught on try {attempt}: {}", race.places());
            return;
        }
    }
    panic!("not caught in {TRIES} tries");
}

/// Check that with either of them missing, or both, the error says which call was refused and where
/// to look, and that the program was not started.
#[test]
fn too_few_are_named() {
    let place = Place::new();
    for capabilities in [&["bpf"][..], &["perfmon"], &[]] {
        let (output, _) = place.run(capabilities);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("not permitted"), "{said}");
        assert!(said.contains("gwp-race doctor"), "{said}");
        assert_eq!(output.stdout, b"", "the program ran: {said}");
        let doctor = place.gwp_race(capabilities, &["doctor"]);
        let advice = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(!doctor.status.success(), "{advice}");
        assert!(advice.contains("setcap"), "{advice}");
    }
}

/// Check that these capabilities are no way to watch or disturb the processes of others, nor is any
/// command: nothing is seized, nothing armed, nothing stands still, and nothing is told of it.
#[test]
fn processes_of_others_are_out_of_reach() {
    let place = Place::new();
    let mut target = Target::start(&chaos::target::program().unwrap(), 2).unwrap();
    let pid = target.process.pid();
    for capabilities in [&["bpf", "perfmon"][..], &[]] {
        let id = pid.to_string();
        let report = place.path("foreign");
        let report = report.to_str().unwrap();
        let mut attach = vec!["attach", "--duration", "1s", "-o", report];
        attach.push(&id);
        let output = place.gwp_race(capabilities, &attach);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        if !capabilities.is_empty() {
            let refused = said.contains("not allowed") && said.contains("setcap");
            assert!(refused, "{said}");
        }
        assert_eq!(fs::read_to_string(report).unwrap_or_default(), "");
        let inspect = place.gwp_race(capabilities, &["inspect", &id]);
        assert_eq!(inspect.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&inspect.stdout), "");
        // Not traced, not stopped, all breakpoints free, all threads at work.
        assert_eq!(target.board.examine(pid).unwrap(), None);
    }
    target.end().unwrap();
}
