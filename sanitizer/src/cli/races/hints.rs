//! `gwp-race races hints`.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{StoreArgs, now};
use crate::{cli::messages::tell, delivery::hints::made, kernel::rights::as_caller};

/// Write what machines have learned, a file for each build
///
/// The files that a collector (`races serve --ingest`) makes when a machine asks what others have learned of a build, as DIR/NAME/BUILD, for a server of files that answers `GET /v1/hints/NAME/BUILD` in its place. Those that are the same are left as they are, others take their place at once, and none is
/// deleted: run it again every quarter of an hour. They tell where to look first, and have names of files, build ids and figures.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races hints --store postgres://races@db/races --out /srv/www/v1/hints")]
pub struct HintsArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// The folder to write to
    ///
    /// It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

pub fn run(args: &HintsArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let now = now();
    let (mut written, mut same) = (0_u32, 0_u32);
    for module in store.learned_builds(now)? {
        let Some(made) = made(&mut store, &module, now)? else {
            continue;
        };
        let path = args.out.join(&module.name).join(&module.build);
        let is_new = as_caller(|| write(&path, &made.body))?;
        let is_new = is_new.with_context(|| {
            format!(
                "cannot write {}; name a folder in which you may",
                path.display()
            )
        })?;
        *(if is_new { &mut written } else { &mut same }) += 1;
    }
    tell(&format!(
        "{written} files were written to {}, and {same} were the same before",
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all; whether it was another one before.
fn write(path: &Path, body: &[u8]) -> io::Result<bool> {
    if fs::read(path).is_ok_and(|before| before == body) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)?;
    }
    // No build id ends so.
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, body)?;
    fs::rename(unfinished, path)?;
    Ok(true)
}
