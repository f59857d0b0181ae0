//! gwp-race's JSON, read as a user of the documented form would: not by its own types.

use serde::Deserialize;
use serde_json::Value;

/// One race, as far as the tests look at it.
#[derive(Clone, Debug, Deserialize)]
pub struct Race {
    /// The version of the form.
    pub schema: u32,
    /// What names the race.
    pub fingerprint: String,
    /// What names it in other builds, too.
    #[serde(default)]
    pub identity: Identity,
    /// Whether the baseline has it.
    #[serde(default)]
    pub known: bool,
    /// `plain-plain` or `plain-atomic`.
    pub verdict: String,
    /// The process.
    pub pid: i32,
    /// Its program.
    pub exe: String,
    /// The program's build id.
    pub build_id: Option<String>,
    /// What is at the address.
    pub location: Location,
    /// The stalled side and the racing side.
    pub accesses: [Access; 2],
    /// What is said of it besides.
    pub notes: Vec<String>,
}

/// What names a race in other builds, too.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Identity {
    /// The instructions.
    #[serde(default)]
    pub pair: Option<String>,
    /// The places.
    pub race: String,
    /// The functions.
    pub issue: String,
}

/// What is at the address of a race.
#[derive(Clone, Debug, Deserialize)]
pub struct Location {
    /// `global`, `heap`, `stack` and others.
    pub kind: String,
    /// Its name.
    pub name: Option<String>,
    /// Of a variable: which member.
    #[serde(default)]
    pub member: Option<String>,
    /// How many bytes from its beginning.
    pub offset: Option<i64>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Of a stack: which variable.
    #[serde(default)]
    pub variable: Option<String>,
    /// And of which function.
    #[serde(default)]
    pub function: Option<String>,
    /// The object, by its `type` and `member`.
    #[serde(default)]
    pub object: Option<Value>,
}

/// One side of a race.
#[derive(Clone, Debug, Deserialize)]
pub struct Access {
    /// `stalled` or `racing`.
    pub role: String,
    /// `read`, `write` or `read-write`.
    pub kind: String,
    /// Whether it is atomic.
    pub atomic: bool,
    /// Bytes accessed.
    pub size: u32,
    /// Where its instruction is.
    #[serde(default)]
    pub pc: String,
    /// The module of that.
    #[serde(default)]
    pub module: Option<String>,
    /// The basic block of that.
    #[serde(default)]
    pub block: Option<Value>,
    /// What was live there.
    #[serde(default)]
    pub live_values: Vec<Value>,
    /// The locks that the thread held.
    #[serde(default)]
    pub holds: Vec<Lock>,
    /// The thread.
    pub tid: i32,
    /// Who has created it.
    #[serde(default)]
    pub created_by: Option<Creation>,
    /// The system call in which the kernel makes it.
    #[serde(default)]
    pub system_call: Option<String>,
    /// Whether the compiler may have introduced it.
    #[serde(default)]
    pub introduced_read: bool,
    /// The innermost frame first.
    pub stack: Vec<Frame>,
}

/// Who has created a thread, and where.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Creation {
    /// The thread.
    pub tid: i32,
    /// Its name.
    pub thread_name: String,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// A lock that a thread held.
#[derive(Clone, Debug, Deserialize)]
pub struct Lock {
    /// `mutex` or `rwlock`.
    pub kind: String,
    /// `read` or `write`.
    pub mode: String,
    /// What it is called.
    pub name: Option<String>,
    /// Where it is.
    pub address: String,
}

/// One frame.
#[derive(Clone, Debug, Deserialize)]
pub struct Frame {
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The module.
    pub module: Option<String>,
}

impl Race {
    /// Whether a side's stack has this function.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.accesses.iter().any(|access| access.has_function(name))
    }

    /// Whether both sides are at a line of the source.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        let mut sides = self.accesses.iter();
        sides.all(|side| side.stack.first().is_some_and(|frame| frame.line.is_some()))
    }

    /// Where the sides are, in one line.
    #[must_use]
    pub fn places(&self) -> String {
        let [stalled, racing] = &self.accesses;
        format!(
            "{} / {} ({})",
            stalled.place(),
            racing.place(),
            self.verdict
        )
    }
}

impl Access {
    /// Whether the stack has a function of this name: the whole of it, or its last part.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.stack.iter().any(|frame| frame.is(name))
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> String {
        let Some(frame) = self.stack.first() else {
            return format!("{} nowhere", self.kind);
        };
        let function = frame.function.as_deref().unwrap_or("?");
        let file = frame
            .file
            .as_deref()
            .and_then(|file| file.rsplit('/').next())
            .unwrap_or("?");
        format!(
            "{} in {function} {file}:{}",
            self.kind,
            frame.line.unwrap_or(0)
        )
    }
}

impl Frame {
    /// Whether it is of a function of this name: the whole of it, or its last part.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.function.as_deref().is_some_and(|function| {
            // `shop::Basket::add(unsigned int)`, `static_mut::count_visit`, `add.llvm.123`.
            let function = function.split(['(', '.']).next().unwrap_or(function);
            function == name || function.rsplit("::").next() == Some(name)
        })
    }

    /// Whether it is of a memory routine of the C library, or a variant of one for a processor.
    #[must_use]
    pub fn is_memory_routine(&self) -> bool {
        self.function.as_deref().is_some_and(|function| {
            let name = function.trim_start_matches('_');
            ["memcpy", "memmove", "memset", "strcpy", "strlen"]
                .iter()
                .filter_map(|routine| name.strip_prefix(routine))
                .any(|rest| rest.is_empty() || rest.starts_with('_'))
        })
    }
}

/// Everything that one gwp-race has said.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The races, in the order of their finding.
    pub races: Vec<Race>,
    /// The summary, once it is written.
    pub summary: Option<Value>,
}

impl Report {
    /// Reads all complete lines; the last one may still be being written.
    ///
    /// # Errors
    /// Names the line that is not of the documented form.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut report = Self::default();
        let complete = text
            .rfind('\n')
            .map_or("", |end| text.get(..end).unwrap_or(""));
        for line in complete.lines().filter(|line| !line.is_empty()) {
            let wrong = |cause: &dyn std::fmt::Display| format!("{cause} in: {line}");
            let value: Value = serde_json::from_str(line).map_err(|cause| wrong(&cause))?;
            match value.get("type").and_then(Value::as_str) {
                Some("race") => report
                    .races
                    .push(serde_json::from_value(value).map_err(|cause| wrong(&cause))?),
                Some("summary") => report.summary = Some(value),
                _ => return Err(wrong(&"no known type")),
            }
        }
        Ok(report)
    }

    /// A number of the summary; 0 where there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        let number = self
            .summary
            .as_ref()
            .and_then(|summary| summary.get(name)?.as_f64());
        number.unwrap_or(0.0)
    }

    /// How many hits were not reported for this reason.
    #[must_use]
    pub fn swallowed(&self, reason: &str) -> f64 {
        let summary = self.summary.as_ref();
        let count =
            summary.and_then(|summary| summary.get("hits_swallowed")?.get(reason)?.as_f64());
        count.unwrap_or(0.0)
    }

    /// How often something came of a place that the strategy had chosen, by the end of the decision's name: `contended: hit`, or `: hit`
    /// for any.
    #[must_use]
    pub fn came_to(&self, what: &str) -> f64 {
        let summary = self.summary.as_ref();
        let decisions = summary.and_then(|summary| summary.get("decisions")?.as_object());
        let counts = decisions.into_iter().flatten();
        let counts = counts.filter(|(name, _)| name.ends_with(what));
        // The sum of none would be -0.
        counts
            .filter_map(|(_, count)| count.as_f64())
            .fold(0.0, |sum, count| sum + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACE: &str = r#"{"type":"race","schema":1,"fingerprint":"f","verdict":"plain-plain",
        "pid":1,"exe":"/usr/bin/shop","location":{"kind":"global","name":"shared"},
        "notes":[],"accesses":[
        {"role":"stalled","kind":"write","atomic":false,"size":4,"tid":2,"stack":[
          {"function":"shop::Basket::add(unsigned int)","file":"/a/b.cpp","line":7}]},
        {"role":"racing","kind":"read","atomic":false,"size":4,"tid":3,"stack":[]}]}"#;

    /// Check that races and the summary are read, and a line that is not yet complete is left.
    #[test]
    fn reads_complete_lines() {
        let race = RACE.replace('\n', "");
        let text = format!("{race}\n{{\"type\":\"summary\",\"stalls\":12}}\n{{\"type\":\"ra");
        let report = Report::read(&text).unwrap();
        assert_eq!(report.races.len(), 1);
        assert!(report.races[0].has_function("add"));
        assert!(!report.races[0].has_function("Basket"));
        assert_eq!(
            report.races[0].places(),
            "write in shop::Basket::add(unsigned int) b.cpp:7 / \
             read nowhere (plain-plain)"
        );
        assert!((report.number("stalls") - 12.0).abs() < f64::EPSILON);
    }

    /// Check that what is not of the documented form is an error, not nothing.
    #[test]
    fn other_forms_are_errors() {
        assert!(Report::read("{\"type\":\"race\"}\n").is_err());
        assert!(Report::read("WARNING: data race\n").is_err());
    }
}
