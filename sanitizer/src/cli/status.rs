//! The status line of `run` and `attach`.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::args::{WatchArgs, YesNo};
use super::drawing::{can_draw, show};
use super::form::Format;
use crate::report::{Summary, status_text};

/// Tracers tell their figures as often.
const PERIOD: Duration = Duration::from_secs(1);

/// See the module.
pub struct Status {
    tick: Option<Interval>,
}

impl Status {
    /// A line where one is wanted: on a terminal that no program reads and that the program which is started (`shares`) does not write to, unless the user says
    /// otherwise.
    #[must_use]
    pub fn new(args: &WatchArgs, shares: bool) -> Self {
        let has_tick = is_wanted(args, shares) && can_draw();
        let tick = has_tick.then(|| {
            let mut tick = interval(PERIOD);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tick
        });
        Self { tick }
    }

    /// Waits until the line is to be drawn. May be given up at any time.
    pub async fn is_due(&mut self) {
        match &mut self.tick {
            Some(tick) => drop(tick.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Draws it, where the terminal is still there and not another job's.
    pub fn draw(&self, summary: &Summary) {
        show(Some(&status_text(summary)));
    }

    /// Erases it for good.
    pub fn end(&mut self) {
        if self.tick.take().is_some() {
            show(None);
        }
    }
}

/// Whether a line disturbs nobody on standard error.
#[must_use]
pub fn may_draw(args: &WatchArgs) -> bool {
    !args.quiet && !are_reports_read(args)
}

/// What the options say; the terminal is another matter.
fn is_wanted(args: &WatchArgs, shares: bool) -> bool {
    let by_default = if shares { YesNo::No } else { YesNo::Yes };
    may_draw(args) && args.status.unwrap_or(by_default) == YesNo::Yes
}

/// Whether reports go to standard error in a form that programs read.
#[must_use]
pub fn are_reports_read(args: &WatchArgs) -> bool {
    args.output.is_none() && args.output_fd.is_none() && args.format != Format::Text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};

    /// Check where a line is wanted: beside a program only if the user says so, never in what a program reads, nor where nothing is to be said.
    #[test]
    fn where_it_is_wanted() {
        for (words, attached, beside) in [
            (&[][..], true, false),
            (&["--status=no"], false, false),
            (&["--status=yes"], true, true),
            (&["--status"], true, true),
            (&["-q"], false, false),
            (&["--format", "json"], false, false),
            (&["--format", "json", "--status"], false, false),
            (&["--format", "json", "-o", "races.json"], true, false),
        ] {
            let line = ["gwp-race", "attach"]
                .iter()
                .chain(words)
                .chain(&["--", "1"]);
            let Ok(Command::Attach(args)) = Cli::try_parse_from(line).map(|cli| cli.command) else {
                panic!("{words:?}");
            };
            let found = [false, true].map(|shares| is_wanted(&args.watch, shares));
            assert_eq!(found, [attached, beside], "{words:?}");
        }
    }
}
