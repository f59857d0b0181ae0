//! Commands that ask the daemon: `top`, pauses that end by themselves, and who may ask; and what is said of a configuration.

use std::{
    fs::{self, Permissions, set_permissions},
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
};

use gwp_race_tests::{binary::gwp_race, children::Guarded, machine::Machine, who};

use super::{FAILED, FEW, PATIENCE, Scratch, built, busy, of, until};

/// Check that `top` draws its table again and again, with the processes that may be watched in it; that it ends well when nobody reads it any more, and with the reason when the daemon is gone.
#[test]
fn top_goes_on() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let program = scratch.place(&built("silent/mutex.c"), "quiet");
    let mut daemon = scratch.daemon("log");
    let program = busy(&program, FEW);
    assert!(until(|| of(&scratch.status(), program.pid()).is_some()));
    let (mut unread, lines) = top(&scratch);
    let (mut top, _lines) = top(&scratch);
    let mut tables = 0;
    while tables < 3 {
        let line = lines.recv_timeout(PATIENCE).unwrap();
        tables += usize::from(line.contains("/quiet "));
    }
    drop(lines);
    assert!(unread.wait(PATIENCE).unwrap().success());
    scratch.end(&mut daemon, "log");
    assert_eq!(top.wait(PATIENCE).unwrap().code(), Some(FAILED));
}

/// `top`, and the lines that it has written, until they are dropped.
fn top(scratch: &Scratch) -> (Guarded, Receiver<String>) {
    let mut command = scratch.fleet(&["top"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut top = Guarded::new(command.spawn().unwrap());
    let lines = BufReader::new(top.child().stdout.take().unwrap()).lines();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in lines {
            if line.is_ok_and(|line| sender.send(line).is_err()) {
                return;
            }
        }
    });
    (top, receiver)
}

/// Check that a pause with a time says for how long it still goes on, that another one takes its place, and that it ends when its time is over, which is told.
#[test]
fn pauses_end() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let mut daemon = scratch.daemon("log");
    let said = scratch.ask(&["pause", "--for", "1h"]);
    assert!(said.status.success());
    assert_eq!(said.stdout, b"Nobody is watched for 1h.\n");
    let status = scratch.status();
    assert_eq!(status["held"], "command", "{status:#}");
    assert!(status["held_s"].as_f64() > Some(1800.0), "{status:#}");
    assert!(scratch.ask(&["pause", "--for", "1s"]).status.success());
    assert!(until(|| scratch.log("log").contains("the pause is over")));
    let status = scratch.status();
    assert_ne!(status["held"], "command", "{status:#}");
    assert!(status["held_s"].is_null(), "{status:#}");
    scratch.end(&mut daemon, "log");
}

/// Check that whoever is neither root nor the daemon's own user does not come to its socket, and is refused, whatever he asks for, where he does.
#[test]
fn others_are_refused() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let own = scratch.place(&gwp_race(), "gwp-race");
    open(scratch.0.path(), 0o755);
    let mut daemon = scratch.daemon("log");
    let ask = |words: &[&str]| {
        let mut command = who::ordinary_user(&own, &[]);
        command.arg("fleet").args(words).arg("--config");
        command.arg(scratch.path("fleet.toml")).stdin(Stdio::null());
        command.output().unwrap()
    };
    let is_told = |output: &Output, why: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(FAILED), "{said}");
        assert!(said.contains(why) && output.stdout.is_empty(), "{said}");
    };
    let outside = "only root and the user of the daemon may ask";
    is_told(&ask(&["status"]), outside);
    // Somebody has let everybody in.
    open(&scratch.path("run"), 0o755);
    open(&scratch.path("run/fleet.sock"), 0o666);
    for words in [
        &["status"][..],
        &["top"],
        &["pause"],
        &["resume"],
        &["ignore", "1"],
    ] {
        let refusal = "root and the daemon's own user alone may ask it";
        is_told(&ask(words), refusal);
    }
    let status = scratch.status();
    assert_ne!(status["held"], "command", "{status:#}");
    let log = scratch.end(&mut daemon, "log");
    assert!(!log.contains("`gwp-race fleet pause`"), "{log}");
}

fn open(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Check that who has a configuration checked is told of files that the agent needs and cannot use, with what to do, and of nothing once they can be used.
#[test]
fn files_of_the_agent_are_looked_at() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let config = format!(
        "[agent]\ncollector = \"https://races.example.org:7174\"\ntoken = {:?}\n",
        at("token")
    );
    fs::write(at("fleet.toml"), config).unwrap();
    let check = || {
        let mut command = Command::new(gwp_race());
        let command = command.args(["fleet", "--check", "--config"]);
        let output = command.arg(at("fleet.toml")).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && said.contains("is right"),
            "{said}"
        );
        let mut lines = said.lines().map(str::to_owned);
        lines.find(|line| line.contains("cannot send"))
    };
    let said = check().unwrap();
    let token = at("token");
    let missing = format!("cannot read {}", token.display());
    assert!(
        said.contains(&missing) && said.contains("give it"),
        "{said}"
    );
    fs::write(&token, "two words\n").unwrap();
    set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let said = check().unwrap();
    assert!(said.contains("openssl rand -hex 32"), "{said}");
    fs::write(&token, "5ecre7\n").unwrap();
    assert_eq!(check(), None);
}
