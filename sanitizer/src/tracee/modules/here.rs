//! Modules whose files are read by whoever looks for them.

use std::path::Path;
use std::sync::Arc;

use nix::unistd::Pid;

use super::{Changes, Module, ModuleError, Modules, OpenFile, Reads};
use crate::image::Image;
use crate::tracee::TargetError;

/// Whoever reads them himself: for files that a user names.
pub(super) struct Here;

impl Reads<Image> for Here {
    fn file(&mut self, file: OpenFile<'_>) -> Result<Image, ModuleError> {
        Ok(match file.is_served {
            true => Image::from_served_file(file.file, file.name)?,
            false => Image::from_file(file.file, file.name)?,
        })
    }

    fn bytes(&mut self, bytes: Vec<u8>, name: &Path) -> Result<Image, ModuleError> {
        Ok(Image::parse(bytes, name)?)
    }
}

impl Modules {
    /// Finds the modules of a live process.
    pub fn scan(pid: Pid) -> Result<Self, TargetError> {
        Self::scan_like(pid, &[])
    }

    /// Finds the modules of a live process and shares the images of `known` modules that it has
    /// too: a forked child's are those of its parent.
    pub fn scan_like(pid: Pid, known: &[Arc<Module>]) -> Result<Self, TargetError> {
        Self::scan_by(pid, known, Vec::new(), &mut Here)
    }

    /// Looks again. Costs one read of the memory map where nothing changed.
    pub fn rescan(&mut self) -> Result<Changes, TargetError> {
        self.rescan_with(&mut Here)
    }
}
