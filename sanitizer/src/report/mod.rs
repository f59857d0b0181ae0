//! Races as they are reported: the model, its forms for people and for programs, fingerprints,
//! suppressions, and the closing summary.
//!
//! A [`Finding`] holds raw facts; [`build_race`] resolves it to a [`Race`]; a
//! [`ReportWriter`] prints it at once.

mod add_names;
mod baseline;
mod build;
pub mod clean;
pub mod coverage;
mod database_file;
mod descriptor;
mod doubt;
mod elsewhere;
mod excerpt;
pub mod finding;
mod fingerprint;
mod github;
mod hex;
mod html;
mod identity;
mod location;
mod locks;
mod model;
mod names;
mod output;
mod own_code;
mod programs;
mod record_file;
mod records;
mod review;
mod rule;
#[cfg(test)]
pub(crate) mod sample;
mod sarif;
#[cfg(test)]
pub(crate) mod schema;
mod sighting;
mod source_map;
mod source_root;
pub mod status_line;
mod summary;
mod suppress;
#[cfg(test)]
mod tests;
mod text;
mod thread_creation;
mod thread_start;
mod tsan;
mod words;
mod writer;

pub use add_names::{NamelessModule, add_names, nameless_modules};
pub use baseline::{Baseline, BaselineError};
pub use build::{build_race, places};
pub use coverage::{Coverage, LookedAt};
pub use database_file::{DatabaseFileError, database_file};
pub use descriptor::{DescriptorError, is_own_descriptor, open_descriptor};
pub use doubt::{Doubt, notes_of};
pub use elsewhere::{Elsewhere, Unanalyzed};
pub use finding::{Finding, MapInfo, ModuleInfo, RaceClass, SideFacts};
pub use fingerprint::{Deduper, Place, fingerprint, variable};
pub use github::GithubWriter;
pub use hex::{Hex, digits};
pub use html::HtmlWriter;
pub(crate) use html::RaceView;
#[cfg(test)]
pub(crate) use html::testing as html_testing;
pub use identity::{
    NoName, VERSION as IDENTITY_VERSION, check as check_name, check_all as check_names, identity,
};
pub use location::classify;
pub use model::{
    Access, Excerpt, Identity, Location, LocationKind, Race, Role, SCHEMA, SourceLine, StackFrame,
    ThreadStart, build_name,
};
pub use output::{OpenError, open_output, reopen_output};
pub use own_code::own_frame;
pub use programs::{Programs, WatchedProgram};
pub use record_file::{RecordFile, SharedFile};
pub use records::{Record, Records, RecordsError, parse_records, read_records};
pub use review::review;
pub use rule::{is_called, rule};
pub use sarif::SarifWriter;
pub use sighting::Sighting;
pub use source_map::{MappedPrefix, SourceMap};
pub use source_root::SourceRoot;
pub use summary::{
    Summary, advice, closing_line, figures_text, stats_text, status_text, unused_lines,
};
pub use suppress::{SuppressError, Suppressions, UnusedRule};
pub use text::race_text;
pub use tsan::TsanWriter;
pub use words::{functions_of, place_of, sentence, summary_places, variable_of};
pub use writer::{JsonWriter, ReportWriter, TextWriter, WriteError, race_record};
