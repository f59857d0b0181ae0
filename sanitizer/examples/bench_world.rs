//! Compares planners in simulated programs (`cargo xtask bench world`), and writes what came of it into the documents.
//!
//!     bench_world DOCS [RECORDED]
//!
//! `DOCS` is the folder with `planner.md`; `RECORDED` the file of figures below which the planner must not fall, where those are to be
//! recorded anew.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use gwp_race::hunt::world::report::{Report, priors, recorded, replaced};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let docs = arguments.next().context("say where the documents are")?;
    if let Some(file) = arguments.next() {
        let figures = recorded();
        print!("{figures}");
        fs::write(&file, figures).with_context(|| format!("writing {}", file.display()))?;
    }
    let report = Report::measured();
    println!("{}\n{}", report.tables(), report.summary());
    let page = docs.join("planner.md");
    let mut text =
        fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    for (name, content) in [
        ("priors", priors()),
        ("families", report.families()),
        ("tables", report.tables()),
        ("summary", report.summary()),
    ] {
        text = replaced(&text, name, &content)
            .with_context(|| format!("{} has no place for {name}", page.display()))?;
    }
    fs::write(&page, text).with_context(|| format!("writing {}", page.display()))?;
    let picture = docs.join("world.svg");
    fs::write(&picture, report.picture()).with_context(|| format!("writing {}", picture.display()))
}
