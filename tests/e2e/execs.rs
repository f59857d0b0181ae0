//! Programs that execute other programs again and again, from whichever thread, while they are watched.

use std::{
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Link, Outcome, Program, Until, Watch, children::Guarded, compile,
};

/// Tries that catching takes at most: the machine may be busy.
const TRIES: usize = 3;
/// gwp-race ends with the program that it watches, not seconds before.
const WITHIN: Duration = Duration::from_millis(500);

fn storm() -> PathBuf {
    // The same addresses in each of its programs.
    let configuration = Configuration {
        link: Link::NoPie,
        ..Configuration::USUAL
    };
    compile::program(&Program::new("conduct/exec_storm.c"), configuration).unwrap()
}

/// How many programs it was.
fn programs(stdout: &str) -> u32 {
    let number = stdout.split(' ').next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("{stdout}"))
}

/// Check that a process which executes one program after the other, from its first thread, from others and from such as nobody has taken in yet, gets no signal
/// that is not its own, that nothing is reported which there was not, and that a race of the last of them is caught.
#[test]
fn programs_follow_each_other() {
    let program = storm();
    let caught = |attach: bool, how: &str| {
        let Outcome {
            report,
            stdout,
            status,
            stderr,
            ..
        } = if attach {
            let mut command = Command::new(&program);
            command.args(["6", how]).stdout(Stdio::piped());
            let mut target = Guarded::new(command.spawn().unwrap());
            let mut outcome = Watch::aggressive()
                .attach(target.pid(), Until::End)
                .unwrap();
            outcome.stdout =
                std::io::read_to_string(target.child().stdout.take().unwrap()).unwrap();
            // It is watched until it ends, however often another program takes its place meanwhile.
            let ended = target.wait(WITHIN);
            assert!(
                ended.as_ref().is_ok_and(ExitStatus::success),
                "{ended:?}: {}{}",
                outcome.stdout,
                outcome.stderr
            );
            outcome
        } else {
            Watch::aggressive()
                .run(&program, &["6", how], Until::End)
                .unwrap()
        };
        assert!(status.success(), "{how}: {status:?}: {stdout}{stderr}");
        let [stalls, samples] = ["stalls", "samples"].map(|name| report.number(name));
        println!(
            "attach: {attach}, {how}: {} programs, {samples} samples, {stalls} stalls",
            programs(&stdout)
        );
        assert!(programs(&stdout) > 4, "{stdout}");
        assert!(samples > 0.0);
        report
            .races
            .iter()
            .any(|race| race.has_function("increment"))
    };
    for attach in [false, true] {
        assert!(!caught(attach, "none"));
        assert!(
            (0..TRIES).any(|_| caught(attach, "race")),
            "attach: {attach}"
        );
    }
}
