//! The memory routines of a process: where they are in its modules, and what leads to them.

use std::sync::Arc;

use nix::unistd::Pid;

use super::{Loaded, ModuleSet, loaded::sorted};
use crate::{
    addr::{LinkAddr, RuntimeAddr},
    hunt::{
        routines::{Filled, Routines},
        strategy::CodeView as _,
    },
    insn::{Transfer, x86_64},
    tracee::memory,
};

impl ModuleSet {
    /// Looks for memory routines.
    pub(super) fn find_routines(&mut self) {
        let mut routines = Routines::default();
        for loaded in &mut self.loaded {
            let bias = loaded.module.bias;
            let named: Vec<(LinkAddr, String)> = loaded
                .module
                .image
                .declared()
                .functions()
                .map(|(start, name)| (start, name.to_owned()))
                .collect();
            for (start, name) in named {
                if loaded.add_routine(start, &name) {
                    routines.add_entry(start.0.wrapping_add(bias), &name);
                }
            }
        }
        for loaded in &self.loaded {
            let bias = loaded.module.bias;
            for (cell, name) in loaded.module.image.declared().cells() {
                routines.add_cell(cell.0.wrapping_add(bias), name);
            }
            for (cell, name) in loaded.module.image.declared().results() {
                routines.add_result(cell.0.wrapping_add(bias), name);
            }
        }
        self.routines = Arc::new(routines);
    }

    /// Reads the cells that led nowhere yet: those that a program binds lazily are filled by its first call. Whether any lead
    /// to a memory routine now.
    pub(super) fn bind_routines(&mut self, pid: u32) -> bool {
        let pid = Pid::from_raw(pid.cast_signed());
        let read = |address, words: &mut [u8]| {
            matches!(
                memory::read_exact(pid, RuntimeAddr(address), words),
                Ok(true)
            )
        };
        let mut is_news = false;
        for Filled { cell, value, name } in self.routines.newly_filled(read) {
            let leads_to_one = self.add_routine(value, &name);
            Arc::make_mut(&mut self.routines).fill(cell, value, leads_to_one);
            is_news |= leads_to_one;
        }
        is_news
    }

    /// The modules whose code of routines is another one than before.
    pub(super) fn outdated_routines(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        for (index, loaded) in self.loaded.iter_mut().enumerate() {
            let code = sorted(loaded.entries.values());
            if code != loaded.routines {
                Arc::make_mut(loaded).routines = code;
                changed.push(index);
            }
        }
        changed
    }

    fn add_routine(&mut self, entry: u64, name: &str) -> bool {
        let Some(index) = self.index_of(entry) else {
            return false;
        };
        let loaded = self.loaded.get_mut(index);
        loaded.is_some_and(|loaded| {
            let link = LinkAddr(entry.wrapping_sub(loaded.module.bias));
            loaded.add_routine(link, name)
        })
    }

    /// The memory routines of the process.
    #[must_use]
    pub fn routines(&self) -> &Routines {
        &self.routines
    }

    /// The name by which a call or jump leads to a memory routine, and where that begins as far
    /// as that is known yet.
    #[must_use]
    pub fn routine_behind(&self, transfer: Transfer) -> Option<(&str, Option<u64>)> {
        match transfer {
            Transfer::Through(cell) => self.routines.through(cell),
            Transfer::To(target) => match self.routines.entry(target) {
                Some(name) => Some((name, Some(target))),
                None => {
                    let cell = x86_64::stub(self.code(target), target)?;
                    self.routines.through(cell)
                }
            },
        }
    }

    /// The function that a call or a jump leads to, if that writes what it returns into memory of its own.
    #[must_use]
    pub fn result_behind(&self, transfer: Transfer) -> Option<&str> {
        match transfer {
            Transfer::Through(cell) => self.routines.result(cell),
            Transfer::To(target) => {
                let cell = x86_64::stub(self.code(target), target)?;
                self.routines.result(cell)
            }
        }
    }

    /// Whether functions that the program calls may write what they return there: it is a variable of a library without metadata.
    #[must_use]
    pub fn may_hold_results(&self, address: u64) -> bool {
        let is_library = |loaded: &&Arc<Loaded>| loaded.metadata.is_none() && loaded.functions > 0;
        self.routines.have_results()
            && self
                .loaded
                .iter()
                .filter(is_library)
                .any(|loaded| loaded.data().contains(&address))
    }
}
