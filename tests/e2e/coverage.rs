//! The table of what was looked at says the truth, whatever becomes of gwp-race's own processes.

use std::{
    fs::{self, File},
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program,
    binary::gwp_race,
    chaos::target::waited,
    children::{Guarded, named},
    compile,
    watch::AGGRESSIVE,
};
use nix::sys::signal::{Signal, kill};

/// How long the end may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Check that `--coverage` has what was looked at also when the tracer is ended from outside, and that it is said what is missing.
#[test]
fn coverage_outlives_the_tracer() {
    let scratch = tempfile::tempdir().unwrap();
    let [table, report, stderr] =
        ["table", "report", "stderr"].map(|name| scratch.path().join(name));
    let [to_table, to_report] = [&table, &report].map(|path| path.to_str().unwrap());
    let program =
        compile::program(&Program::new("conduct/many_races.c"), Configuration::USUAL).unwrap();
    let mut command = Command::new(gwp_race());
    command.arg("run").args(AGGRESSIVE);
    command.args(["-vv", "--coverage", to_table, "-o", to_report, "--"]);
    command.arg(program).args(["300", "2"]).stdin(Stdio::null());
    command
        .stdout(Stdio::null())
        .stderr(File::create(&stderr).unwrap());
    let mut watching = Guarded::new(command.spawn().unwrap());
    let said = || fs::read_to_string(&stderr).unwrap();
    assert!(
        waited(|| Ok(said().contains("functions were looked at"))).unwrap(),
        "{}",
        said()
    );
    // On a busy machine the watchdog may have ended one by itself, and the next is on its way.
    let tracer = || named(watching.pid(), "gwp-race-tracer");
    assert!(
        waited(|| Ok(tracer().is_some_and(|tracer| kill(tracer, Signal::SIGKILL).is_ok())))
            .unwrap()
    );
    kill(watching.pid(), Signal::SIGTERM).unwrap();
    watching.wait(LIMIT).unwrap();
    let table = fs::read_to_string(&table).unwrap();
    assert!(table.contains("many_races"), "{table}{}", said());
    assert!(
        said().contains("lacks what was looked at last"),
        "{}",
        said()
    );
}
