//! Running commands as steps: each is announced, shows its own output, and says how long it took.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Steps shorter than this need no closing line.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// What `cargo run` leaves in the environment of an xtask; an inner cargo must not see it,
/// or it would use this one's compiler for a crate that needs another.
const OF_OUTER_CARGO: [&str; 4] = [
    "CARGO",
    "RUSTC",
    "RUSTUP_TOOLCHAIN",
    "CARGO_ENCODED_RUSTFLAGS",
];

/// The same of the package that is run: build scripts that listen to one of these would run anew whenever somebody calls cargo by himself.
const OF_PACKAGE: [&str; 3] = ["CARGO_BIN_", "CARGO_MANIFEST_", "CARGO_PKG_"];

/// A cargo in the root of the source tree, free of the environment of the cargo that runs us.
pub fn cargo() -> Command {
    of_root(Command::new("cargo"))
}

/// The same for tests, which send signals to programs: a shell that starts us in the background, or
/// nohup, has some of them ignored, and no program can take that back for a shell that it starts.
pub fn testing_cargo() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,QUIT,HUP", "cargo"]);
    of_root(command)
}

fn of_root(mut command: Command) -> Command {
    command.current_dir(crate::paths::root());
    for variable in OF_OUTER_CARGO {
        command.env_remove(variable);
    }
    let ours = std::env::vars_os().map(|(variable, _)| variable);
    for variable in ours {
        let name = variable.to_string_lossy();
        if OF_PACKAGE.iter().any(|begin| name.starts_with(begin)) {
            command.env_remove(&variable);
        }
    }
    command
}

/// Runs a command with its output shown.
pub fn step(what: &str, command: &mut Command) -> Result<()> {
    heard_step(what, command, None)
}

/// Hears each line of a command's standard output when it comes, and when that is, from the command's start on.
type Hear<'a> = &'a mut dyn FnMut(&str, Duration);

/// Runs a command with its output shown, and heard.
pub fn step_with(what: &str, command: &mut Command, hear: Hear) -> Result<()> {
    heard_step(what, command.stdout(Stdio::piped()), Some(hear))
}

fn heard_step(what: &str, command: &mut Command, hear: Option<Hear>) -> Result<()> {
    println!("==> {what}");
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if let (Some(hear), Some(stdout)) = (hear, child.stdout.take()) {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("reading what {} prints", shown(command)))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            hear(&line, start.elapsed());
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!(
            "{what} failed ({status}); the command was: {}",
            shown(command)
        );
    }
    if start.elapsed() >= WORTH_SAYING {
        println!("    {what}: done in {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// What a command prints to stdout, or `None` where it fails or does not exist.
pub fn answer(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
