//! The side of `gwp-race fleet status` and its like.

use std::{io, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use tokio::{
    net::UnixStream,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{Answer, Asked, LONGEST_ANSWER, Question, VERSION};
use crate::cli::{
    args::{FleetCommand, PauseArgs, StatusArgs},
    fleet::{
        agent,
        config::Config,
        json::{Line, write_line},
        socket::{read, write},
        status::Status,
    },
    list_form::ListForm,
    stdout::{is_broken_pipe, written},
};
use std::io::{IsTerminal as _, Write as _};

/// How long the daemon may take to answer: it answers at once, unless it has no processor.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often `top` asks.
const PERIOD: Duration = Duration::from_secs(1);
/// Puts the cursor of a terminal into the first column of the first line, and erases all (ECMA-48: CUP, ED).
const ERASE: &str = "\x1b[H\x1b[J";

/// Carries out a command.
///
/// # Errors
/// No daemon answers, or it refuses.
pub async fn run(command: &FleetCommand) -> anyhow::Result<ExitCode> {
    match command {
        FleetCommand::Status(StatusArgs { config, format }) => {
            let status = status(&socket(config.config.as_deref())?).await?;
            written(|out| {
                match format {
                    ListForm::Text => out.write_all(status.text().as_bytes())?,
                    ListForm::Json => write_line(out, &Line::Status(&status))?,
                }
                Ok(true)
            })
        }
        FleetCommand::Top(config) => top(&socket(config.config.as_deref())?).await,
        FleetCommand::Pause(PauseArgs { config, time }) => {
            do_so(config.config.as_deref(), Question::Pause(*time)).await
        }
        FleetCommand::Resume(config) => do_so(config.config.as_deref(), Question::Resume).await,
        FleetCommand::Agent(args) => agent::run(args).await,
        FleetCommand::Ignore(args) => {
            let question = Question::Ignore(args.pid);
            do_so(args.config.config.as_deref(), question).await
        }
    }
}

fn socket(named: Option<&Path>) -> anyhow::Result<std::path::PathBuf> {
    Ok(Config::read(named)?.places.socket)
}

async fn do_so(config: Option<&Path>, question: Question) -> anyhow::Result<ExitCode> {
    let socket = socket(config)?;
    match ask(&socket, question).await? {
        Answer::Done(text) => written(|out| {
            writeln!(out, "{text}")?;
            Ok(true)
        }),
        Answer::Refused(why) => bail!(why),
        Answer::Status(_) => bail!("the daemon is another version of gwp-race: restart it"),
    }
}

async fn status(socket: &Path) -> anyhow::Result<Status> {
    match ask(socket, Question::Status).await? {
        Answer::Status(status) => Ok(*status),
        Answer::Refused(why) => bail!(why),
        Answer::Done(_) => bail!("the daemon is another version of gwp-race: restart it"),
    }
}

/// Draws the table each second, until nobody looks any more.
async fn top(socket: &Path) -> anyhow::Result<ExitCode> {
    let erase = if io::stdout().is_terminal() {
        ERASE
    } else {
        ""
    };
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let text = format!("{erase}{}", status(socket).await?.text());
        let mut out = io::stdout().lock();
        let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match done.map_err(anyhow::Error::from) {
            Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
            done => done?,
        }
    }
}

/// Asks the daemon that listens to a socket.
///
/// # Errors
/// Nobody answers.
pub async fn ask(socket: &Path, question: Question) -> anyhow::Result<Answer> {
    let name = socket.display();
    let mut stream = UnixStream::connect(socket).await.map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::PermissionDenied => format!("only root and the user of the daemon may ask by {name}: use sudo"),
            _ => format!("no gwp-race fleet listens to {name}: start one, or name its configuration with --config"),
        };
        anyhow::Error::new(error).context(what)
    })?;
    let version = VERSION;
    let asked = async {
        // Whoever may not ask is told so before he has.
        let written = write(&mut stream, &Asked { version, question }).await;
        let answer = read(&mut stream, LONGEST_ANSWER).await;
        answer.map_err(|error| written.err().unwrap_or(error))
    };
    let answer = timeout(PATIENCE, asked).await;
    let answer = answer.with_context(|| {
        format!("the daemon that listens to {name} does not answer; look at its process with ps(1)")
    })?;
    answer.with_context(|| {
        format!("the daemon that listens to {name} says nothing that can be understood; restart it")
    })
}
