//! What gwp-race says on standard error. Each message begins with its name, which tells it from what the watched program writes there, and with what kind
//! of message it is.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue};
use nix::sys::stat::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::registry::LookupSpan;

use crate::report::{clean::clean_message, status_line::Stderr};
use crate::store::Address;

/// How a message begins that says nothing but what is so.
const PLAIN: &str = "gwp-race: ";
/// How the message of a failure begins.
pub(super) const ERROR: &str = "gwp-race: error: ";
/// How a warning begins.
const WARNING: &str = "gwp-race: warning: ";
/// How a message begins that maintainers want.
const DEBUG: &str = "gwp-race: debug: ";

/// A field that is not told: lines of `~/.pgpass` that `sqlx` takes for none, with a password as a rule.
const SECRET: &str = "line";

/// How clap's messages of wrong arguments begin.
const OF_CLAP: &str = "error: ";

/// Says something.
pub(super) fn tell(text: &str) {
    say(PLAIN, text);
}

/// Says what has failed.
pub(super) fn tell_error(text: &str) {
    say(ERROR, text);
}

fn say(beginning: &str, text: &str) {
    // There is nobody to tell where standard error is closed.
    let mark = mark(beginning);
    let _ = writeln!(Stderr, "{mark}{beginning}{}", clean_message(text));
}

/// What stands before the beginning of a message, so that systemd's journal knows its level (sd-daemon(3)); nothing where standard error is not the journal's.
pub(super) fn mark(beginning: &str) -> &'static str {
    match beginning {
        _ if !is_journal() => "",
        ERROR => "<3>",
        WARNING => "<4>",
        DEBUG => "<7>",
        _ => "<6>",
    }
}

/// Whether standard error is the journal's: `JOURNAL_STREAM` has device and inode of that, and is inherited by those who have another one (systemd.exec(5)).
fn is_journal() -> bool {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    *IS_JOURNAL.get_or_init(|| match std::env::var("JOURNAL_STREAM") {
        Ok(stream) => fstat(io::stderr())
            .is_ok_and(|file| stream == format!("{}:{}", file.st_dev, file.st_ino)),
        Err(_) => false,
    })
}

/// What is said of wrong arguments; nothing where clap tells something else, such as help.
#[must_use]
pub(super) fn of_arguments(error: &clap::Error) -> Option<String> {
    let mut text = error.render().to_string();
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && Address::is_meant(value)
        && value.contains('@')
    {
        // It may have a password.
        let scheme = value.split(':').next().unwrap_or_default();
        text = text.replace(value, &format!("{scheme}:..."));
    }
    let rest = text.strip_prefix(OF_CLAP)?;
    Some(format!("{ERROR}{rest}"))
}

/// How messages of a level begin.
const fn beginning(level: Level) -> &'static str {
    match level {
        Level::ERROR => ERROR,
        Level::WARN => WARNING,
        Level::INFO => PLAIN,
        _ => DEBUG,
    }
}

/// Events as messages.
struct Messages;

impl<S, N> FormatEvent<S, N> for Messages
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let beginning = beginning(*event.metadata().level());
        writer.write_str(mark(beginning))?;
        writer.write_str(beginning)?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writer.write_str("\n")
    }
}

/// Has events said from now on: with `quiet` errors only, and the more the more often `verbose` was given.
pub(super) fn log_to_stderr(quiet: bool, verbose: u8) {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Stderr)
        // Colours are not built in: to ask for them on a terminal would be answered by a panic, or a line of the logger's own.
        .with_ansi(false)
        // It would tell standard error that standard error cannot be written to, by a panic.
        .log_internal_errors(false)
        .fmt_fields(debug_fn(|writer, field, value| {
            let text = clean_message(&format!("{value:?}"));
            if field.name() == "message" {
                write!(writer, "{text}")
            } else if field.name() == SECRET {
                Ok(())
            } else {
                write!(writer, " {field}={text}")
            }
        }))
        .event_format(Messages)
        .init();
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::Cli;

    /// Check that every kind of message begins with the name, and that each is told from the others.
    #[test]
    fn all_begin_with_the_name() {
        let levels = [
            Level::ERROR,
            Level::WARN,
            Level::INFO,
            Level::DEBUG,
            Level::TRACE,
        ];
        let beginnings = levels.map(beginning);
        assert!(beginnings.iter().all(|text| text.starts_with(PLAIN)));
        assert_eq!(beginnings, [ERROR, WARNING, PLAIN, DEBUG, DEBUG]);
    }

    /// Check that wrong arguments are told as other errors are, with what clap advises, and that help is no error.
    #[test]
    fn wrong_arguments() {
        for words in [
            &["attach"][..],
            &["attach", "0"],
            &["attach", "--no-such-option", "1"],
            &["run", "--max-overhead", "0", "--", "true"],
            &["fly"],
        ] {
            let line = std::iter::once(&"gwp-race").chain(words);
            let error = Cli::try_parse_from(line).unwrap_err();
            let text = of_arguments(&error).unwrap();
            assert!(text.starts_with(ERROR), "{text}");
            assert!(!text[ERROR.len()..].contains("error:"), "{text}");
            assert!(text.contains("--help"), "{text}");
        }
        for words in [&["--help"][..], &["attach", "-h"], &["--version"], &[]] {
            let line = std::iter::once(&"gwp-race").chain(words);
            let error = Cli::try_parse_from(line).unwrap_err();
            assert_eq!(of_arguments(&error), None, "{words:?}");
        }
    }
}
