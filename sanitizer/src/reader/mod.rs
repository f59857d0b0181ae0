//! The reader: a process without rights in which the debug information of watched programs is read, and the headers of the files of all programs of a machine that may be, so that a file that gets the
//! better of those who read it gets nothing with that.
//!
//! The daemon's [`Client`] starts it when first needed, and opens files; the reader gets them as descriptors over its socket and answers
//! questions about them ([`serve()`]). [`HeaderReader`] does the same, with a reader of its own, where headers are all that matters, and a tracer's [`OutlineReader`] has one for each file whose code is sampled. What it wants beside them it says by what it means. It is ended where it does not answer in time, and
//! started anew when it has ended; a file that has ended it three times is read no more.

mod client;
mod code;
pub mod copier;
mod ends;
mod headers;
mod outlines;
mod process;
mod renewed;
mod serve;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod wire;

pub use client::Client;
pub use code::{CodeReader, Unanswered};
pub use ends::Figures;
pub use headers::{HeaderReader, Unidentified};
pub use outlines::{Asking, OutlineReader};
pub use process::Program;
pub use serve::serve;

use std::sync::{Arc, Mutex};

use crate::symbols::{Lack, ModuleInfo, Sources, Symbolizer};

/// Has a reader read this program, as it reads others.
///
/// # Errors
/// Says what has become of it.
pub fn try_out() -> Result<(), String> {
    const END: u64 = 1 << 40;
    let client = Client::new(Program::default(), Sources::default());
    let mut symbolizer = Symbolizer::over(Arc::new(Mutex::new(client)));
    symbolizer.add_module(&ModuleInfo {
        path: "gwp-race".to_owned(),
        via: std::path::PathBuf::from("/proc/self/exe").into(),
        end: END,
        ..ModuleInfo::default()
    });
    // Whatever is there: what matters is that there is an answer.
    let _ = symbolizer.frames(0x1000);
    match symbolizer.lack(0x1000) {
        Some((_, Lack::Unread(why))) => Err(why),
        _ => Ok(()),
    }
}
