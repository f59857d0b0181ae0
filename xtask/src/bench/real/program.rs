//! What is measured: a program, how it is built, and how a run of it is watched.

use std::{
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{ROOM, memcached::Memcached, redis::Redis, sqlite::Sqlite};
use crate::{
    fixture, paths,
    source::{self, Tree},
};

/// The programs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// A server with worker threads, and clients of ours.
    Memcached,
    /// A server with threads that read and write for its main one, and clients of ours.
    Redis,
    /// Its own test of threads, threadtest3.
    Sqlite,
}

impl Name {
    /// What is done to it.
    pub fn program(self) -> &'static dyn Program {
        match self {
            Self::Memcached => &Memcached,
            Self::Redis => &Redis,
            Self::Sqlite => &Sqlite,
        }
    }
}

/// A program that is measured.
pub trait Program {
    /// Debian's source package.
    fn package(&self) -> &'static str;
    /// Debian packages that are needed to build it, besides compilers.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }
    /// What it does, as counted by [`Program::run`], and how it was run.
    fn work(&self, load: &Load) -> String;
    /// Builds it in a directory of this build's own.
    fn build(&self, build: Build, tree: &Tree, directory: &Path) -> Result<()>;
    /// Where the program is then, below that directory.
    fn built(&self) -> &'static str;
    /// Fetches and builds it, unless that was done before: the program.
    fn make(&self, build: Build) -> Result<PathBuf> {
        let needs = [self.needs(), build.needs()].concat();
        let tree = source::fetch(ROOM, self.package(), &needs)?;
        let name = build.directory()?;
        let directory = tree.path().with_file_name(&name);
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        tree.once(&name, || self.build(build, &tree, &directory))?;
        Ok(directory.join(self.built()))
    }
    /// How long it runs where it is to run for so long.
    fn lasts(&self, time: Duration) -> Duration {
        time
    }
    /// Clients that it is served with where nobody has said.
    fn clients(&self, _threads: usize) -> usize {
        8
    }
    /// Runs it for so long, without what it takes to start: how much it did in a second.
    fn run(&self, command: Command, load: &Load, time: Duration) -> Result<f64>;
}

/// How much a program has to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Threads of a server.
    pub threads: usize,
    /// Clients, each with a connection.
    pub clients: usize,
}

/// What a program is compiled with.
#[derive(Clone, Copy)]
pub enum Build {
    /// The metadata that gwp-race needs.
    Watched,
    /// ThreadSanitizer.
    Sanitized,
    /// Counters of how often each line is executed.
    Counted,
    /// The recorder.
    Recorded,
}

impl Build {
    /// Its directory's name. With another recorder it is another build.
    fn directory(self) -> Result<String> {
        if !matches!(self, Self::Recorded) {
            return Ok(self.name().to_owned());
        }
        let source = paths::root().join(fixture::RECORDER);
        let mut hasher = DefaultHasher::new();
        fs::read(&source)
            .with_context(|| format!("reading {}", source.display()))?
            .hash(&mut hasher);
        Ok(format!("{}-{:016x}", self.name(), hasher.finish()))
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::Sanitized => "sanitized",
            Self::Counted => "counted",
            Self::Recorded => "recorded",
        }
    }

    /// Debian packages that are needed besides the compiler.
    const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Watched | Self::Recorded => &[],
            Self::Sanitized | Self::Counted => &["libclang-rt-22-dev"],
        }
    }

    /// The linker's.
    pub fn link_flags(self) -> Result<String> {
        let flags = self.flags().to_owned();
        Ok(match self {
            Self::Recorded => format!("{flags} {}", fixture::recorder()?.display()),
            Self::Watched | Self::Sanitized | Self::Counted => flags,
        })
    }

    /// The compiler's.
    pub const fn flags(self) -> &'static str {
        match self {
            Self::Watched => source::METADATA_FLAGS,
            Self::Sanitized => "-O2 -g -fsanitize=thread",
            Self::Counted => "-O2 -g -fprofile-instr-generate -fcoverage-mapping",
            Self::Recorded => source::RECORDED_FLAGS,
        }
    }
}

/// How a program is run.
pub enum Way<'a> {
    /// By itself.
    Plain,
    /// Under this gwp-race, which may cost so much, with more options.
    Watched {
        gwp_race: &'a Path,
        max_overhead: &'a str,
        more: &'a [OsString],
    },
    /// With ThreadSanitizer inside.
    Sanitized,
    /// With counters inside.
    Counted,
}

impl Way<'_> {
    /// The command, and the file that the program, or who watches it, will write.
    pub fn command(&self, program: &Path) -> Result<(Command, PathBuf)> {
        let name = match self {
            Way::Plain => "plain.txt",
            Way::Watched { .. } => "gwp-race.json",
            Way::Sanitized => "thread-sanitizer.txt",
            Way::Counted => "counters.profraw",
        };
        let written = paths::target().join(ROOM).join(name);
        let _ = fs::remove_file(&written);
        let mut command = if let Way::Watched {
            gwp_race,
            max_overhead,
            more,
        } = self
        {
            let mut command = Command::new(gwp_race);
            command.args(["run", "--quiet", "--max-overhead", max_overhead]);
            command.args(["--format", "json", "--output"]).arg(&written);
            command.args(*more).arg("--").arg(program);
            command
        } else {
            Command::new(program)
        };
        command
            .env("LLVM_PROFILE_FILE", &written)
            .env("TSAN_OPTIONS", "exitcode=0:history_size=4")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if matches!(self, Way::Sanitized) {
            let file = fs::File::create(&written)
                .with_context(|| format!("writing {}", written.display()))?;
            command.stderr(file);
        }
        Ok((command, written))
    }
}

/// What was written to a file, as text.
pub fn text(written: &Path) -> Result<String> {
    let bytes = fs::read(written).with_context(|| format!("reading {}", written.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
