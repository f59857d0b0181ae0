//! Whether a process is watched, and why: what it is itself, what the rules say, what code it has, what it asks for.
//!
//! It is decided in steps, so that nobody opens a file of a process that is left alone anyway, or reads the environment of one without
//! metadata: [`wanted`] first, then [`with_code`], then whether it [has opted out](opted_out) or is [traced].

use super::process::{Kind, OPT_OUT};
use super::rule::{Rules, Said};

/// What is found of the code of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// Some of it carries metadata.
    Covered,
    /// None of it does.
    Uncovered,
    /// It is in a file system that another process or another machine serves, of this type.
    Served(String),
    /// It is not for x86-64.
    OtherMachine,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// It cannot be read now, for want of descriptors or memory.
    Short(String),
}

/// Why a process is watched, or left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is no process that executes a program.
    NoProgram(&'static str),
    /// It may not be looked into.
    Hidden,
    /// It asks for it.
    OptOut,
    /// By the rules.
    Rules(Said),
    /// Its code is not to be had.
    Code(Code),
    /// Another process traces it, in these words.
    Traced(String),
}

/// What becomes of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is watched.
    pub watch: bool,
    /// Why.
    pub reason: Reason,
}

impl Verdict {
    /// Whether it may be another one as soon as there are descriptors and memory again.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self.reason, Reason::Code(Code::Short(_)))
    }

    const fn left(reason: Reason) -> Self {
        Self {
            watch: false,
            reason,
        }
    }
}

/// Whether it is to be watched if its code carries metadata, by all that is known without its files.
///
/// # Errors
/// The verdict is that it is left alone.
pub fn wanted(kind: &Kind, rules: &Rules) -> Result<Said, Verdict> {
    let process = match kind {
        Kind::Program(process) => process,
        Kind::Kernel => return Err(Verdict::left(Reason::NoProgram("a thread of the kernel"))),
        Kind::Ended => {
            let what = "it has ended, and its parent has not waited for it";
            return Err(Verdict::left(Reason::NoProgram(what)));
        }
        Kind::Own => return Err(Verdict::left(Reason::NoProgram("it is gwp-race itself"))),
        Kind::Hidden => return Err(Verdict::left(Reason::Hidden)),
    };
    match rules.of(process) {
        said if said.is_watched() => Ok(said),
        said => Err(Verdict::left(Reason::Rules(said))),
    }
}

/// The verdict on one that is [`wanted`], with the code that it has.
#[must_use]
pub fn with_code(said: Said, code: Code) -> Verdict {
    match code {
        Code::Covered => Verdict {
            watch: true,
            reason: Reason::Rules(said),
        },
        code => Verdict::left(Reason::Code(code)),
    }
}

/// The verdict on one that has [`OPT_OUT`] in its environment.
#[must_use]
pub const fn opted_out() -> Verdict {
    Verdict::left(Reason::OptOut)
}

/// The verdict on one that is traced by somebody else, which only one can do.
#[must_use]
pub const fn traced(by: String) -> Verdict {
    Verdict::left(Reason::Traced(by))
}

impl Reason {
    /// In words.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::NoProgram(what) => (*what).to_owned(),
            Self::Hidden => "it may not be looked into".to_owned(),
            Self::OptOut => format!("{OPT_OUT} is in its environment"),
            Self::Rules(Said::Nothing) => "it carries metadata".to_owned(),
            Self::Rules(Said::Rule { watch, line }) => {
                let says = if *watch { "true" } else { "false" };
                format!("the rule at line {line} says watch = {says}")
            }
            Self::Rules(Said::NoMatch { watch: true }) => {
                "no rule matches, and none says watch = true".to_owned()
            }
            Self::Rules(Said::NoMatch { watch: false }) => {
                "no rule matches, and another one says watch = true".to_owned()
            }
            Self::Code(Code::Covered) => "it carries metadata".to_owned(),
            Self::Code(Code::Uncovered) => "no file of it carries metadata".to_owned(),
            Self::Code(Code::Served(kind)) => {
                format!("its file is in a file system of type {kind}, in which nothing is opened")
            }
            Self::Code(Code::OtherMachine) => "its code is not for x86-64".to_owned(),
            Self::Code(Code::Unreadable(why) | Code::Short(why)) => {
                format!("its files cannot be read: {why}")
            }
            Self::Traced(by) => by.clone(),
        }
    }

    /// In a word, for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoProgram(_) => "no-program",
            Self::Hidden => "hidden",
            Self::OptOut => "opt-out",
            Self::Rules(Said::Nothing) => "metadata",
            Self::Rules(Said::Rule { .. }) => "rule",
            Self::Rules(Said::NoMatch { .. }) => "no-rule",
            Self::Code(Code::Covered) => "metadata",
            Self::Code(Code::Uncovered) => "no-metadata",
            Self::Code(Code::Served(_)) => "file-system",
            Self::Code(Code::OtherMachine) => "architecture",
            Self::Code(Code::Unreadable(_) | Code::Short(_)) => "unreadable",
            Self::Traced(_) => "traced",
        }
    }

    /// The line of the rule that has decided.
    #[must_use]
    pub const fn rule_line(&self) -> Option<usize> {
        match self {
            Self::Rules(Said::Rule { line, .. }) => Some(*line),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{process::Process, rule::Rule};

    fn process() -> Process {
        Process {
            comm: "server".to_owned(),
            exe: "/srv/server".into(),
            user: 7,
            cgroup: "/".to_owned(),
        }
    }

    /// Check that whatever is no program is left alone, whatever the rules say, and told why.
    #[test]
    fn what_is_no_program() {
        let all = Rules(vec![Rule {
            watch: true,
            exe: None,
            user: None,
            cgroup: None,
            comm: None,
            line: 1,
        }]);
        for (kind, name) in [
            (Kind::Kernel, "no-program"),
            (Kind::Ended, "no-program"),
            (Kind::Own, "no-program"),
            (Kind::Hidden, "hidden"),
        ] {
            let verdict = wanted(&kind, &all).unwrap_err();
            assert!(!verdict.watch);
            assert_eq!(verdict.reason.name(), name);
        }
        assert!(wanted(&Kind::Program(process()), &all).is_ok());
    }

    /// Check that rules come before code, and that whoever is left alone is told why.
    #[test]
    fn what_comes_first() {
        let rule = |watch| {
            Rules(vec![Rule {
                watch,
                exe: None,
                user: None,
                cgroup: None,
                comm: Some("server".to_owned()),
                line: 3,
            }])
        };
        let verdict = wanted(&Kind::Program(process()), &rule(false)).unwrap_err();
        assert_eq!(verdict.reason.rule_line(), Some(3));
        assert!(verdict.reason.told().contains("line 3"));
        let said = wanted(&Kind::Program(process()), &rule(true)).unwrap();
        let verdict = with_code(said, Code::Covered);
        assert!(verdict.watch && verdict.reason.rule_line() == Some(3));
        for code in [
            Code::Uncovered,
            Code::Served("nfs4".to_owned()),
            Code::OtherMachine,
            Code::Unreadable("why".to_owned()),
            Code::Short("why".to_owned()),
        ] {
            let verdict = with_code(said, code.clone());
            assert!(!verdict.watch);
            assert_eq!(verdict.is_passing(), matches!(code, Code::Short(_)));
            assert_eq!(verdict.reason, Reason::Code(code));
        }
        assert!(!traced("gdb".to_owned()).watch && !opted_out().watch);
        assert!(opted_out().reason.told().contains("GWP_RACE=off"));
    }
}
