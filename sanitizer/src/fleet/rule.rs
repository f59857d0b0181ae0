//! Which processes an administrator wants watched: rules, of which the first one that matches decides. Without rules, whatever carries
//! metadata is.
//!
//! Where no rule matches, it goes as with `AllowUsers` of sshd_config(5): once a rule names processes that are to be watched, all others
//! are not.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::process::Process;

/// Bytes that the kernel keeps of a process's name (`TASK_COMM_LEN` of `include/linux/sched.h`, less the zero).
pub const COMM: usize = 15;
/// The longest pattern: that of a path (`PATH_MAX` of `include/uapi/linux/limits.h`).
const LONGEST: usize = 4096;

/// A pattern with `*`, `?`, `[...]`, `{a,b}`, as [`globset`] reads it.
#[derive(Clone, Debug)]
pub struct Pattern(GlobMatcher);

impl Pattern {
    /// Of paths: `*` and `?` stand for no `/`, `**` for any folders.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn of_path(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') && !text.starts_with("**") {
            return Err(format!(
                "{text:?} matches no absolute path: begin it with / or **"
            ));
        }
        Self::new(text, true)
    }

    /// Of control groups: `*` stands for anything, so that `*/prod-*` is a group of such a name at any depth, or what is below one.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn of_group(text: &str) -> Result<Self, String> {
        Self::new(text, false)
    }

    fn new(text: &str, slash_is_special: bool) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a pattern has {LONGEST} bytes at most: shorten it"));
        }
        GlobBuilder::new(text)
            .literal_separator(slash_is_special)
            .build()
            .map(|glob| Self(glob.compile_matcher()))
            .map_err(|error| format!("{error}: mend the pattern"))
    }

    fn matches(&self, text: &Path) -> bool {
        self.0.is_match(text)
    }
}

/// A `[[rule]]`: what is said of a process must all be so.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Whether those that match are watched.
    pub watch: bool,
    /// The program's file, as the process sees it.
    pub exe: Option<Pattern>,
    /// The effective user, as this machine counts them.
    pub user: Option<u32>,
    /// The control group.
    pub cgroup: Option<Pattern>,
    /// The name.
    pub comm: Option<String>,
    /// Where it stands in its file, from 1.
    pub line: usize,
}

impl Rule {
    fn matches(&self, process: &Process) -> bool {
        /// What is not said is so.
        fn holds<T>(said: Option<&T>, is_so: impl FnOnce(&T) -> bool) -> bool {
            said.is_none_or(is_so)
        }
        holds(self.exe.as_ref(), |exe| exe.matches(&process.exe))
            && holds(self.user.as_ref(), |&user| user == process.user)
            && holds(self.cgroup.as_ref(), |group| {
                group.matches(process.cgroup.as_ref())
            })
            && holds(self.comm.as_ref(), |comm| **comm == process.comm)
    }
}

/// What rules say of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// There are none.
    Nothing,
    /// The one in this line decides.
    Rule {
        /// Whether it is watched.
        watch: bool,
        /// Of its file, from 1.
        line: usize,
    },
    /// None matches.
    NoMatch {
        /// Whether it is watched.
        watch: bool,
    },
}

impl Said {
    /// Whether it is to be watched.
    #[must_use]
    pub const fn is_watched(self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Rule { watch, .. } | Self::NoMatch { watch } => watch,
        }
    }
}

/// All rules, in their order.
#[derive(Clone, Debug, Default)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// What they say of a process.
    #[must_use]
    pub fn of(&self, process: &Process) -> Said {
        if self.0.is_empty() {
            return Said::Nothing;
        }
        match self.0.iter().find(|rule| rule.matches(process)) {
            Some(rule) => Said::Rule {
                watch: rule.watch,
                line: rule.line,
            },
            None => Said::NoMatch {
                watch: self.0.iter().all(|rule| !rule.watch),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(watch: bool, line: usize) -> Rule {
        Rule {
            watch,
            exe: None,
            user: None,
            cgroup: None,
            comm: None,
            line,
        }
    }

    fn process(exe: &str, comm: &str) -> Process {
        Process {
            comm: comm.to_owned(),
            exe: exe.into(),
            user: 1000,
            cgroup: "/system.slice/prod-web.service".to_owned(),
        }
    }

    /// Check that the first rule that matches decides, and that all that it says must be so.
    #[test]
    fn the_first_one_decides() {
        let server = process("/srv/app/bin/server", "server");
        let mut rules = Rules::default();
        assert_eq!(rules.of(&server), Said::Nothing);
        let mut first = rule(false, 1);
        first.comm = Some("postgres".to_owned());
        let mut second = rule(true, 5);
        second.exe = Some(Pattern::of_path("/srv/**").unwrap());
        second.user = Some(1000);
        second.cgroup = Some(Pattern::of_group("*/prod-*").unwrap());
        rules.0 = vec![first, second.clone(), rule(false, 9)];
        let said = |watch, line| Said::Rule { watch, line };
        assert_eq!(rules.of(&server), said(true, 5));
        let postgres = process("/srv/postgres", "postgres");
        assert_eq!(rules.of(&postgres), said(false, 1));
        assert_eq!(rules.of(&process("/usr/bin/x", "x")), said(false, 9));
        let other_user = Process {
            user: 0,
            ..server.clone()
        };
        assert_eq!(rules.of(&other_user), said(false, 9));
        let other_group = Process {
            cgroup: "/system.slice/test-web.service".to_owned(),
            ..server
        };
        assert_eq!(rules.of(&other_group), said(false, 9));
    }

    /// Check that whoever matches nothing is watched only where no rule names what is to be watched.
    #[test]
    fn where_none_matches() {
        let other = process("/usr/bin/x", "x");
        let mut never = rule(false, 1);
        never.comm = Some("postgres".to_owned());
        let mut rules = Rules(vec![never]);
        assert_eq!(rules.of(&other), Said::NoMatch { watch: true });
        let mut some = rule(true, 2);
        some.user = Some(7);
        rules.0.push(some);
        assert_eq!(rules.of(&other), Said::NoMatch { watch: false });
    }

    /// Check what patterns of paths and of groups match.
    #[test]
    fn patterns() {
        let path = |pattern, path: &str| Pattern::of_path(pattern).unwrap().matches(path.as_ref());
        assert!(path("/srv/**", "/srv/a/b"));
        assert!(!path("/srv/*", "/srv/a/b"));
        assert!(path("/srv/*", "/srv/a"));
        assert!(path("**/server", "/opt/x/server"));
        assert!(path("/opt/{a,b}/[x-z]?", "/opt/b/y1"));
        assert!(!path("/srv/**", "/srvx/a"));
        let group =
            |pattern, group: &str| Pattern::of_group(pattern).unwrap().matches(group.as_ref());
        assert!(group("*/prod-*", "/kubepods.slice/prod-1.slice/cri.scope"));
        assert!(group("/system.slice/*", "/system.slice/x.service"));
        assert!(!group("*/prod-*", "/system.slice/x.service"));
        for wrong in ["srv/*", "/srv/[", "/srv/{a"] {
            assert!(Pattern::of_path(wrong).is_err(), "{wrong}");
        }
        assert!(Pattern::of_group(&"*".repeat(LONGEST + 1)).is_err());
    }
}
