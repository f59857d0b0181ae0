//! Races as one page of HTML, for people with nothing but a browser: no script, no font and no picture, and nothing that is elsewhere, so that it can be read offline,
//! sent on and kept. A page is one whole, so it is written when watching has ended.
//!
//! What the target has named is text, and nothing else: the templates (`sanitizer/templates`) escape all that they are given, when they are compiled (askama does, by
//! their ending), and none of them uses `safe`. What is unseen is shown as in text (`clean`). The page's own content security policy forbids scripts, forms, and whatever is not
//! in the page.

mod page;
mod race;
mod side;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::SystemTime;

use askama::Template as _;

use super::model::Race;
use super::summary::Summary;
use super::writer::{Output, ReportWriter, WriteError};

use page::Page;
pub(crate) use race::RaceView;

/// See the module.
pub struct HtmlWriter {
    output: Output,
    /// A baseline was given: which races are new is known.
    has_baseline: bool,
    races: Vec<Race>,
}

impl HtmlWriter {
    /// Writes to `out`, which errors call `path`. `has_baseline`: that races are not known means that they are new.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, path: impl Into<String>, has_baseline: bool) -> Self {
        Self {
            output: Output::new(out, path),
            has_baseline,
            races: Vec::new(),
        }
    }

    fn write(&mut self, summary: Option<&Summary>) -> Result<(), WriteError> {
        let page = Page::new(&self.races, summary, self.has_baseline, SystemTime::now());
        let text = page.render().map_err(|error| self.output.failed(error))?;
        self.output.write(&text)?;
        self.races.clear();
        Ok(())
    }
}

impl ReportWriter for HtmlWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        self.races.push(race.clone());
        Ok(())
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.write(Some(summary))
    }

    fn without_summary(&mut self) -> Result<(), WriteError> {
        self.write(None)
    }

    fn take_unwritten(&mut self) -> Vec<Race> {
        std::mem::take(&mut self.races)
    }
}
