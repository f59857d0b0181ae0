//! One place in the code where a thread may be stalled, and what earlier tries have told of it.

use gwp_race_abi::own;

use super::{missed::Missed, named::Named, strategy::Outcome};

/// Accesses of a variable that the code itself names are shared more often than those by a pointer.
const NAMED_WEIGHT: f32 = 4.0;
/// Who writes is in conflict with all others, who reads with those who write.
const WRITES_WEIGHT: f32 = 2.0;
/// Of those that were missed: whoever seldom uses what two threads use may well forget the lock that they take.
const SHARED_NAME_WEIGHT: f64 = 16.0;
/// Somebody comes sooner or later to many sites of a function that is known to execute, but to few of one that is not.
const EXECUTES_WEIGHT: f64 = 8.0;
/// Somebody comes sooner or later to most sites where a thread was seen right beside.
const LIVE_WEIGHT: f32 = 4.0;
/// A variable of the own frame is rarely shared, even if others are given its address: mostly for as long as a call takes.
const OWN_FRAME_WEIGHT: f32 = 0.125;
/// Misses in a row that count.
pub const DOUBLINGS: u8 = 3;
/// The same for how seldom it is forgotten that nobody came: each doubles the time.
const SLOWEST: u8 = 5;
/// More than so many are not counted, or they would never be forgotten.
const MOST_MISSES: u8 = 10;

/// What a site's function is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    /// Where it begins.
    pub(super) start: u64,
    /// It was seen to execute.
    pub(super) executes: bool,
}

/// One access site: twelve bytes.
#[derive(Clone, Copy, Debug)]
pub struct AccessSite {
    /// From the function's start.
    pub(super) offset: u32,
    /// What speaks against it, by what came of it; see [`penalty`].
    pub(super) penalty: u16,
    /// How often in a row nobody came.
    pub misses: u8,
    /// Of the constants below.
    pub(super) flags: u16,
    /// How far the function's own frame reaches there, in units of [`FRAME_UNIT`]; 0: that is not known.
    frame: u16,
}

/// Bytes by which stacks grow.
const FRAME_UNIT: u32 = 8;

impl AccessSite {
    /// A site of which nothing is known but what its code tells, so many bytes from its function's start, where the own frame reaches so
    /// many bytes from the stack pointer up.
    pub(super) fn new(offset: u32, flags: u16, frame: u32) -> Self {
        Self {
            offset,
            penalty: 0,
            misses: 0,
            flags,
            frame: u16::try_from(frame / FRAME_UNIT).unwrap_or(u16::MAX),
        }
    }

    /// So many bytes from the stack pointer up belong to the thread alone that comes there: 0 if others can reach what is accessed, or
    /// were seen to.
    #[must_use]
    pub fn own_frame(self) -> u64 {
        match u64::from(self.frame) * u64::from(FRAME_UNIT) {
            _ if self.has(Self::OWN_FRAME | Self::SHARED) => 0,
            0 => own::FRAME,
            frame => frame,
        }
    }

    /// The code names the address.
    pub const NAMED: u16 = 1;
    /// A call of a memory routine.
    pub const CALL: u16 = 2;
    /// A thread was stalled there.
    pub const STALLED: u16 = 4;
    /// Others were seen to use the same bytes.
    pub const SHARED: u16 = 8;
    /// Only its own thread was.
    pub const PRIVATE: u16 = 16;
    /// A thread was seen right beside.
    pub(super) const LIVE: u16 = 32;
    /// The instruction writes.
    pub const WRITES: u16 = 64;
    /// It names a variable that two threads were seen to use, maybe elsewhere.
    pub(super) const SHARED_NAME: u16 = 128;
    /// It accesses the own frame, where others can reach it.
    pub const OWN_FRAME: u16 = 256;

    /// Whether it is so.
    #[must_use]
    pub const fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether what a thread does there writes; of a memory routine, which may do both, either.
    pub fn may_write(self, random: &mut fastrand::Rng) -> bool {
        self.has(Self::WRITES) || self.has(Self::CALL) && random.bool()
    }

    /// What it weighs among all.
    pub(super) fn weight(self) -> f32 {
        self.kind_weight() * self.merit() as f32
    }

    /// What it weighs before any try.
    fn kind_weight(self) -> f32 {
        let named = if self.has(Self::NAMED) {
            NAMED_WEIGHT
        } else {
            1.0
        };
        let writes = if self.has(Self::WRITES) {
            WRITES_WEIGHT
        } else {
            1.0
        };
        let own = if self.has(Self::OWN_FRAME) {
            OWN_FRAME_WEIGHT
        } else {
            1.0
        };
        named * writes * own * self.live_weight()
    }

    /// What earlier tries have left of the 1 that it had.
    fn merit(self) -> f64 {
        1.0 / (1.0 + f64::from(self.penalty))
    }

    /// What it weighs among those that name variables.
    pub(super) fn named_weight(self) -> f64 {
        f64::from(self.live_weight()) * self.merit()
    }

    /// Weighs it anew among those that name variables, if it does; its function begins at `start`.
    pub(super) fn weigh_named(self, start: u64, named: &mut Named) {
        if self.has(Self::NAMED) {
            named.weigh(start + u64::from(self.offset), self.named_weight());
        }
    }

    /// What it weighs among those that were missed: the less, the more often in a row.
    pub(super) fn missed_weight(self, home: Home) -> f64 {
        let shared = if self.has(Self::SHARED_NAME) {
            SHARED_NAME_WEIGHT
        } else {
            1.0
        };
        let executes = if home.executes { EXECUTES_WEIGHT } else { 1.0 };
        shared * executes * f64::from(self.kind_weight()) / (1.0 + f64::from(self.misses))
    }

    /// Whether nobody was seen there lately, but should be waited for, since it names what two threads use.
    pub(super) fn is_wanted(self) -> bool {
        self.has(Self::SHARED_NAME) && !self.is_seen()
    }

    /// Whether a forgetting concerns it: the more seldom, the more often in a row nobody came, unless a thread was seen right
    /// beside. Most of what was never executed in minutes will not be in the next ones.
    pub(super) fn fades(self, decays: u32) -> bool {
        let seldom = 1 << self.misses.min(SLOWEST);
        // Not all of them at once.
        self.has(Self::LIVE) || decays.wrapping_add(self.offset).is_multiple_of(seldom)
    }

    /// Nobody came, once more.
    pub(super) fn count_miss(&mut self) {
        self.misses = self.misses.saturating_add(1).min(MOST_MISSES);
    }

    /// Whether somebody was seen there, or right beside.
    pub(super) fn is_seen(self) -> bool {
        self.has(Self::STALLED | Self::SHARED | Self::PRIVATE | Self::LIVE)
    }

    /// Has it waited for, where it is worth it.
    pub(super) fn want(self, home: Home, named: &Named, missed: &mut Missed) {
        if self.is_wanted() {
            self.miss(home, named, missed);
        }
    }

    /// Nobody came there: it is waited for longer when that costs nothing.
    pub(super) fn miss(self, home: Home, named: &Named, missed: &mut Missed) {
        let site = home.start + u64::from(self.offset);
        missed.add(site, self.missed_weight(home) * named.urgency(site));
    }

    fn live_weight(self) -> f32 {
        if self.has(Self::LIVE) {
            LIVE_WEIGHT
        } else {
            1.0
        }
    }
}

/// How much an outcome speaks against trying a site again that was missed so many times in a row.
pub(super) const fn penalty(outcome: Outcome, misses: u8) -> u16 {
    match outcome {
        // The longer it was waited for in vain, the more.
        Outcome::NotReached if misses < DOUBLINGS => 6 << misses,
        Outcome::NotReached => 6 << DOUBLINGS,
        Outcome::Quiet => 3,
        // Others would be ordered with it; but there may be some that should be and are not.
        Outcome::Locked => 6,
        Outcome::Held => 2,
        Outcome::TooOften => 8,
        // The race is known now; a second report of it is worth less than a new one.
        Outcome::Hit(_) | Outcome::Repeat => 12,
        Outcome::Unsuitable | Outcome::Private => 32,
        Outcome::Unused | Outcome::Blind | Outcome::KnownPrivate | Outcome::Beside => 1,
        Outcome::Shared(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check what belongs to a thread alone that comes to a site: its frame as far as the code tells, or a usual one, and what surrounds
    /// its thread pointer; nothing where others can reach it.
    #[test]
    fn what_is_own_at_a_site() {
        const STACK: u64 = 0x7000_0000;
        const THREAD: u64 = 0x7000_8000;
        let is_own =
            |site: AccessSite, address| own::is_own(address, STACK, THREAD, site.own_frame());
        let known = AccessSite::new(0, 0, 48);
        assert!(is_own(known, STACK) && is_own(known, STACK + 47) && is_own(known, STACK - 256));
        assert!(!is_own(known, STACK + 48) && !is_own(known, STACK - 257));
        assert!(is_own(known, THREAD - 1024) && is_own(known, THREAD + 4095));
        assert!(!is_own(known, THREAD - 1025) && !is_own(known, THREAD + 4096));
        assert!(!own::is_own(0x10, STACK, 0, known.own_frame()));
        let unknown = AccessSite::new(0, 0, 0);
        assert!(is_own(unknown, STACK + 255) && !is_own(unknown, STACK + 256));
        for flag in [AccessSite::OWN_FRAME, AccessSite::SHARED] {
            let reachable = AccessSite::new(0, flag, 48);
            assert!(!is_own(reachable, STACK) && !is_own(reachable, THREAD));
        }
    }
}
