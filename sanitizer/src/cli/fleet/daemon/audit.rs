//! A line for each lease that is over, and each control: who was watched, by which rule, for how long, at what cost, and what came of it.

use std::{fmt::Write as _, time::SystemTime};

use super::lease::Lease;
use crate::{
    cli::{
        args::LogForm,
        fleet::json::{AuditedLease, Line, write_line},
        messages::tell,
    },
    report::status_line::Stderr,
};

/// Tells of a lease that is over.
pub fn tell_of(lease: &Lease, form: LogForm) {
    let record = record(lease);
    match form {
        LogForm::Text => tell(&text(&record)),
        // There is nobody to tell where standard error is closed.
        LogForm::Json => drop(write_line(&mut Stderr, &Line::Lease(record))),
    }
}

pub(super) fn record(lease: &Lease) -> AuditedLease<'_> {
    let who = &lease.who;
    let (lasted, ended_at) = match lease.ended {
        Some((ended, at)) => (ended.saturating_sub(lease.began), at),
        None => (Default::default(), SystemTime::now()),
    };
    let time = |time| humantime::format_rfc3339_millis(time).to_string();
    AuditedLease {
        pid: who.pid,
        start_ticks: who.start_ticks,
        comm: &who.comm,
        exe: &who.exe,
        build: lease.build.as_deref(),
        user: who.user,
        cgroup: &who.cgroup,
        container: who.container.as_deref(),
        pod: who.pod.as_deref(),
        rule: &who.rule,
        control: lease.link.is_none(),
        began: time(lease.began_at),
        ended: time(ended_at),
        lasted_s: lasted.as_secs_f64(),
        why: lease.why().map_or("unknown", |why| why.name()),
        said: lease.said.as_deref(),
        share: lease.share,
        most_s: lease.most.as_secs_f64(),
        cost_s: lease.cost.as_secs_f64(),
        stalls: lease.stalls,
        caught: lease.caught,
        new: lease.new,
    }
}

/// As `key=value`, as logfmt has it: what is not known is left out.
fn text(record: &AuditedLease<'_>) -> String {
    let what = if record.control { "control" } else { "lease" };
    let mut line = what.to_owned();
    let mut add = |key: &str, value: &str| {
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
        if !value.is_empty() && value.chars().all(is_plain) {
            // A string takes all that is written to it.
            let _ = write!(line, " {key}={value}");
        } else {
            let _ = write!(line, " {key}={value:?}");
        }
    };
    let seconds = |seconds: f64| format!("{seconds:.3}");
    add("pid", &record.pid.to_string());
    add("start_ticks", &record.start_ticks.to_string());
    add("comm", record.comm);
    add("exe", record.exe);
    add("user", &record.user.to_string());
    add("cgroup", record.cgroup);
    let optional = [
        ("build", record.build),
        ("container", record.container),
        ("pod", record.pod),
        ("said", record.said),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            add(key, value);
        }
    }
    add("rule", record.rule);
    add("began", &record.began);
    add("ended", &record.ended);
    add("lasted_s", &seconds(record.lasted_s));
    add("why", record.why);
    add("share", &record.share.to_string());
    add("most_s", &seconds(record.most_s));
    add("cost_s", &seconds(record.cost_s));
    add("stalls", &record.stalls.to_string());
    add("caught", &record.caught.to_string());
    add("new", &record.new.to_string());
    line
}

#[cfg(test)]
mod tests {
    use std::{rc::Rc, time::Duration};

    use super::*;
    use crate::{
        cli::fleet::{
            daemon::{lease::Why, who::Who},
            json::Versioned,
            status::{LeaseStatus, ProcessStatus, Status},
        },
        fleet::schedule::{ProcessId, Reason},
        report::schema::{errors, schema_of},
    };

    /// Check that leases and what the daemon does follow the schema in the documentation as JSON.
    #[test]
    fn lines_follow_the_schema() {
        let schema = schema_of::<Versioned<'static>>();
        let validator = jsonschema::validator_for(schema.as_value()).unwrap();
        let lease = Lease::new(
            ProcessId(1),
            Rc::default(),
            None,
            Duration::ZERO,
            (Duration::from_secs(1), 0.05),
        );
        let status = Status {
            held: Some("pressure".to_owned()),
            processes: vec![ProcessStatus {
                lease: Some(LeaseStatus::default()),
                ..ProcessStatus::default()
            }],
            ..Status::default()
        };
        for line in [Line::Lease(record(&lease)), Line::Status(&status)] {
            let mut written = Vec::new();
            write_line(&mut written, &line).unwrap();
            let mut line: serde_json::Value = serde_json::from_slice(&written).unwrap();
            let errors = errors(&validator, &line);
            assert!(errors.is_empty(), "{errors:#?}");
            line["type"] = "song".into();
            assert!(!validator.is_valid(&line));
        }
    }

    /// Check that whatever a program calls itself, a line stays one of keys and values.
    #[test]
    fn names_cannot_forge_lines() {
        let who = Who {
            pid: 7,
            exe: "/srv/a b\" why=none\nlease pid=1".to_owned(),
            comm: "x=y".to_owned(),
            rule: "rule:3".to_owned(),
            ..Who::default()
        };
        let most = (Duration::from_millis(1500), 0.05);
        let mut lease = Lease::new(ProcessId(1), Rc::new(who), Some(1), Duration::ZERO, most);
        lease.ends(Why::Scheduled(Reason::Quiet));
        lease.ended = Some((Duration::from_secs(12), SystemTime::UNIX_EPOCH));
        lease.said = Some("no way".to_owned());
        let text = text(&record(&lease));
        let beginning = "lease pid=7 start_ticks=0 comm=\"x=y\" exe=\"/srv/a b\\\" why=none\\nlease pid=1\" user=0 cgroup=\"\" said=\"no way\" rule=rule:3 began=";
        assert!(text.starts_with(beginning), "{text}");
        assert!(text.contains(" ended=1970-01-01T00:00:00.000Z lasted_s=12.000 why=quiet share=0.05 most_s=1.500 cost_s=0.000 "), "{text}");
        assert!(!text.contains('\n'));
        lease.link = None;
        assert!(super::text(&record(&lease)).starts_with("control pid=7 "));
    }
}
