//! One thing that the doctor looked at: what it found, and the command that mends it.

use std::fmt;

use serde::Serialize;

use crate::report::clean::clean_message;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Races are caught, with less of something: the finding says what.
    Warn,
    /// The main job cannot run.
    Fail,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        })
    }
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How bad it is.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What mends it, a command where there is one.
    pub mend: Option<String>,
}

impl Check {
    /// All is as it should be.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            found: found.into(),
            mend: None,
        }
    }

    /// Something is missing that the main job can do without.
    pub fn warn(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Warn,
            found: found.into(),
            mend: Some(mend.into()),
        }
    }

    /// The main job cannot run so.
    pub fn fail(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Fail,
            found: found.into(),
            mend: Some(mend.into()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:4}  {}: {}",
            self.status.to_string(),
            self.name,
            clean_message(&self.found)
        )?;
        if let Some(mend) = &self.mend {
            write!(f, "\n      -> {}", clean_message(mend))?;
        }
        Ok(())
    }
}
