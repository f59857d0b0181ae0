//! What is linked into the program beside its own code, with the licences of it: they ask that their texts and the names of the
//! authors go along with the program. cargo-about finds those of crates; the others are in `beside-crates.txt`.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{TARGET, folder};
use crate::{
    paths,
    steps::{answer, cargo, step},
};

/// The version of cargo-about that looks for them.
const VERSION: &str = "0.9.3";
/// What it is told: the licences that are accepted.
const CONFIGURATION: &str = "xtask/src/dist/licences.toml";
/// What is linked in and is no crate.
const BESIDE_CRATES: &str = include_str!("beside-crates.txt");
/// The file of the package in which Debian looks for licences; it names all of them.
const COPYRIGHT: &str = "sanitizer/debian/copyright";

/// Writes `licences.txt`, and puts what Rust says of its library beside it.
pub fn build() -> Result<()> {
    // cargo-about looks at crates for other systems as well, which no build has fetched; it asks no network for more.
    step(
        "fetching the sources of crates",
        cargo().args(["fetch", "--locked"]),
    )?;
    let found = folder().join("licences.json");
    let mut about = Command::new(super::tool("cargo-about", VERSION, &["--features", "cli"])?);
    about
        .current_dir(paths::root())
        .args(["generate", "--format", "json", "--locked", "--offline"])
        .args(["--target", TARGET, "--manifest-path"])
        .args(["sanitizer/Cargo.toml", "--config", CONFIGURATION])
        .arg("--output-file")
        .arg(&found);
    step(
        "looking for licences of crates (a minute or two)",
        &mut about,
    )?;
    let found = fs::read_to_string(&found).with_context(|| found.display().to_string())?;
    let licences = parse(&found).context("reading what cargo-about has found")?;
    let copyright = fs::read_to_string(paths::root().join(COPYRIGHT)).context(COPYRIGHT)?;
    for licence in &licences {
        ensure!(
            names(&copyright, &licence.id),
            "{} is linked in under the licence {}, which {COPYRIGHT} does not name",
            licence.crates.join(", "),
            licence.id
        );
    }
    let path = folder().join("licences.txt");
    fs::write(&path, text(&licences)).with_context(|| path.display().to_string())?;
    let path = folder().join("rust-standard-library.html");
    let library = of_rusts_library()?;
    fs::copy(&library, &path).with_context(|| format!("copying {}", library.display()))?;
    Ok(())
}

/// A text, and the crates that it comes with.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Licence {
    /// As SPDX has it.
    id: String,
    /// Names and versions; the authors too where the text has no names, since it did not come with the crate.
    crates: Vec<String>,
    text: String,
}

/// What cargo-about has found, always in the same order.
fn parse(json: &str) -> Result<Vec<Licence>> {
    let found: Value = serde_json::from_str(json)?;
    let of = |value: &Value, field: &str| -> Result<String> {
        let text = value[field].as_str();
        Ok(text.with_context(|| format!("no {field}"))?.to_owned())
    };
    let mut licences = Vec::new();
    for licence in found["licenses"].as_array().context("no licenses")? {
        let came_along = licence["source_path"].is_string();
        let mut crates = Vec::new();
        for user in licence["used_by"].as_array().context("no used_by")? {
            let user = &user["crate"];
            let mut name = format!("{} {}", of(user, "name")?, of(user, "version")?);
            let authors = user["authors"].as_array().into_iter().flatten();
            let authors: Vec<&str> = authors.filter_map(Value::as_str).collect();
            if !came_along && !authors.is_empty() {
                let _ = write!(name, " (by {})", authors.join(", "));
            }
            crates.push(name);
        }
        crates.sort();
        licences.push(Licence {
            id: of(licence, "id")?,
            crates,
            text: of(licence, "text")?,
        });
    }
    licences.sort();
    ensure!(!licences.is_empty(), "there are none");
    Ok(licences)
}

/// Whether a text has the name of a licence as a word.
fn names(copyright: &str, id: &str) -> bool {
    let words = copyright.split(|letter: char| letter.is_whitespace() || ",;:()".contains(letter));
    words
        .map(|word| word.trim_end_matches('.'))
        .any(|word| word == id)
}

fn text(licences: &[Licence]) -> String {
    let mut all = BESIDE_CRATES.to_owned();
    let line = "=".repeat(78);
    for licence in licences {
        let _ = write!(all, "\n{line}\n{}:\n", licence.id);
        for name in &licence.crates {
            let _ = writeln!(all, "    {name}");
        }
        let _ = write!(all, "\n{}\n", licence.text.trim_end().replace('\r', ""));
    }
    all
}

/// What comes with the compiler about the licences of the library that it links.
fn of_rusts_library() -> Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    rustc
        .current_dir(paths::root())
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["--print", "sysroot"]);
    let root = answer(&mut rustc).context("rustc does not say where it is")?;
    let file = Path::new(root.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    ensure!(
        file.is_file(),
        "there is no {}, which rustup's compilers have and which has to go along with the program",
        file.display()
    );
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: &str = r#"{"licenses": [
        {"id": "Zlib", "text": "Altered sources\n", "source_path": "/b/LICENSE",
         "used_by": [{"crate": {"name": "b", "version": "1.0.0", "authors": ["B"]}}]},
        {"id": "MIT", "text": "Permission\r\nis granted", "source_path": null,
         "used_by": [{"crate": {"name": "d", "version": "2.0.0", "authors": ["D", "E"]}},
                     {"crate": {"name": "a", "version": "0.1.0", "authors": []}}]}
    ]}"#;

    /// Check that each crate stands above the text of its licence, with its authors where the text does not have them.
    #[test]
    fn written_down() {
        let licences = parse(FOUND).unwrap();
        let line = "=".repeat(78);
        let written = text(&licences);
        assert_eq!(
            written.strip_prefix(BESIDE_CRATES).unwrap(),
            format!(
                "\n{line}\nMIT:\n    a 0.1.0\n    d 2.0.0 (by D, E)\n\nPermission\nis granted\n\
                 \n{line}\nZlib:\n    b 1.0.0\n\nAltered sources\n"
            )
        );
    }

    /// Check that the parts of a name are not taken for it.
    #[test]
    fn named() {
        assert!(names(
            "under the licences MIT and Apache-2.0.",
            "Apache-2.0"
        ));
        assert!(!names("Apache-2.0-only", "Apache-2.0"));
        assert!(!names("PERMIT", "MIT"));
    }
}
