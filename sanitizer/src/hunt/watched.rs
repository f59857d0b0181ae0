//! What a stall watches: the access that the stopped thread is about to make, and the part of
//! its bytes that the hardware can cover.

use super::routines::Contract;
use crate::{
    addr::RuntimeAddr,
    insn::{AccessKind, MemAccess, Regs, Undetermined, x86_64::Upcoming},
    kernel::perf::WatchKind,
};

/// An access that is about to happen, with what is watched of it.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// The instruction that makes the access, or the first one of a memory routine.
    pub pc: u64,
    /// The access.
    pub access: MemAccess,
    /// Where the thread comes only after it has made the access: the next instruction, or what
    /// a memory routine returns to.
    pub behind: RuntimeAddr,
    /// The first watched byte, aligned to `len`.
    pub address: RuntimeAddr,
    /// How far away (modulo 2^64) from where the access is made it is watched: memory may be mapped at several addresses.
    pub alias: u64,
    /// Watched bytes: 1, 2, 4 or 8.
    pub len: u8,
    /// What is watched for: others' writes if the access only reads, else everything.
    pub kind: WatchKind,
}

impl Watched {
    /// The same bytes, watched so far away from where the access is made.
    #[must_use]
    pub const fn elsewhere(self, distance: u64) -> Self {
        Self {
            address: RuntimeAddr(self.address.0.wrapping_add(distance)),
            alias: self.alias.wrapping_add(distance),
            ..self
        }
    }
}

/// Why the access at hand is not worth a stall.
pub type Unsuitable = &'static str;

/// Only this thread is known to use what it is about to access.
pub const KNOWN_PRIVATE: Unsuitable = "known-private";

/// Chooses what to watch of what a stopped thread is certain to access next, each the likelier, the more it is worth.
/// `is_own` says whether what the instruction at an address accesses belongs to the thread alone, `worth` what one of all accesses is worth, of which the
/// instruction is said by its place among them: below 1, none may be chosen.
///
/// # Errors
/// Says why there is nothing to watch.
pub fn choose(
    upcoming: &[Upcoming],
    is_own: impl Fn(u64, u64) -> bool,
    worth: impl Fn(usize, &MemAccess) -> f64,
    random: &mut fastrand::Rng,
) -> Result<Watched, Unsuitable> {
    let mut choices: Vec<(&Upcoming, MemAccess, f64)> = Vec::new();
    for (index, step) in upcoming.iter().enumerate() {
        let accesses = step.accesses.iter().flatten();
        choices.extend(
            accesses
                .filter(|access| !access.thread_local && !access.stack_implicit && !access.locked)
                .filter(|access| access.size > 0 && !is_own(step.pc, access.address))
                .filter(|access| access.address.checked_add(access.size.into()).is_some())
                .map(|access| (step, *access, worth(index, access))),
        );
    }
    let most = choices.iter().map(|choice| choice.2).fold(0.0, f64::max);
    let Some(last) = choices.last() else {
        let first = upcoming.first().ok_or("undecodable")?;
        let accesses = first.accesses.as_ref().map_err(|reason| reason.name())?;
        return Err(if accesses.is_empty() {
            "no-access"
        } else {
            "own-memory"
        });
    };
    if random.f64() > most {
        return Err(KNOWN_PRIVATE);
    }
    let all: f64 = choices.iter().map(|choice| choice.2).sum();
    let mut point = random.f64() * all;
    let chosen = choices.iter().find(|choice| {
        point -= choice.2;
        point <= 0.0
    });
    let (step, access, _) = chosen.unwrap_or(last);
    Ok(watched(step.pc, *access, RuntimeAddr(step.behind), random))
}

/// Chooses what to watch for a memory routine that is about to be carried out: some of the bytes
/// that it will access before it returns to `behind`.
///
/// # Errors
/// Says why there is nothing to watch.
pub fn choose_in_call(
    contract: Contract,
    regs: &Regs,
    behind: RuntimeAddr,
    is_own: impl Fn(u64, u64) -> bool,
    random: &mut fastrand::Rng,
) -> Result<Watched, Unsuitable> {
    let ranges = contract.ranges(regs);
    if ranges.is_empty() {
        return Err("no-access");
    }
    let shared: Vec<_> = ranges
        .into_iter()
        .filter(|range| !is_own(regs.rip, range.address))
        .collect();
    let Some(range) = (!shared.is_empty()).then(|| shared[random.usize(..shared.len())]) else {
        return Err("own-memory");
    };
    let size = u32::try_from(range.length).map_err(|_| Undetermined::SizeUnknown.name())?;
    if range.address.checked_add(range.length).is_none() {
        return Err("unmapped");
    }
    let access = MemAccess {
        address: range.address,
        size,
        kind: range.kind,
        locked: false,
        thread_local: false,
        stack_implicit: false,
    };
    Ok(watched(regs.rip, access, behind, random))
}

/// What is watched of an access that is about to be made, behind which the thread comes to an address.
#[must_use]
pub fn watched(
    pc: u64,
    access: MemAccess,
    behind: RuntimeAddr,
    random: &mut fastrand::Rng,
) -> Watched {
    let (address, len) = part(access.address, access.size, random);
    Watched {
        pc,
        access,
        behind,
        address: RuntimeAddr(address),
        alias: 0,
        len,
        kind: kind_for(access.kind),
    }
}

/// What others' accesses are watched for that would race with one.
#[must_use]
pub const fn kind_for(access: AccessKind) -> WatchKind {
    if access.writes() {
        WatchKind::ReadsAndWrites
    } else {
        WatchKind::Writes
    }
}

/// The largest aligned block of 1, 2, 4 or 8 bytes inside `[address, address + size)`; of
/// several equally large ones, any. The block is never larger than the access, so that what
/// touches it overlaps the access.
fn part(address: u64, size: u32, random: &mut fastrand::Rng) -> (u64, u8) {
    let end = address.saturating_add(u64::from(size));
    for len in [8u64, 4, 2] {
        let first = address.next_multiple_of(len);
        let blocks = end.saturating_sub(first) / len;
        if blocks > 0 {
            return (first + random.u64(..blocks) * len, len as u8);
        }
    }
    (address + random.u64(..u64::from(size.max(1))), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check over all small ranges that the watched block lies inside the access, is aligned,
    /// and cannot be made larger.
    #[test]
    fn the_part_is_inside_and_aligned() {
        let mut random = fastrand::Rng::with_seed(1);
        for address in 0..32 {
            for size in 1..80 {
                let (start, len) = part(0x1000 + address, size, &mut random);
                let len = u64::from(len);
                assert_eq!(start % len, 0);
                assert!(start >= 0x1000 + address);
                assert!(start + len <= 0x1000 + address + u64::from(size));
                let double = len * 2;
                let fits = (0x1000 + address).next_multiple_of(double) + double
                    <= 0x1000 + address + u64::from(size);
                assert!(len == 8 || !fits, "{address} {size}");
            }
        }
    }

    /// Check that accesses are chosen by what they are worth, with the instruction that makes them, and none where
    /// none is worth it.
    #[test]
    fn what_is_worth_it() {
        let access = |address| MemAccess {
            address,
            size: 4,
            kind: AccessKind::Read,
            locked: false,
            thread_local: false,
            stack_implicit: false,
        };
        let step = |pc, accesses| Upcoming {
            pc,
            behind: pc + 4,
            accesses,
            elsewhere: Vec::new(),
        };
        let steps = [
            step(0x10, Ok(vec![access(0x1000)])),
            step(0x14, Err(Undetermined::MaskUnknown)),
            step(0x18, Ok(vec![access(0x2000), access(0x3000)])),
        ];
        let mut random = fastrand::Rng::with_seed(1);
        let mut counts = |steps: &[Upcoming], worths: [f64; 3]| {
            let worth = |index, access: &MemAccess| {
                assert_eq!(index == 0, access.address == 0x1000);
                worths[(access.address >> 12) as usize - 1]
            };
            let mut counts = [0; 4];
            for _ in 0..1000 {
                match choose(steps, |_, at| at == 0x3000, worth, &mut random) {
                    Ok(watched) => {
                        let index = (watched.access.address >> 12) as usize;
                        let pc = [0x10, 0x18, 0x18][index - 1];
                        assert_eq!((watched.pc, watched.behind), (pc, RuntimeAddr(pc + 4)));
                        assert_eq!(watched.address.0, watched.access.address);
                        counts[index] += 1;
                    }
                    Err(reason) => {
                        assert_eq!(reason, KNOWN_PRIVATE);
                        counts[0] += 1;
                    }
                }
            }
            counts
        };
        let [none, first, second, own] = counts(&steps, [1.0, 3.0, 9.0]);
        assert_eq!((none, own), (0, 0));
        assert!((200..300).contains(&first) && second == 1000 - first);
        let [none, first, second, _] = counts(&steps, [0.1, 0.3, 9.0]);
        assert!((650..750).contains(&none) && second > 2 * first && first > 0);
        let first_error = |steps: &[Upcoming], own| {
            let choice = choose(steps, |_, at| at == own, |_, _| 1.0, &mut random);
            choice.err()
        };
        let mut first_error = first_error;
        assert_eq!(first_error(&[], 0), Some("undecodable"));
        assert_eq!(first_error(&steps[1..2], 0), Some("mask-unknown"));
        assert_eq!(first_error(&steps[..1], 0x1000), Some("own-memory"));
        assert_eq!(first_error(&[step(0, Ok(vec![]))], 0), Some("no-access"));
    }

    /// Check that of a call what the routine writes or reads is chosen, never the thread's own
    /// memory, and that the confirmation is the return.
    #[test]
    fn what_a_call_is_about_to_access() {
        let mut random = fastrand::Rng::with_seed(1);
        let contract = Contract::of("memcpy").expect("a routine");
        let regs = Regs {
            rdi: 0x1001,
            rsi: 0x2001,
            rdx: 100,
            ..Regs::default()
        };
        let mut choose = |own: &[u64]| {
            let behind = RuntimeAddr(0x42);
            choose_in_call(
                contract,
                &regs,
                behind,
                |_, at| own.contains(&at),
                &mut random,
            )
        };
        let mut kinds = [0; 2];
        for _ in 0..100 {
            let watched = choose(&[]).expect("both are shared");
            let writes = watched.access.kind.writes();
            kinds[usize::from(writes)] += 1;
            let start = if writes { 0x1001 } else { 0x2001 };
            assert_eq!((watched.access.address, watched.access.size), (start, 100));
            assert_eq!(watched.kind == WatchKind::ReadsAndWrites, writes);
            assert_eq!((watched.len, watched.behind), (8, RuntimeAddr(0x42)));
            assert!(watched.address.0 >= start && watched.address.0 + 8 <= start + 100);
            let other = choose(&[0x1001]).expect("the source is shared");
            assert!(!other.access.kind.writes());
        }
        assert!(kinds.iter().all(|&count| count > 20), "{kinds:?}");
        assert_eq!(choose(&[0x1001, 0x2001]).err(), Some("own-memory"));
    }
}
