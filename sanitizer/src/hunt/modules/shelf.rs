//! What was read of files of processes that have ended, or execute another program now: kept for the next process that maps one of
//! them, together with its tables, which need not be loaded again then.

use std::sync::Arc;

use super::{Loaded, loaded::Module};
use crate::{
    kernel::{foreign::FileIdentity, tables::Tables},
    symbols::Outlined,
};

/// So many files are kept, those that were left last.
const MOST: usize = 256;
/// What is known of all of them takes no more memory than this, in bytes.
const MOST_BYTES: usize = 32 << 20;
/// One file that takes more than this part of it is not kept: it would leave too little for others.
const PART: usize = 4;

/// See the module.
pub struct Shelf {
    /// In the order in which they were left.
    files: Vec<Arc<Loaded>>,
    most_bytes: usize,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            most_bytes: MOST_BYTES,
        }
    }
}

impl Shelf {
    /// Keeps what was read of a module that a process does not have any more. What cannot be told from another file is not kept, nor what was
    /// cut short while it was read, nor what would fill the shelf by itself.
    pub(super) fn keep(&mut self, loaded: Arc<Loaded>, tables: &mut Tables) {
        for loaded in self.put(loaded) {
            if let Some(table) = loaded.table {
                tables.remove(table);
            }
        }
    }

    /// The same; what is not kept, or not any more.
    fn put(&mut self, loaded: Arc<Loaded>) -> Vec<Arc<Loaded>> {
        let image = &loaded.module.image;
        let is_large = image.bytes() > self.most_bytes / PART;
        if loaded.module.identity.is_none() || image.is_cut() || is_large {
            return vec![loaded];
        }
        // It may be mapped as several modules.
        let is_other = |kept: &Arc<Loaded>| !kept.module.image.is_same(image);
        let (others, mut gone) = self.files.drain(..).partition::<Vec<_>, _>(is_other);
        self.files = others;
        self.files.push(loaded);
        while self.files.len() > MOST || self.bytes() > self.most_bytes {
            gone.push(self.files.remove(0));
        }
        gone
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

#[cfg(test)]
mod tests {
    use super::super::tests::{library_of_lies, mapped};
    use super::*;

    /// Check that those are kept that were left last, as far as there is room, and that what would take too much of it puts nothing else out.
    #[test]
    fn those_that_were_left_last() {
        let (_dir, image) = library_of_lies();
        let loaded = |inode| {
            let mut module = Arc::into_inner(mapped(&image)).unwrap();
            module.identity = (inode > 0).then_some((1, inode, 0, 0, 0));
            Arc::new(Loaded::new(Arc::new(module), &mut Vec::new()))
        };
        let bytes = loaded(1).module.image.bytes();
        assert!(bytes > 0);
        let mut shelf = Shelf {
            most_bytes: bytes * PART + 1,
            ..Shelf::default()
        };
        let inodes = |files: &[Arc<Loaded>]| -> Vec<u64> {
            let identities = files.iter().map(|file| file.module.identity);
            identities.map(|identity| identity.unwrap().1).collect()
        };
        for inode in 1..=4 {
            assert!(shelf.put(loaded(inode)).is_empty());
        }
        assert_eq!(shelf.put(loaded(0)).len(), 1);
        assert_eq!(inodes(&shelf.put(loaded(5))), [1]);
        shelf.most_bytes = bytes * PART - 1;
        assert_eq!(inodes(&shelf.put(loaded(6))), [6]);
        assert_eq!(inodes(&shelf.files), [2, 3, 4, 5]);
    }
}
