//! What was read of files of processes that have ended, or execute another program now: kept for the next process that maps one of
//! them, together with its tables, which need not be loaded again then.

use std::sync::Arc;

use super::{Loaded, loaded::Module};
use crate::{
    kernel::{foreign::FileIdentity, tables::Tables},
    symbols::Outlined,
};

/// So many files are kept, those that were left last.
const MOST: usize = 128;
/// What is known of all of them takes no more memory than this, in bytes.
const MOST_BYTES: usize = 32 << 20;

/// See the module.
#[derive(Default)]
pub struct Shelf {
    /// In the order in which they were left.
    files: Vec<Arc<Loaded>>,
}

impl Shelf {
    /// Keeps what was read of a module that a process does not have any more. What cannot be told from another file is not kept, nor what was
    /// cut short while it was read.
    pub(super) fn keep(&mut self, loaded: Arc<Loaded>, tables: &mut Tables) {
        if loaded.module.identity.is_none() || loaded.module.image.is_cut() {
            return drop_tables(&loaded, tables);
        }
        self.files.push(loaded);
        while self.files.len() > MOST || self.bytes() > MOST_BYTES {
            drop_tables(&self.files.remove(0), tables);
        }
    }

    fn bytes(&self) -> usize {
        let files = self.files.iter().map(|loaded| &loaded.module.image);
        files.map(Outlined::bytes).sum()
    }

    /// The files that are kept, as a look at a process needs them.
    pub(super) fn images(&self) -> Vec<(FileIdentity, Outlined)> {
        let files = self.files.iter();
        files
            .filter_map(|loaded| Some((loaded.module.identity?, loaded.module.image.clone())))
            .collect()
    }

    /// Takes what was read of the file of a module, if it is kept.
    pub(super) fn take(&mut self, module: &Arc<Module>) -> Option<Loaded> {
        let mut files = self.files.iter();
        let index = files.position(|kept| kept.module.image.is_same(&module.image))?;
        let kept = self.files.remove(index);
        Some(kept.of_another(Arc::clone(module)))
    }
}

fn drop_tables(loaded: &Loaded, tables: &mut Tables) {
    if let Some(table) = loaded.table {
        tables.remove(table);
    }
}
