//! Files with secrets: tokens and keys.

use std::{io, path::Path};

use crate::kernel::{named::Named, rights::as_caller};

/// The longest file.
const LONGEST: u64 = 1 << 20;

/// Reads one, unless others could.
///
/// # Errors
/// Says what is wrong with it, and what to do.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let failed = |error: io::Error| anyhow::anyhow!("cannot take {}: {error}", path.display());
    as_caller(|| {
        let file = Named::find(path).map_err(failed)?;
        file.check_readers(path)?;
        file.read_text(LONGEST).map_err(failed)
    })?
}
