//! What has to be known of a file to say where its code is loaded, and who finds that out.

use std::fs::File;
use std::path::Path;

use super::ModuleError;
use crate::image::{Image, Segment};
use crate::kernel::foreign::FileIdentity;

/// What is known of the file of a module. Copies are cheap.
pub trait Contents: Clone {
    /// The parts that are loaded into memory, in the order of the file.
    fn segments(&self) -> &[Segment];
    /// Whether it may be loaded anywhere.
    fn is_position_independent(&self) -> bool;
    /// The linker's build id.
    fn build_id(&self) -> Option<&[u8]>;
}

/// A file that a process has mapped, opened.
pub struct OpenFile<'a> {
    /// The file.
    pub file: File,
    /// Its name as the process sees it.
    pub name: &'a Path,
    /// What told it from another one before it was opened.
    pub identity: FileIdentity,
    /// Whether a process serves the file system that it is in, and may never answer.
    pub is_served: bool,
}

/// Whoever finds out what is known of files.
pub trait Reads<C> {
    /// Whether nobody wants to know any more, so that no file need be looked for.
    fn is_past(&mut self) -> bool {
        false
    }

    /// Whether a file is to be opened, and read.
    ///
    /// # Errors
    /// Says why it would not be read.
    fn may_read(&mut self, _name: &Path, _identity: FileIdentity) -> Result<(), ModuleError> {
        Ok(())
    }

    /// Of a file.
    ///
    /// # Errors
    /// Fails for what is no program or library of this machine, or cannot be read.
    fn file(&mut self, file: OpenFile<'_>) -> Result<C, ModuleError>;

    /// Of what is in no file.
    ///
    /// # Errors
    /// As for a file.
    fn bytes(&mut self, bytes: Vec<u8>, name: &Path) -> Result<C, ModuleError>;
}

impl Contents for Image {
    fn segments(&self) -> &[Segment] {
        self.segments()
    }

    fn is_position_independent(&self) -> bool {
        self.is_position_independent()
    }

    fn build_id(&self) -> Option<&[u8]> {
        self.build_id()
    }
}
