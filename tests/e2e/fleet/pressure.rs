//! Machines that are short of processors.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Command, Stdio},
    thread::{available_parallelism, sleep},
    time::Duration,
};

use gwp_race_tests::machine::Machine;

use super::{FEW, Scratch, built, busy, is_free, is_leased, until};

/// What the kernel tells.
const TOLD: &str = "/proc/pressure/cpu";
/// Above that nobody is watched, in percent.
const HIGH: u32 = 5;
/// It goes on below half of it.
const STILL_HIGH: u32 = 4;
const LOW: u32 = 2;
/// A lease may be over by itself before anybody has seen that the machine is short of something.
const TRIES: usize = 5;
/// So long nobody is watched.
const LOOKS: usize = 15;
const BETWEEN: Duration = Duration::from_millis(200);
/// Busy threads for each processor.
const LOAD: usize = 3;

/// As the kernel writes it (`Documentation/accounting/psi.rst`).
fn psi(percent: u32) -> String {
    format!(
        "some avg10={percent:02}.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
}

/// Check that leases end and none begins while the kernel says that too much waits for processors, until it is well below that, that whoever asks is told, and that nothing is held meanwhile; and that it says so where more threads are busy than there
/// are processors. How busy this machine is depends on others, too: for the first part a file stands where the kernel's does, which the daemon alone sees.
#[test]
fn nobody_is_watched_under_pressure() {
    let _machine = Machine::shared();
    if !Path::new(TOLD).exists() {
        println!("{TOLD} is not there: the kernel does not tell of pressure, and nothing is tried");
        return;
    }
    let scratch = Scratch::new();
    let config = scratch.path("fleet.toml");
    let text = fs::read_to_string(&config).unwrap();
    let usual = "cpu_pressure = \"100%\"";
    assert!(text.contains(usual));
    let text = text.replace(usual, &format!("cpu_pressure = \"{HIGH}%\""));
    fs::write(config, text).unwrap();
    let told = scratch.path("psi");
    // All texts are of one length, and none is looked at while there is nothing.
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(&told)
        .unwrap();
    let say = |percent| file.write_all_at(psi(percent).as_bytes(), 0).unwrap();
    say(LOW);
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" \"$2\" || exit 99; shift 2; exec \"$@\"";
    let fleet = scratch.fleet(&[]);
    command
        .args(["--mount", "--propagation", "private"])
        .args(["sh", "-c", script, "sh"])
        .arg(&told)
        .arg(TOLD)
        .arg(fleet.get_program())
        .args(fleet.get_args())
        .stdin(Stdio::null());
    let program = scratch.place(&built("silent/mutex.c"), "quiet");
    let mut program = busy(&program, FEW);
    let mut daemon = scratch.start(command, "log");

    let is_told = || scratch.log("log").contains(" why=pressure ");
    let mut tries = 0;
    while !is_told() && tries < TRIES {
        tries += 1;
        assert!(
            until(|| is_leased(&scratch.status())),
            "{}",
            scratch.log("log")
        );
        say(HIGH + 1);
        assert!(until(|| scratch.status()["held"] == "pressure"));
        assert!(until(|| !is_leased(&scratch.status())));
        assert!(until(|| is_free(program.pid())));
        say(STILL_HIGH);
        for _ in 0..LOOKS {
            sleep(BETWEEN);
            let status = scratch.status();
            assert_eq!(status["held"], "pressure", "{status:#}");
            assert!(!is_leased(&status), "{status:#}");
        }
        say(LOW);
        assert!(until(|| scratch.status()["held"].is_null()));
    }
    println!("{tries} tries");
    assert!(is_told(), "{}", scratch.log("log"));
    assert!(until(|| is_leased(&scratch.status())));
    scratch.end(&mut daemon, "log");

    // What the kernel itself says.
    let processors = available_parallelism().unwrap().get();
    let threads = (LOAD * processors).to_string();
    let load = busy(&built("races/write_write.c"), &threads);
    let mut daemon = scratch.daemon("again");
    let is_held = until(|| scratch.status()["held"] == "pressure");
    assert!(is_held, "{}", fs::read_to_string(TOLD).unwrap());
    drop(load);
    scratch.end(&mut daemon, "again");
    assert!(program.ended().unwrap().is_none() && is_free(program.pid()));
}
