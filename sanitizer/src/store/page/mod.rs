//! What pages show of the store: some rows at a time, from summaries (`summary.rs`), in times that do not grow with the number of sightings.

mod compare;
mod details;
mod list;
mod select;

pub use compare::{Compared, Difference};
pub use details::{COUNTED_DAYS, Details, Evidence, InBuild, OnDay, OnHost};
pub use list::{Filter, List, Mark, Row};
