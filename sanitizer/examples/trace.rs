//! Reads what a program's recorder has written (`cargo xtask trace`): prints its true races, and what planners find in it.
//!
//!     trace FOLDER PROGRAM SLOWER [KEPT]
//!     trace KEPT
//!
//! `SLOWER`: so many times slower the recorder has made the program. `KEPT`: a file in which all that matters is kept, or was.

use std::{ffi::OsString, fs::File, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use gwp_race::hunt::world::{
    replay::report::{USUAL, planners, races},
    trace::{reading, recorded::Recorded},
};

fn main() -> Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let recorded = match arguments.as_slice() {
        [kept] => {
            let file = File::open(kept)
                .with_context(|| format!("opening {}", PathBuf::from(kept).display()))?;
            Recorded::kept(file)?
        }
        [folder, program, slower, keep @ ..] if keep.len() < 2 => {
            let slower = slower.to_str().and_then(|number| number.parse().ok());
            let slower = slower.context("how many times slower the program was is no number")?;
            let recorded = reading::recorded(folder.as_ref(), program.as_ref(), slower)?;
            if let [keep] = keep {
                recorded.keep(File::create(keep)?)?;
            }
            recorded
        }
        _ => bail!("say what to read"),
    };
    println!("{}", races(&recorded));
    println!("{}", planners(&recorded, &USUAL));
    Ok(())
}
