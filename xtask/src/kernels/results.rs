//! What the trials of one boot say, a line of JSON each (`tests/kernels/trial.rs`).

use serde_json::Value;

use super::{boot::End, state::Planned};

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The trial's name.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Whether it came to what it should.
    pub ok: bool,
    /// What it came to.
    pub found: String,
}

/// The first line of a kernel's log that tells of something that must not happen.
fn complaint(log: &str) -> Option<&str> {
    const SIGNS: [&str; 6] = [
        "WARNING: ",
        "BUG: ",
        "Oops: ",
        "general protection fault",
        "blocked for more than",
        "detected stall",
    ];
    let mut lines = log.lines().map(str::trim);
    // Lines of ours have no time in front of them.
    lines.find(|line| line.starts_with('[') && SIGNS.iter().any(|sign| line.contains(sign)))
}

/// The trials of a boot.
#[derive(Clone, Debug, Default)]
pub struct Results {
    rows: Vec<Row>,
    /// What the kernel has locked down, once it has said so.
    lockdown: Option<String>,
    begun: Option<String>,
    are_complete: bool,
}

impl Results {
    /// Hears a line; what is to be printed of it.
    pub fn hear(&mut self, line: &str) -> Option<String> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(lockdown) = text("lockdown") {
            let news = format!("Linux {} runs", text("release").unwrap_or_default());
            self.lockdown = Some(lockdown);
            return Some(news);
        }
        if let Some(name) = text("begun") {
            self.begun = Some(name);
            return None;
        }
        if value.get("end").is_some() {
            self.are_complete = true;
            return None;
        }
        let row = Row {
            name: text("trial")?,
            about: text("about")?,
            ok: value.get("ok")?.as_bool()?,
            found: text("found")?,
        };
        self.begun = None;
        let sign = if row.ok { "" } else { "NOT AS IT SHOULD BE: " };
        let news = format!("{}: {sign}{}", row.name, row.found);
        self.rows.push(row);
        Some(news)
    }

    /// Those of trials that are not made, with the reason.
    pub fn not_tried(planned: &[Planned]) -> Self {
        let row = |planned: &Planned| {
            let lacks = planned.lacks.as_ref()?;
            Some(Row {
                name: planned.name.clone(),
                about: planned.about.clone(),
                ok: true,
                found: format!("not tried: {lacks}"),
            })
        };
        Self {
            rows: planned.iter().filter_map(row).collect(),
            ..Self::default()
        }
    }

    /// The machine has ended. If that was too early, it was in another state than wanted, a trial was not made that should have been, or
    /// its kernel has complained in its log, that is a finding.
    pub fn end(&mut self, end: End, wanted: &str, planned: &[Planned], log: &str) {
        if let Some(complaint) = complaint(log) {
            self.rows.push(Row {
                name: "kernel".to_owned(),
                about: "what the kernel complains of".to_owned(),
                ok: false,
                found: complaint.to_owned(),
            });
        }
        let found = match (self.lockdown.as_deref(), end) {
            (None, End::Off) => "the kernel has not come to start the trials".to_owned(),
            (None, End::TimedOut) => {
                "the kernel has not come to start the trials in time".to_owned()
            }
            (Some(lockdown), _) if lockdown != wanted => {
                format!("it is booted with lockdown={lockdown} instead")
            }
            _ if self.are_complete => return self.miss(planned),
            (_, end) => {
                let how = match end {
                    End::Off => "the machine went off",
                    End::TimedOut => "its time was over",
                };
                match &self.begun {
                    Some(trial) => format!("{how} in the midst of `{trial}`"),
                    None => format!("{how} between two trials"),
                }
            }
        };
        self.rows.push(Row {
            name: "boot".to_owned(),
            about: "the boot".to_owned(),
            ok: false,
            found,
        });
    }

    /// Takes note of trials that should have been made, and were not.
    fn miss(&mut self, planned: &[Planned]) {
        for trial in planned {
            if !self.rows.iter().any(|row| row.name == trial.name) {
                self.rows.push(Row {
                    name: trial.name.clone(),
                    about: trial.about.clone(),
                    ok: false,
                    found: "it was not made".to_owned(),
                });
            }
        }
    }

    /// What came of them, in their order.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = r#"{"lockdown":"none","release":"6.1.0"}"#;
    const RUN: &str = r#"{"trial":"run","about":"`run`","ok":true,"found":"caught"}"#;

    fn ended(lines: &[&str], end: End) -> Vec<Row> {
        let mut results = Results::default();
        for line in lines {
            results.hear(line);
        }
        results.end(end, "none", &[planned("run", None)], "");
        results.into_rows()
    }

    fn planned(name: &str, lacks: Option<&str>) -> Planned {
        Planned {
            name: name.to_owned(),
            about: format!("`{name}`"),
            lacks: lacks.map(str::to_owned),
        }
    }

    /// Check that what cannot be tried is no finding, and says why.
    #[test]
    fn what_is_lacking_is_told() {
        let trials = [
            planned("systemd-stop", Some("no systemd")),
            planned("run", None),
        ];
        let rows = Results::not_tried(&trials).into_rows();
        assert_eq!(rows.len(), 1);
        assert!(
            rows[0].ok && rows[0].found == "not tried: no systemd",
            "{rows:?}"
        );
    }

    /// Check that trials are read, and what else comes through the port is not taken for one.
    #[test]
    fn lines_become_rows() {
        let lines = [
            RELEASE,
            "noise",
            "{}",
            r#"{"begun":"run"}"#,
            RUN,
            r#"{"end":true}"#,
        ];
        let rows = ended(&lines, End::Off);
        assert_eq!(rows.len(), 1);
        assert!(rows[0].ok && rows[0].name == "run" && rows[0].found == "caught");
    }

    /// Check that complaints of the kernel are told from what programs say, and from what is usual.
    #[test]
    fn kernels_complain() {
        let usual = "[    0.1] Linux version 6.1\r\nWARNING: data race\r\n[    1.2] clk: Disabling unused clocks\r\n";
        assert_eq!(complaint(usual), None);
        let warning = "[   12.3] WARNING: CPU: 1 PID: 7 at kernel/events/core.c:1";
        assert_eq!(complaint(&format!("{usual}{warning}\r\n")), Some(warning));
    }

    /// Check that a boot that ends too early, or in another state, is a finding that says so.
    #[test]
    fn incomplete_boots_are_findings() {
        for (lines, end, expected) in [
            (&[][..], End::Off, "has not come to start"),
            (
                &[RELEASE, r#"{"begun":"run"}"#],
                End::TimedOut,
                "in the midst of `run`",
            ),
            (&[RELEASE, RUN], End::Off, "between two trials"),
            (&[RELEASE, r#"{"end":true}"#], End::Off, "it was not made"),
            (
                &[
                    r#"{"lockdown":"integrity","release":"6.1.0"}"#,
                    r#"{"end":true}"#,
                ],
                End::Off,
                "lockdown=integrity instead",
            ),
        ] {
            let rows = ended(lines, end);
            let last = rows.last().unwrap();
            assert!(!last.ok && last.found.contains(expected), "{last:?}");
        }
    }
}
