//! Who runs a program: we ourselves, which is root, or somebody with fewer rights.

use std::{path::Path, process::Command};

/// The user and group `nobody`.
pub const NOBODY: &str = "65534";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Who runs the test.
    Ourselves,
    /// The same without any capability.
    WithoutRights,
    /// `nobody`, with these capabilities.
    OrdinaryUser(&'static [&'static str]),
}

impl Who {
    /// A program that he runs.
    #[must_use]
    pub fn command(self, program: &Path) -> Command {
        match self {
            Self::Ourselves => Command::new(program),
            Self::WithoutRights => with_capabilities(&[], &[], program),
            Self::OrdinaryUser(capabilities) => ordinary_user(program, capabilities),
        }
    }
}

/// A program of `nobody`, who has these capabilities.
#[must_use]
pub fn ordinary_user(program: &Path, capabilities: &[&str]) -> Command {
    let user = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
    with_capabilities(&user, capabilities, program)
}

fn with_capabilities(user: &[&str], capabilities: &[&str], program: &Path) -> Command {
    let mut list = "-all".to_owned();
    for capability in capabilities {
        list += &format!(",+{capability}");
    }
    let mut command = Command::new("setpriv");
    command
        .args(user)
        .arg(format!("--inh-caps={list}"))
        .arg(format!("--ambient-caps={list}"))
        .arg(format!("--bounding-set={list}"))
        .arg(program);
    command
}
