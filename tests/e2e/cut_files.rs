//! Files that are cut short while somebody reads them.

use std::{
    fs::{self, File},
    process::{Command, Stdio},
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Program, Report, Watch,
    chaos::target::waited,
    children::{Guarded, status_field},
    compile,
};

/// What is left of the library: its headers, which the dynamic loader looks at.
const LEFT: u64 = 4096;
const LIMIT: Duration = Duration::from_secs(60);

/// Check that a library which is truncated while its process is watched ends neither the tracer nor the program, and that the program is watched on:
/// its races are found after that as well.
#[test]
fn truncated_libraries_end_nothing() {
    let large = Program::new("libs/large.c");
    let large = compile::shared_library(&large, Configuration::USUAL).unwrap();
    let program = Program::new("conduct/cut_library.c").dynamic();
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let library = scratch.path().join("library.so");
    fs::copy(large, &library).unwrap();
    assert!(library.metadata().unwrap().len() > 8 * LEFT);
    let mut command = Command::new(program);
    command.args(["20", "2"]).env("LARGE_LIBRARY", &library);
    command.stdout(File::create(scratch.path().join("stdout")).unwrap());
    let mut target = Guarded::new(command.stdin(Stdio::null()).spawn().unwrap());
    assert!(waited(|| Ok(status_field(target.pid(), "Threads").as_deref() == Some("3"))).unwrap());

    let output = scratch.path().join("report");
    let watch = Watch::aggressive().option(&["--strategy", "planner", "--duration", "8s"]);
    let mut attach = watch.attach_command(target.pid(), &output);
    let stderr = scratch.path().join("stderr");
    attach.stderr(File::create(&stderr).unwrap());
    let mut gwp_race = Guarded::new(attach.spawn().unwrap());
    let text = || fs::read_to_string(&output).unwrap_or_default();
    assert!(
        waited(|| Ok(text().contains("race"))).unwrap(),
        "{}",
        text()
    );
    File::options()
        .write(true)
        .open(&library)
        .unwrap()
        .set_len(LEFT)
        .unwrap();

    let status = gwp_race.wait(LIMIT).unwrap();
    let said = fs::read_to_string(&stderr).unwrap();
    assert!(status.success(), "{said}");
    assert!(!said.contains("has died"), "{said}");
    let report = Report::read(&text()).unwrap();
    println!("{} stalls; {said}", report.number("stalls"));
    assert!(report.number("races_total") > 1.0, "{report:?}");
    assert!(target.wait(LIMIT).unwrap().success());
    assert_eq!(
        fs::read_to_string(scratch.path().join("stdout")).unwrap(),
        "done\n"
    );
}
