//! Whether enough was watched for "no race" to let a build pass: a test suite that was compiled without the flags, or that ends before
//! anybody has looked, must not look like a good one.

use std::{ffi::OsStr, fmt, sync::mpsc, time::Duration};

use super::{
    args::{WatchArgs, YesNo},
    rights::found,
};
use crate::{
    kernel::{named, rights::as_caller},
    reader::HeaderReader,
};

/// How long the file of a program may take to be looked at, which may be in a file system that does not answer.
const LOOK: Duration = Duration::from_secs(10);

/// What was there to be watched, and how much of it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Something that was executed carries metadata, whether it was watched or not.
    pub metadata: bool,
    /// Threads that were held before an access.
    pub stalls: u64,
}

/// What was too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Nothing carries metadata.
    Metadata,
    /// There were fewer stalls than are wanted.
    Stalls {
        /// So many were made.
        made: u64,
        /// So many are wanted.
        wanted: u64,
    },
}

impl Lack {
    /// What is too little by what the user asks for.
    #[must_use]
    pub fn of(args: &WatchArgs, seen: Seen) -> Option<Self> {
        let wants_metadata = args
            .require_metadata
            .map_or(args.error_exitcode.is_some(), |wants| wants == YesNo::Yes);
        if wants_metadata && !seen.metadata {
            return Some(Self::Metadata);
        }
        let (made, wanted) = (seen.stalls, args.min_stalls.unwrap_or(0));
        (made < wanted).then_some(Self::Stalls { made, wanted })
    }

    /// The code to exit with: beside that of `--halt-on-race`, and beside those that shells and programs use.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Metadata => 67,
            Self::Stalls { .. } => 68,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata => write!(
                f,
                "nothing that was executed carries metadata, so no race could have been found; compile it with clang \
                 -fexperimental-sanitize-metadata=atomics (see `gwp-race doctor FILE`), or let that pass with --require-metadata=no"
            ),
            Self::Stalls { made, wanted } => write!(
                f,
                "{made} stalls were made and --min-stalls asks for {wanted}, so that nothing was found says too little; let the program \
                 run longer, or raise --max-overhead"
            ),
        }
    }
}

/// Whether the file of a program carries metadata, as it is found by its name: of one that has ended before it was looked at. `reader`: who
/// reads its headers.
#[must_use]
pub fn carries_metadata(program: &OsStr, mut reader: HeaderReader) -> bool {
    let program = program.to_owned();
    let (told, tells) = mpsc::channel();
    let look = move || {
        let opened = as_caller(|| {
            let path = found(&program)?;
            Some((named::open_file(&path).ok()?, path))
        });
        let opened = opened.ok().flatten();
        // Nobody waits any more where it took too long.
        let carries = opened.and_then(|(file, path)| reader.carries(file, &path));
        let _ = told.send(carries == Some(true));
    };
    let thread = std::thread::Builder::new()
        .name("file".to_owned())
        .spawn(look);
    thread.is_ok() && tells.recv_timeout(LOOK).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};
    use crate::reader::testing::header_reader;

    /// Check what is asked for by which options, and that metadata is asked for wherever races fail a build, if not told otherwise.
    #[test]
    fn what_is_asked_for() {
        let nothing = Seen::default();
        let covered = Seen {
            metadata: true,
            stalls: 0,
        };
        let watched = Seen {
            stalls: 10,
            ..covered
        };
        let few = Some(Lack::Stalls {
            made: 0,
            wanted: 10,
        });
        let lacks_metadata = Some(Lack::Metadata);
        for (words, expected) in [
            (&[][..], [None, None, None]),
            (&["--error-exitcode", "9"], [lacks_metadata, None, None]),
            (&["--require-metadata"], [lacks_metadata, None, None]),
            (
                &["--error-exitcode", "9", "--require-metadata=no"],
                [None, None, None],
            ),
            (&["--min-stalls", "10"], [few, few, None]),
            (
                &["--min-stalls", "10", "--require-metadata"],
                [lacks_metadata, few, None],
            ),
        ] {
            let line = ["gwp-race", "run"]
                .iter()
                .chain(words)
                .chain(&["--", "program"]);
            let Ok(Command::Run(run)) = Cli::try_parse_from(line).map(|cli| cli.command) else {
                panic!("{words:?}");
            };
            let found = [nothing, covered, watched].map(|seen| Lack::of(&run.watch, seen));
            assert_eq!(found, expected, "{words:?}");
        }
    }

    /// Check that programs are found as they are executed.
    #[test]
    fn files_of_programs() {
        assert!(!carries_metadata(OsStr::new("true"), header_reader()));
        assert!(!carries_metadata(
            OsStr::new("/nonexistent"),
            header_reader()
        ));
    }
}
