//! A program whose debug information is in a file of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    binary::{fixtures, gwp_race},
    report::Report,
    watch::AGGRESSIVE,
};

/// Servers of tests are asked themselves, whatever stands between this machine and others.
pub const NO_PROXY: [(&str, &str); 1] = [("NO_PROXY", "127.0.0.1")];
/// Runs that a race takes at most.
const TRIES: usize = 5;
/// For how many seconds a program runs.
const SECONDS: &str = "2";

/// See the module. It has one race, of `store_one` and `store_other`.
pub struct Stripped {
    folder: TempDir,
    build_id: String,
}

/// What gwp-race has written and said.
pub struct Run {
    /// The report as JSON.
    pub json: String,
    /// Standard error.
    pub said: String,
}

impl Run {
    /// The report.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::read(&self.json).expect("a report")
    }
}

impl Default for Stripped {
    fn default() -> Self {
        Self::new()
    }
}

impl Stripped {
    /// Builds `whole/program`, `program`, which is stripped, and `program.debug`, which has what is missing there.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn new() -> Self {
        Self::built(&[])
    }

    /// The same in another build.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn other() -> Self {
        Self::built(&["-falign-functions=64"])
    }

    fn built(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tool = |name: &str, words: &[&str]| {
            let output = Command::new(name)
                .args(words)
                .current_dir(&folder)
                .output()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name} {words:?}: {said}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        fs::create_dir(folder.path().join("whole")).expect("a folder");
        let source = fixtures().join("races/write_write.c");
        let source = source.to_str().expect("a name");
        let metadata = "-fexperimental-sanitize-metadata=atomics";
        let flags = ["-g", "-O2", "-pthread", "-w", "-Wl,--build-id=sha1"];
        let rest = [
            metadata,
            "-mllvm",
            "-enable-tail-merge=0",
            "-o",
            "whole/program",
            source,
        ];
        tool("clang-22", &[&flags[..], options, &rest].concat());
        tool(
            "objcopy",
            &["--only-keep-debug", "whole/program", "program.debug"],
        );
        tool("objcopy", &["--strip-all", "whole/program", "program"]);
        let notes = tool("readelf", &["--notes", "program"]);
        let build_id = notes.split("Build ID: ").nth(1).expect("a build id");
        let build_id = build_id.split_whitespace().next().unwrap_or_default();
        Self {
            build_id: build_id.to_owned(),
            folder,
        }
    }

    /// What is in its folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The build id, in hexadecimal.
    #[must_use]
    pub fn build_id(&self) -> &str {
        &self.build_id
    }

    /// Puts the debug file into a folder as GDB's are laid out.
    ///
    /// # Panics
    /// If that fails.
    pub fn lay_out(&self, folder: &Path) {
        let (first, rest) = self.build_id.split_at(2);
        let place = folder.join(".build-id").join(first);
        fs::create_dir_all(&place).expect("a folder");
        let place = place.join(format!("{rest}.debug"));
        fs::copy(self.path("program.debug"), place).expect("a copy");
    }

    /// Watches a program of its folder with these options and variables until its race was caught.
    ///
    /// # Panics
    /// If it is not caught, or watching fails.
    #[must_use]
    pub fn caught(&self, program: &str, options: &[&str], variables: &[(&str, &str)]) -> Run {
        let output = self.path("races.json");
        for _ in 0..TRIES {
            let mut command = Command::new(gwp_race());
            command.arg("run").args(AGGRESSIVE).args(options);
            command.args(["--format", "json", "-o"]).arg(&output);
            command.arg("--").arg(self.path(program)).arg(SECONDS);
            command.env_remove("DEBUGINFOD_URLS").envs(NO_PROXY);
            command.envs(variables.iter().copied());
            let ran = command.stdin(Stdio::null()).output().expect("gwp-race");
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(ran.status.success(), "{said}");
            let json = fs::read_to_string(&output).expect("a report");
            fs::remove_file(&output).expect("removed");
            if json.contains("\"type\":\"race\"") {
                return Run { json, said };
            }
        }
        panic!("not caught in {TRIES} tries");
    }
}
