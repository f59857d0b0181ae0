//! Probes that stand where hardly anybody comes. Whoever comes to one is counted, and may be claimed by a gate (`probe_gate`) while the control block says
//! so ([`gwp_race_abi::control::Arrivals`]). What proves hot is of no use, and is removed.

use std::ops::Range;

use gwp_race_abi::probes as abi;

use super::Probe;
use crate::kernel::foreign::FileIdentity;

/// Probes that can stand at a time.
pub const MOST: usize = abi::STANDING;

/// Probes that are armed together, at most, and removed together where one of them is hot.
pub const GROUP: usize = 64;

/// Groups that stand at a time; where there are as many, the one that has stood for longest is removed first. To remove one takes 80 ms and more, and where whoever holds
/// them is killed, one is removed after the other.
pub const MOST_GROUPS: usize = MOST / GROUP - 1;

/// Probes that are to stand.
#[derive(Clone, Debug)]
pub struct Order {
    /// The process, which this one may trace.
    pub pid: u32,
    /// The mapping of code in which all probes are: its first address, and the first one behind it.
    pub mapping: Range<u64>,
    /// The file in which they were found; none stands where another one is mapped by now.
    pub file: FileIdentity,
    /// At most [`GROUP`]; of those on more pages than [`MOST_PAGES`](super::MOST_PAGES) none stands. The tag of each is its place, below [`MOST`], which no other one has.
    pub probes: Vec<Probe>,
}

/// What has changed, by the tags of probes. Those that do not stand have no place any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// They stand.
    pub stands: Vec<u32>,
    /// Too many came there. They do not stand any more.
    pub hot: Vec<u32>,
    /// The others of their groups, and those of groups that were replaced, do not, either.
    pub fell: Vec<u32>,
    /// None can be had there, as long as this code stands there.
    pub refused: Vec<u32>,
    /// They could not be armed, which may be so for a time only.
    pub failed: Vec<u32>,
    /// Why none of those that were to stand could be armed, if that is so.
    pub why: Option<String>,
    /// None can be in this process any more, for that reason.
    pub is_over: bool,
    /// So many groups stand now.
    pub groups: usize,
}
