//! One place in the code where a thread may be stalled: what its instruction tells, and what was seen there.

use gwp_race_abi::own;

/// One access site: eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessSite {
    /// From the function's start.
    offset: u32,
    /// Of the constants below.
    flags: u16,
    /// How far the function's own frame reaches there, in units of [`FRAME_UNIT`]; 0: that is not known.
    frame: u16,
}

/// Bytes by which stacks grow.
const FRAME_UNIT: u32 = 8;

impl AccessSite {
    /// A call of a memory routine.
    pub const CALL: u16 = 1;
    /// The instruction writes.
    pub const WRITES: u16 = 2;
    /// It accesses the own frame, where others can reach it.
    pub const OWN_FRAME: u16 = 4;
    /// A thread was stalled there.
    pub const STALLED: u16 = 8;
    /// Others were seen to use the same bytes.
    pub const SHARED: u16 = 16;

    /// A site of which nothing is known but what its code tells, so many bytes from its function's start, where the own frame reaches so
    /// many bytes from the stack pointer up.
    pub(super) fn new(offset: u32, flags: u16, frame: u32) -> Self {
        Self {
            offset,
            flags,
            frame: u16::try_from(frame / FRAME_UNIT).unwrap_or(u16::MAX),
        }
    }

    /// How many bytes from its function's start.
    pub(super) const fn offset(self) -> u32 {
        self.offset
    }

    /// Where it is, if its function begins there.
    pub(super) const fn at(self, start: u64) -> u64 {
        start + self.offset as u64
    }

    /// Whether one of these flags is set.
    #[must_use]
    pub const fn has(self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Sets a flag.
    pub(super) const fn mark(&mut self, flag: u16) {
        self.flags |= flag;
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

    /// Whether what a thread does there writes; of a memory routine, which may do both, either.
    pub fn may_write(self, random: &mut fastrand::Rng) -> bool {
        self.has(Self::WRITES) || self.has(Self::CALL) && random.bool()
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
