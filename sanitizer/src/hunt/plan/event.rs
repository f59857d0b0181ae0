//! What a planner can hear of.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::id::ActionId;
pub use super::id::{AddressId, FunctionId, MemberId, SiteId, VariableId};
use super::lists::{as_list, of_list};

/// What the code tells of a site before anybody comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteFacts {
    /// The site.
    pub site: SiteId,
    /// Where it stands.
    pub function: FunctionId,
    /// It may write.
    pub writes: bool,
    /// The variable that it names, if it does not go by a pointer.
    pub variable: Option<VariableId>,
    /// The member that it accesses, if it goes by a pointer.
    pub member: Option<MemberId>,
    /// The kernel can note who comes there, and what it is about to access.
    pub can_be_probed: bool,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The action of which it came; `None` for what happens by itself.
    pub of: Option<ActionId>,
    /// What it is.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// There is code with these sites, in functions that were not known before.
    Code(#[serde(serialize_with = "as_list", deserialize_with = "of_list")] Arc<[SiteFacts]>),
    /// What was seen at sites when the program, or another process of it, was watched before: sums, as far as they are left by now.
    Told(Vec<(SiteId, Counts)>),
    /// A function was not there when the program was watched before: a race is likelier there than where many hours have shown none.
    New(FunctionId),
    /// Other code may stand at all addresses now.
    CodeGone,
    /// A wait may be for one address, which is watched from its beginning on. Where this was not heard, it is to be waited for any thread.
    WatchesAhead,
    /// Sites can be profiled, all of them for a short time; so long after each other at least. Where this was not heard, none is to be.
    Profiles {
        /// From the beginning of one time to that of the next one.
        apart: Duration,
    },
    /// Who has come to sites at which probes stand, or stood until now: told of some of them at a time, and of each at once when one stands there, and when none does any more. Whoever comes to one of them can be stopped.
    Stood(#[serde(serialize_with = "as_list", deserialize_with = "of_list")] Arc<[Stood]>),
    /// It can be seen from now on which threads are off their processors, or no more.
    SeesPreempted(bool),
    /// A thread was seen right beside a site; nobody was stopped.
    Seen(SiteId),
    /// The same, in a function, but beside none of its sites.
    Executes(FunctionId),
    /// A variable was seen to change its value.
    Changes(VariableId),
    /// So many threads there are now.
    Threads(u32),
    /// Nobody came to the site that was waited at; or nobody who was wanted.
    Nobody {
        /// Where it was waited.
        site: SiteId,
        /// For how long.
        waited: Duration,
    },
    /// A thread came to the site that was waited at, and was stopped. What was done with it is told next.
    Came {
        /// The site.
        site: SiteId,
        /// How long it was waited for it.
        waited: Duration,
    },
    /// A thread that was just stopped is about to access these bytes. Told before it is decided what to do with it, where that is known.
    About {
        /// Where it stands.
        site: SiteId,
        /// What it is about to access.
        address: AddressId,
    },
    /// Bytes were watched while it was waited for a thread that is about to access them: who used them meanwhile, in conflict with the access at
    /// the site. Nobody was stopped for it.
    Passed {
        /// Where it was waited.
        site: SiteId,
        /// What was watched.
        address: AddressId,
        /// For how long.
        lasted: Duration,
        /// Who used them, the first one first.
        users: Vec<Partner>,
    },
    /// No sample could stop a thread; or there was no preempted one that could be taken.
    NoSample {
        /// For how long it was waited.
        waited: Duration,
    },
    /// A thread came, was stopped, and let go for this reason.
    LetGo {
        /// Where it stood.
        site: SiteId,
        /// Why.
        why: LetGo,
    },
    /// A thread came and was held; nobody is any more.
    Held {
        /// Where it stood.
        site: SiteId,
        /// How long it was held.
        lasted: Duration,
        /// How that ended.
        end: StallEnd,
    },
    /// A thread came and was let go, at once or after a quiet stall (whose event comes before this), and its bytes were watched.
    Looked {
        /// Where it stood.
        site: SiteId,
        /// How long they were watched.
        lasted: Duration,
        /// Who else used them, the first one first; in conflict with the access at the site, so that it would be evidence in a stall.
        users: Vec<Partner>,
        /// Its own thread was seen to use them again and again, and nobody else.
        is_private: bool,
    },
    /// A variable was watched for who writes it.
    Watched {
        /// The variable.
        variable: VariableId,
        /// How long.
        lasted: Duration,
        /// Who did, the first one first.
        writers: Vec<Partner>,
    },
    /// It was noted who came to some sites, and what it was about to access. Nobody was stopped.
    Profiled {
        /// For how long.
        lasted: Duration,
        /// Who came to the sites: to those of which that is known.
        arrivals: Vec<Arrivals>,
        /// Who has used what another thread has used before, each two sites once.
        met: Vec<Met>,
        /// What it has cost of the budget, s. That may be known only when something else is in hand.
        cost_s: f64,
    },
    /// It is over with the action of the event's id; it has cost so much of the budget, in seconds.
    Cost(f64),
    /// No probe can be had at these sites, as long as this code stands there: the code, its file or the kernel does not allow it. Breakpoints can.
    Refused(#[serde(serialize_with = "as_list", deserialize_with = "of_list")] Arc<[SiteId]>),
}

/// Why a thread was let go that had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LetGo {
    /// That was wanted.
    Wanted,
    /// Its access is its own: of its stack, thread-local, or not to be decoded.
    Unsuitable,
    /// It holds a lock for which others have waited.
    HoldsLock,
    /// Nothing is left that it may cost.
    NothingLeft,
}

/// Another thread's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partner {
    /// Where it was made.
    pub site: SiteId,
    /// How long after the beginning.
    pub after: Duration,
}

/// Who came to a site while that was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    /// The site.
    pub site: SiteId,
    /// How often somebody came.
    pub count: u32,
    /// How often to access what another thread has accessed meanwhile, too, at one of the sites; and one of the two to write.
    pub met: u32,
}

/// Who came to a site at which a probe stands, or stood until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stood {
    /// The site.
    pub site: SiteId,
    /// For how long that was counted, since it was told last.
    pub lasted: Duration,
    /// How often somebody came.
    pub count: u32,
    /// One still stands there.
    pub stands: bool,
}

/// Two threads were about to access the same bytes, one after the other, and at least one of them to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Where the first one was.
    pub first: SiteId,
    /// What it was about to access.
    pub address: AddressId,
    /// Who came then.
    pub then: Partner,
}

/// How a stall has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StallEnd {
    /// Its time was over, and nobody came.
    Quiet,
    /// Others came in conflict, of whom it was not known at this site.
    Hit(Vec<Partner>),
    /// Others came, all of whom were known to race here.
    Known(Vec<Partner>),
    /// Others were waiting for a lock that the thread held.
    Locked,
}
