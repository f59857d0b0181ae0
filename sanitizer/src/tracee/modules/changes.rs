//! What differs between two looks at the modules of a process.

use std::sync::Arc;

use super::{Module, Unreadable};
use crate::image::Image;

/// What changed between two looks at a process's modules. A module that is not the same object
/// any more, because its code grew or its file was deleted, is in both lists.
#[derive(Clone, Debug)]
pub struct Changes<C = Image> {
    /// Modules that were not there before.
    pub added: Vec<Arc<Module<C>>>,
    /// Modules that are gone.
    pub removed: Vec<Arc<Module<C>>>,
    /// Code that is none now, or for now, and was not before, with the reason.
    pub unreadable: Vec<Unreadable>,
}

impl<C> Default for Changes<C> {
    fn default() -> Self {
        Self {
            added: Vec::new(),
            removed: Vec::new(),
            unreadable: Vec::new(),
        }
    }
}

impl<C> Changes<C> {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}
