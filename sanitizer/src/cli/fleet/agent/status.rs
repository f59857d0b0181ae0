//! `gwp-race fleet agent status`: what the agent keeps, and what was lost.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};

use crate::{
    cli::{
        args::AgentStatusArgs,
        fleet::{
            config::{Config, show},
            json::{Line, write_line},
        },
        list_form::ListForm,
        size::size,
        stdout::written,
    },
    outbox::{Answer, Figures, Question, ask},
    report::clean::clean,
};

/// Asks the agent that runs, and tells what it says.
pub(super) fn run(args: &AgentStatusArgs) -> anyhow::Result<ExitCode> {
    let config = Config::read(args.config.config.as_deref())?;
    let path = args.socket.as_ref().or(config.places.agent.as_ref());
    let path = path.context(
        "no socket is named: write agent = \"/run/gwp-race/agent.sock\" into [export], or use --socket",
    )?;
    let figures = match ask(path, Question::Status)? {
        Answer::Status(figures) => figures,
        Answer::Refused(why) | Answer::Never(why) => bail!(why),
        Answer::Taken | Answer::Hints(_) => {
            bail!("the agent is another version of gwp-race: restart it")
        }
    };
    written(|out| {
        match args.format {
            ListForm::Text => out.write_all(text(&figures).as_bytes())?,
            ListForm::Json => write_line(out, &Line::Agent(&figures))?,
        }
        Ok(true)
    })
}

fn text(figures: &Figures) -> String {
    let sending = match figures.sending {
        Some(number) => format!("; message {number} is being sent"),
        None => String::new(),
    };
    let state = match &figures.failing {
        Some(why) => format!("not taken: {}", clean(why)),
        None => "works".to_owned(),
    };
    let collector = match &*figures.collector {
        "" => "no collector of gwp-race",
        collector => collector,
    };
    let oldest = match figures.oldest_s {
        Some(seconds) => format!("; the oldest for {}", show(&Duration::from_secs(seconds))),
        None => String::new(),
    };
    let mut text = format!(
        "gwp-race fleet agent, outbox {}, to {}: {state}\n\
         kept {} of {}, in {} items{sending}{oldest}\n\
         messages taken {}, refused for good {}, dropped {}\n\
         dropped: {} records of known races, {} counts of what was seen again, {} first sightings, what was learned of {} functions\n\
         since {}: {} races of builds found first, and races caught {} times\n",
        clean(&figures.sender),
        clean(collector),
        size(figures.bytes),
        size(figures.most_bytes),
        figures.items,
        figures.taken,
        figures.refused,
        figures.messages_lost,
        figures.lost_evidence,
        figures.lost_repeats,
        figures.lost_sightings,
        figures.lost_learning,
        clean(&figures.since),
        figures.races,
        figures.caught,
    );
    if figures.let_go > 0 {
        let _ = writeln!(
            text,
            "let go, since nobody was named any more who takes it: {} of what was dropped",
            figures.let_go
        );
    }
    if let Some(otlp) = &figures.otlp {
        let works = |failing: &Option<String>| match failing {
            Some(why) => format!("not taken: {}", clean(why)),
            None => "work".to_owned(),
        };
        let _ = writeln!(
            text,
            "OpenTelemetry, to {}: events {}; figures {}\n\
             events waiting {}, taken {}, refused for good {}, dropped {}",
            clean(otlp),
            works(&figures.events_failing),
            works(&figures.metrics_failing),
            figures.events_waiting,
            figures.events_taken,
            figures.events_refused,
            figures.events_lost,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that all that may be lost is told, and why nothing is taken, in whatever words, in one line.
    #[test]
    fn what_is_told() {
        let figures = Figures {
            collector: "https://host".to_owned(),
            most_bytes: 64 << 20,
            sending: Some(7),
            refused: 3,
            lost_evidence: 11,
            lost_repeats: 12,
            lost_sightings: 13,
            lost_learning: 14,
            failing: Some("no\nroute".to_owned()),
            ..Figures::default()
        };
        let text = text(&figures);
        assert_eq!(text.lines().count(), 5, "{text}");
        for told in [
            "to https://host: not taken: no\\nroute",
            "of 64MiB",
            "message 7 is being sent",
            "refused for good 3, dropped 0",
            "dropped: 11 records of known races, 12 counts of what was seen again, 13 first sightings, what was learned of 14 functions",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        let figures = Figures {
            oldest_s: Some(3600),
            otlp: Some("https://otel".to_owned()),
            events_waiting: 1,
            events_taken: 2,
            events_refused: 3,
            events_lost: 4,
            events_failing: Some("lost\nway".to_owned()),
            messages_lost: 5,
            let_go: 6,
            ..Figures::default()
        };
        let text = super::text(&figures);
        assert_eq!(text.lines().count(), 8, "{text}");
        for told in [
            "to no collector of gwp-race: works",
            "; the oldest for 1h",
            "OpenTelemetry, to https://otel: events not taken: lost\\nway; figures work",
            "events waiting 1, taken 2, refused for good 3, dropped 4",
            "messages taken 0, refused for good 0, dropped 5",
            "since nobody was named any more who takes it: 6 of",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
    }
}
