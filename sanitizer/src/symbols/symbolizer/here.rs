//! Files that are read in this very process.

use std::io;
use std::sync::Arc;

use crate::symbols::beside::Beside;
use crate::symbols::module::{ModuleInfo, StackSnapshot};
use crate::symbols::question::{Answer, Files, Lack, Question};
use crate::symbols::shelf::Shelf;
use crate::symbols::source::{Known, Sources, opened};

/// Reads files in this process.
#[derive(Default)]
pub(super) struct Here {
    pub(super) sources: Sources,
    pub(super) shelf: Shelf,
}

impl Here {
    /// Forgets what nobody uses any more.
    fn tidy(&mut self) {
        let sources = &self.sources;
        self.shelf.keep(|number| sources.has(number));
    }
}

impl Files for Here {
    fn open(&mut self, module: &ModuleInfo) -> Option<Arc<Known>> {
        let shelf = &mut self.shelf;
        let root = self.sources.root_of(module);
        let opened = opened(module).and_then(|opened| {
            self.sources.open(module, root, opened, |number, source| {
                let opened = source.opened().again()?;
                shelf.open(number, opened, Arc::clone(source) as Arc<dyn Beside>)
            })
        });
        self.tidy();
        let told = |error: &io::Error| tracing::debug!(path = %module.path, %error, "no symbols");
        opened.inspect_err(told).ok()
    }

    fn ask(
        &mut self,
        file: &Known,
        question: Question,
        stack: Option<&StackSnapshot>,
    ) -> Option<Answer> {
        self.shelf.ask(file.number, &question, stack)
    }

    fn look_again(&mut self, file: &Known) {
        file.source.look_again();
        self.shelf.close(file.number);
        let beside = Arc::clone(&file.source) as Arc<dyn Beside>;
        let opened = file.source.opened().again();
        let opened = opened.and_then(|opened| self.shelf.open(file.number, opened, beside));
        if let Err(error) = opened {
            tracing::debug!(path = file.source.name(), %error, "no symbols");
        }
    }

    fn lack(&self, file: &Known) -> Option<Lack> {
        self.shelf.given_up(file.number).map(Lack::Excess)
    }
}
