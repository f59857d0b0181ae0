//! Where debug files are looked for.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use clap::Args;

use crate::{kernel::rights::as_caller, symbols::DebugDirs};

/// See the module.
#[derive(Clone, Debug, Default, Args)]
pub struct DebugDirArgs {
    /// Look for debug files in this folder first
    ///
    /// It is laid out as GDB's manual has it: DIR/.build-id/ab/cdef.debug by the build id, or below DIR the path of the program's folder with the file that its `.gnu_debuglink` names. It is looked into
    /// before /usr/lib/debug (may be given several times). Links in it lead nowhere else. A folder that a process serves (FUSE) is refused, as nothing in it would be
    /// opened.
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
}

impl DebugDirArgs {
    /// The folders.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn dirs(&self) -> anyhow::Result<DebugDirs> {
        as_caller(|| DebugDirs::of_user(&self.debug_dir))?.context(
            "cannot use a folder of --debug-dir; name one that is there and that you may search",
        )
    }

    /// The same for several that look there.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn shared(&self) -> anyhow::Result<Arc<DebugDirs>> {
        self.dirs().map(Arc::new)
    }
}

/// The same, and whether servers are asked.
#[derive(Clone, Debug, Default, Args)]
pub struct DebugFileArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub dirs: DebugDirArgs,

    /// Ask no servers for debug files
    ///
    /// Where DEBUGINFOD_URLS names servers (debuginfod(8)), they are asked for debug files of modules that are seen in races and have none here, by build id, and nothing else is sent. Their files are kept in
    /// DEBUGINFOD_CACHE_PATH (~/.cache/debuginfod_client). DEBUGINFOD_TIMEOUT (10 seconds), DEBUGINFOD_MAXTIME (60 seconds) and DEBUGINFOD_MAXSIZE (536870912 bytes) limit each file.
    #[arg(long)]
    pub no_debuginfod: bool,
}
