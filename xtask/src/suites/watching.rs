//! How gwp-race gets between a test suite and the program that it tests.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

/// The environment of a stand-in: without it, it only executes the program.
const OPTIONS: &str = "GWP_RACE_SUITE_OPTIONS";
const REPORTS: &str = "GWP_RACE_SUITE_REPORTS";
const BINARY: &str = "GWP_RACE_SUITE_BINARY";

/// A gwp-race, and where its reports go.
pub struct Watching {
    gwp_race: PathBuf,
    reports: PathBuf,
    options: Vec<String>,
}

/// How a stand-in has its program watched.
pub enum Way {
    /// By `run`: the suite's child is gwp-race, the program is gwp-race's.
    Run,
    /// By `attach`: the suite's child is the program, for suites that compare process ids.
    Attach,
}

impl Watching {
    /// The most aggressive sampling.
    pub fn new(gwp_race: &Path, reports: &Path, sample_period: &str) -> Self {
        let options = [
            "--format",
            "json",
            "--max-overhead",
            "100%",
            "--sample-period",
        ];
        let mut options: Vec<String> = options.map(Into::into).into();
        options.push(sample_period.into());
        Self {
            gwp_race: gwp_race.to_owned(),
            reports: reports.to_owned(),
            options,
        }
    }

    /// Lets a command start its program, the next argument, under gwp-race.
    pub fn prefix(&self, command: &mut Command, report: &str) {
        command.arg(&self.gwp_race).arg("run").args(&self.options);
        command
            .arg("--output")
            .arg(self.reports.join(format!("{report}.json")))
            .arg("--");
    }

    /// Lets the stand-ins below a command have their programs watched.
    pub fn environment(&self, command: &mut Command) {
        command.env(BINARY, &self.gwp_race);
        command.env(REPORTS, &self.reports);
        command.env(OPTIONS, self.options.join(" "));
    }
}

/// Puts a script in the place of a program, which it executes.
pub fn stand_in(program: &Path, way: &Way) -> Result<()> {
    // Its name stays: programs have tests of that.
    let directory = program.with_file_name("real");
    let moved = directory.join(program.file_name().unwrap_or_default());
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    fs::rename(program, &moved).with_context(|| format!("moving {}", program.display()))?;
    let watched = match way {
        Way::Run => format!(
            "exec \"${BINARY}\" run ${OPTIONS} --output \"${REPORTS}/$$.json\" -- \"$real\" \"$@\""
        ),
        // The inner shell ends at once, so that gwp-race is no child that the program could find.
        Way::Attach => format!(
            "(\"${BINARY}\" attach ${OPTIONS} --output \"${REPORTS}/$$.json\" $$ \
             </dev/null >/dev/null 2>\"${REPORTS}/$$.err\" &)\n\
             tries=0\n\
             while grep -q 'TracerPid:\t0' /proc/$$/status && [ $tries -lt 100 ]; do\n\
             tries=$((tries + 1)); sleep 0.05\n\
             done\n\
             exec \"$real\" \"$@\""
        ),
    };
    // Suites ask programs for their help and version, often.
    let script = format!(
        "#!/bin/sh\n\
         real=\"${{0%/*}}/real/${{0##*/}}\"\n\
         case \"${{{BINARY}-}} $*\" in ' '* | *' -h' | *' --help' | *' --version')\n\
         exec \"$real\" \"$@\" ;;\n\
         esac\n\
         {watched}\n"
    );
    fs::write(program, script).with_context(|| format!("writing {}", program.display()))?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    /// Check that a stand-in executes its program by itself, or has gwp-race do it.
    #[test]
    fn stand_ins() -> Result<()> {
        let scratch = paths::target().join(format!("suites/stand_in-{}", std::process::id()));
        fs::create_dir_all(&scratch)?;
        let (program, gwp_race) = (scratch.join("program"), scratch.join("gwp-race"));
        for (path, says) in [(&program, "program"), (&gwp_race, "gwp-race")] {
            fs::write(path, format!("#!/bin/sh\necho {says} $*\n"))?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        stand_in(&program, &Way::Run)?;
        let watching = Watching::new(&gwp_race, &scratch, "1ms");
        let says = |watched: bool, argument: &str| -> Result<String> {
            let mut command = Command::new(&program);
            if watched {
                watching.environment(&mut command);
            }
            let output = command.arg(argument).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let said = [(false, "a"), (true, "-h"), (true, "a")].map(|(w, a)| says(w, a));
        fs::remove_dir_all(&scratch)?;
        let [alone, help, watched] = said.map(Result::unwrap_or_default);
        assert_eq!((alone.as_str(), help.as_str()), ("program a", "program -h"));
        assert!(
            watched.starts_with("gwp-race run --format json"),
            "{watched}"
        );
        assert!(watched.ends_with("/real/program a"), "{watched}");
        Ok(())
    }
}
