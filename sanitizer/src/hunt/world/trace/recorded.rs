//! A recorded program as a simulation needs it: its sites, who used which bytes when and under which locks, and its true races.
//!
//! Of bytes that two threads used, at least one of them to write, all accesses are kept. Of the others it is enough to know when threads come: so many are kept
//! of each site.

use std::io::{Read, Write};

use anyhow::Context as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    clocks::{Held, LockSet},
    format::Access,
};
use crate::hunt::plan::event::{FunctionId, MemberId, SiteFacts, SiteId, VariableId};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// What it is called.
    pub name: String,
    /// CPU time that it used in a second.
    pub processors: f64,
    /// The part of it that went by right before sites.
    pub beside_sites: f64,
    /// How long it was recorded, ns.
    pub length_ns: u64,
    /// Its sites: first all at which it may be waited, executed or not; then those that were only met.
    pub sites: Vec<Site>,
    /// How many of them it may be waited at.
    pub plain: u32,
    /// Lines of the source.
    pub lines: Vec<String>,
    /// Its true races.
    pub races: Vec<Race>,
    /// The sets of locks that were held, by number.
    pub locks: Vec<Vec<Held>>,
    /// What was accessed.
    pub events: Vec<Event>,
    /// Where threads were when it was looked: the next accesses of one, by number.
    pub samples: Vec<Vec<u32>>,
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// What its code tells; the site's id is its number. Whether it can be probed is not kept: it is a matter of instructions, and the recorded program has others.
    #[serde(with = "KeptFacts")]
    pub facts: SiteFacts,
    /// The distance of what its call returns to from where the executable begins.
    pub offset: u32,
    /// The number of its line, where it was executed.
    pub line: Option<u32>,
    /// Arrivals a second.
    pub comes: f64,
}

/// What is kept of [`SiteFacts`].
#[derive(Serialize, Deserialize)]
struct KeptFacts {
    site: SiteId,
    function: FunctionId,
    writes: bool,
    variable: Option<VariableId>,
    member: Option<MemberId>,
}

impl KeptFacts {
    fn serialize<S: Serializer>(facts: &SiteFacts, serializer: S) -> Result<S::Ok, S::Error> {
        let kept = Self {
            site: facts.site,
            function: facts.function,
            writes: facts.writes,
            variable: facts.variable,
            member: facts.member,
        };
        Serialize::serialize(&kept, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SiteFacts, D::Error> {
        let kept: Self = Deserialize::deserialize(deserializer)?;
        Ok(SiteFacts {
            site: kept.site,
            function: kept.function,
            writes: kept.writes,
            variable: kept.variable,
            member: kept.member,
            can_be_probed: false,
        })
    }
}

/// Two sites race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Race {
    /// Their numbers, the lesser one first.
    pub sites: [u32; 2],
    /// How often two accesses were seen that nothing orders.
    pub times: u64,
    /// How near in time, ns.
    pub nearest_ns: u64,
}

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, ns since the beginning.
    pub time_ns: u64,
    /// What was accessed.
    pub access: Access,
    /// The number of the site.
    pub site: u32,
    /// The thread.
    pub thread: u16,
    /// The locks that it held.
    pub locks: LockSet,
}

impl Recorded {
    /// The line of a site.
    #[must_use]
    pub fn line(&self, site: u32) -> &str {
        let site = self.sites.get(site as usize);
        let line = site.and_then(|site| self.lines.get(site.line? as usize));
        line.map_or("?", String::as_str)
    }

    /// The pairs of lines that race, the lesser one first.
    #[must_use]
    pub fn lines_of(&self, race: [u32; 2]) -> [&str; 2] {
        let mut lines = race.map(|site| self.line(site));
        lines.sort_unstable();
        lines
    }

    /// Keeps it, packed: postcard's form within gzip's.
    ///
    /// # Errors
    /// Those of writing.
    pub fn keep(&self, out: impl Write) -> anyhow::Result<()> {
        let mut packed = flate2::write::GzEncoder::new(out, flate2::Compression::best());
        packed.write_all(&postcard::to_stdvec(self)?)?;
        packed.finish()?.flush()?;
        Ok(())
    }

    /// One that was kept.
    ///
    /// # Errors
    /// Says that it is none.
    pub fn kept(packed: impl Read) -> anyhow::Result<Self> {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut bytes)
            .context("unpacking it")?;
        postcard::from_bytes(&bytes).context("this is no trace, or one of another version")
    }
}
