//! `-h`, `--help` and the manual pages.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output, Stdio},
};

use gwp_race_tests::binary::gwp_race;

fn output(arguments: &[&str]) -> Output {
    let mut command = Command::new(gwp_race());
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Check that `-h` has a line for each option, in 80 columns, and `--help` more than that, with the same options.
#[test]
fn help_is_short_and_long() {
    for command in [
        "run",
        "attach",
        "inspect",
        "doctor",
        "export",
        "suppress",
        "races serve",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let [short, long] =
            ["-h", "--help"].map(|option| stdout(&[&words[..], &[option]].concat()));
        assert!(long.len() > short.len(), "{command}");
        let of_options = || {
            let lines = short.lines().map(str::trim);
            lines.filter(|line| line.starts_with('-'))
        };
        let options: Vec<_> = of_options()
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
            .collect();
        assert!(!options.is_empty(), "{short}");
        for option in options {
            let times = of_options().filter(|line| {
                let mut words = line.split_whitespace();
                words.any(|word| word == option)
            });
            assert_eq!(times.count(), 1, "{command} {option}: {short}");
            assert!(long.contains(option), "{command} {option}: {long}");
        }
        for line in short.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}

/// Check that there is a page for each command, which everybody may read and man(1) shows without a warning; and that a folder which is not there is told.
#[test]
fn manual_pages() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    stdout(&["man", name]);
    let mut pages = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{}", path.display());
        let shown = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(&path)
            .stdin(Stdio::null())
            .output();
        match shown {
            Ok(shown) => {
                let warned = String::from_utf8_lossy(&shown.stderr);
                assert!(shown.status.success() && warned.is_empty(), "{warned}");
                let text = String::from_utf8_lossy(&shown.stdout);
                assert!(text.contains("NAME") && text.contains("SYNOPSIS"), "{text}");
            }
            Err(error) => println!("no man(1): {error}"),
        }
        pages += 1;
    }
    assert!(pages > 8, "{pages}");
    assert!(stdout(&["man"]).contains(".TH gwp-race 1"));
    let failed = output(&["man", &format!("{name}/absent")]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(
        !failed.status.success() && said.contains("absent"),
        "{said}"
    );
}
