//! `gwp-race man`: the manual pages, made from what `--help` says.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Command, CommandFactory as _};
use clap_mangen::{Man, roff::Roff};

use super::{
    args::{Cli, ManArgs},
    stdout::written,
};
use crate::{kernel::rights::as_caller, report::open_output};

/// Writes them.
///
/// # Errors
/// Fails where a page cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let pages = pages()?;
    let Some(folder) = &args.folder else {
        return written(|out| {
            if let Some((_, page)) = pages.first() {
                out.write_all(page)?;
            }
            Ok(true)
        });
    };
    for (name, page) in pages {
        let path = folder.join(name);
        let mut file = as_caller(|| open_output(&path))??;
        file.write_all(&page)
            .and_then(|()| file.let_all_read())
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names and texts of all pages; the first one is that of gwp-race itself.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let pages = shown(&command).into_iter().map(|one| {
        let name = one.get_display_name().unwrap_or_else(|| one.get_name());
        Ok((format!("{name}.1"), page(one)?))
    });
    pages.collect()
}

/// A command and all below it.
fn shown(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    std::iter::once(command)
        .chain(below.flat_map(shown))
        .collect()
}

/// The page of a command: what stands behind the options in `--help` gets sections of its own, with its lines as they are.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().map(ToString::to_string);
    for part in after.iter().flat_map(|after| after.split("\n\n")) {
        let (heading, lines) = match part.strip_prefix("Examples:\n") {
            Some(examples) => ("EXAMPLES", examples),
            None => ("NOTES", part),
        };
        let mut section = Roff::new();
        section.control("SH", [heading]);
        section.control("nf", []);
        for line in lines.lines() {
            section.text([clap_mangen::roff::roman(line)]);
        }
        section.control("fi", []);
        section.to_writer(&mut page)?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Check that each command that is shown has a page, with its options and examples, and that groff finds nothing to complain of.
    #[test]
    fn pages_are_good() {
        let pages = pages().unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| &**name).collect();
        for name in [
            "gwp-race.1",
            "gwp-race-run.1",
            "gwp-race-races.1",
            "gwp-race-races-list.1",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("__")), "{names:?}");
        for (name, page) in &pages {
            let text = String::from_utf8_lossy(page);
            for heading in ["NAME", "SYNOPSIS", "DESCRIPTION"] {
                assert!(text.contains(&format!(".SH {heading}\n")), "{name}: {text}");
            }
            assert!(!text.contains(".SH EXTRA"), "{name}");
            check_with_groff(name, page);
        }
        let run = pages.iter().find(|(name, _)| name == "gwp-race-run.1");
        let run = String::from_utf8_lossy(&run.unwrap().1).into_owned();
        assert!(run.contains("\\-\\-max\\-overhead") && run.contains(".SH EXAMPLES\n"));
    }

    /// With all warnings, as `man --warnings` calls it. Machines without groff have the rest of the test.
    fn check_with_groff(name: &str, page: &[u8]) {
        let groff = std::process::Command::new("groff")
            .args(["-man", "-ww", "-z", "-Tutf8"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut groff) = groff else {
            println!("there is no groff");
            return;
        };
        groff.stdin.take().unwrap().write_all(page).unwrap();
        let output = groff.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    }
}
