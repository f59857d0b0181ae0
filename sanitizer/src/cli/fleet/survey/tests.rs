//! Verdicts on real processes.

use std::process::Command;

use super::*;
use crate::cli::fleet::{config::Config, dry_run, json};
use crate::reader::testing::header_reader;
use crate::report::schema::{assert_documented, errors, schema_of};
use crate::tracee::testing::{Child, compile};

const WAITS: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main() { puts(\"ready\"); fflush(stdout); pause(); }";
const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";

/// A program that waits, with something in its environment.
fn start(flags: &[&str], variable: Option<&str>) -> Child {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "program", WAITS, flags);
    let mut command = Command::new(program);
    if let Some(value) = variable {
        command.env("GWP_RACE", value);
    }
    let child = Child::start(dir, command);
    child.wait_for_line("ready");
    child
}

fn look(surveyor: &mut Surveyor, child: &Child) -> Found {
    surveyor.look(child.pid().as_raw().cast_unsigned()).unwrap()
}

fn by(text: &str) -> Surveyor {
    let config = Config::parse(text, Path::new("fleet.toml")).unwrap();
    Surveyor::new(config.rules, header_reader())
}

/// Check that metadata, rules and the program's own wish decide as they are to, and that each is told.
#[test]
fn who_is_watched() {
    let covered = start(&[METADATA], None);
    let uncovered = start(&[], None);
    let mut usual = by("");
    let decides = |found: &Found| (found.verdict.watch, found.verdict.reason.name());
    assert_eq!(decides(&look(&mut usual, &covered)), (true, "metadata"));
    assert_eq!(
        decides(&look(&mut usual, &uncovered)),
        (false, "no-metadata")
    );
    let folder = covered.exe();
    let folder = folder.parent().unwrap().display();
    let mut rules = by(&format!(
        "[[rule]]\nwatch = true\nexe = \"{folder}/**\"\n[[rule]]\nwatch = false"
    ));
    let found = look(&mut rules, &covered);
    assert_eq!(decides(&found), (true, "rule"));
    assert_eq!(found.verdict.reason.rule_line(), Some(1));
    let found = look(&mut rules, &uncovered);
    assert_eq!(decides(&found), (false, "rule"));
    assert_eq!(found.verdict.reason.rule_line(), Some(4));
    // The file of a program that goes on may be gone.
    std::fs::remove_file(covered.exe()).unwrap();
    assert_eq!(decides(&look(&mut rules, &covered)), (true, "rule"));
    for (value, expected) in [("off", (false, "opt-out")), ("offline", (true, "metadata"))] {
        let child = start(&[METADATA], Some(value));
        assert_eq!(decides(&look(&mut usual, &child)), expected, "{value}");
    }
}

/// Check that the wish to be left alone is that of the environment with which a program was executed: who is forked has it as well, and who executes another one with the same environment;
/// who executes it without has not, nor has anybody who has written something else over it.
#[test]
fn wishes_are_those_of_the_environment() {
    const PROGRAM: &str = r#"
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        extern char **environ;
        int main(int count, char **arguments) {
            char what = count > 1 ? *arguments[1] : 0;
            if (what == 'u') unsetenv("GWP_RACE");
            if (what == 'u' || what == 'e') execl("/proc/self/exe", arguments[0], (char *)NULL);
            if (what == 'w')
                for (char **one = environ; *one; one++) memset(*one, 'x', strlen(*one));
            if (what == 'f') {
                if (fork()) pause();
                prctl(PR_SET_PDEATHSIG, SIGKILL);
            }
            printf("%d\n", (int)getpid());
            fflush(stdout);
            pause();
        }"#;
    let mut surveyor = by("");
    for (does, expected) in [
        ("forks", (false, "opt-out")),
        ("executes", (false, "opt-out")),
        ("unsets", (true, "metadata")),
        ("writes", (true, "metadata")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(dir.path(), "program", PROGRAM, &[METADATA]);
        let mut command = Command::new(program);
        command.arg(does).env("GWP_RACE", "off");
        let child = Child::start(dir, command);
        let pid = child.read_line().trim().parse().unwrap();
        let verdict = surveyor.look(pid).unwrap().verdict;
        assert_eq!((verdict.watch, verdict.reason.name()), expected, "{does}");
    }
}

/// Check that what is no program is left alone: what has ended, gwp-race itself, and threads of the kernel; that of a process which is gone nothing
/// is said; and that who is traced is left to its tracer.
#[test]
fn who_is_left_alone() {
    let mut surveyor = by("[[rule]]\nwatch = true");
    let mut ended = Child::run("int main() { return 0; }", &[METADATA]);
    ended.wait_for_state('Z');
    assert_eq!(look(&mut surveyor, &ended).kind, Kind::Ended);
    ended.reap();
    let gone = ended.pid().as_raw().cast_unsigned();
    assert!(surveyor.look(gone).is_none());
    let own = surveyor.look(std::process::id()).unwrap();
    assert_eq!((own.kind, own.verdict.watch), (Kind::Own, false));
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert_eq!(surveyor.look(2).unwrap().kind, Kind::Kernel);
    }
    let traced = start(&[METADATA], None);
    assert!(look(&mut surveyor, &traced).verdict.watch);
    nix::sys::ptrace::seize(traced.pid(), nix::sys::ptrace::Options::empty()).unwrap();
    let verdict = look(&mut surveyor, &traced).verdict;
    assert_eq!((verdict.watch, verdict.reason.name()), (false, "traced"));
}

/// Check that all processes are listed, a line each with those that would be watched first, and that the JSON form follows the schema in the documentation
/// (`UPDATE_DOCS=1` writes it).
#[test]
fn fleet_json_follows_the_schema() {
    let covered = start(&[METADATA], None);
    let found = by("").all().unwrap();
    let pid = covered.pid().as_raw().cast_unsigned();
    assert!(found.iter().any(|one| one.pid == pid && one.verdict.watch));
    assert!(found.is_sorted_by_key(|one| one.pid));
    let table = dry_run::table(&found, |_| Some("\u{1b}[2J".to_owned()));
    assert!(!table.contains('\u{1b}'));
    let watched = table.lines().skip(1).map(|line| line.contains("  yes  "));
    assert!(watched.clone().any(|watched| watched));
    assert!(watched.is_sorted_by_key(|watched| !watched), "{table}");

    let schema = schema_of::<json::Versioned<'static>>();
    assert_documented(&schema, "fleet.schema.json");
    let validator = jsonschema::validator_for(schema.as_value()).unwrap();
    let machine = json::Machine {
        takes_part: true,
        processes: 3,
        watched: 1,
        hidden: 0,
    };
    let processes = found
        .iter()
        .map(|one| json::Line::Process(dry_run::line(one)));
    for line in processes.chain([json::Line::Machine(machine)]) {
        let mut written = Vec::new();
        json::write_line(&mut written, &line).unwrap();
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 1);
        let mut line: serde_json::Value = serde_json::from_slice(&written).unwrap();
        let errors = errors(&validator, &line);
        assert!(errors.is_empty(), "{errors:#?}");
        line["type"] = "song".into();
        assert!(!validator.is_valid(&line));
    }
}

/// Check which environments opt out.
#[test]
fn environments() {
    assert!(has_opted_out(b"A=b\0GWP_RACE=off\0C=d\0"));
    assert!(has_opted_out(b"GWP_RACE=off"));
    for environment in [
        &b""[..],
        b"XGWP_RACE=off\0",
        b"GWP_RACE=of\0",
        b"GWP_RACE=off \0",
    ] {
        assert!(!has_opted_out(environment));
    }
}
