//! What a stall watches: the access that the stopped thread is about to make, and the part of
//! its bytes that the hardware can cover.

use super::routines::Contract;
use crate::{
    addr::RuntimeAddr,
    insn::{MemAccess, Regs, Undetermined, x86_64},
    kernel::perf::WatchKind,
};

/// Bytes below the stack pointer that belong to the frame (the red zone, and some).
const BELOW_STACK_POINTER: u64 = 256;

/// An access that is about to happen, with what is watched of it.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// The access.
    pub access: MemAccess,
    /// Where the thread comes only after it has made the access: the next instruction, or what
    /// a memory routine returns to.
    pub behind: RuntimeAddr,
    /// The first watched byte, aligned to `len`.
    pub address: RuntimeAddr,
    /// Watched bytes: 1, 2, 4 or 8.
    pub len: u8,
    /// What is watched for: others' writes if the access only reads, else everything.
    pub kind: WatchKind,
}

/// Why the access at hand is not worth a stall.
pub type Unsuitable = &'static str;

/// Chooses what to watch for the instruction at `regs.rip`. `own_stack` is the memory that
/// belongs to the thread alone.
///
/// # Errors
/// Says why there is nothing to watch.
pub fn choose(
    code: &[u8],
    regs: &Regs,
    is_own: impl Fn(u64) -> bool,
    random: &mut fastrand::Rng,
) -> Result<Watched, Unsuitable> {
    let accesses = x86_64::accesses_before(code, regs).map_err(|reason| reason.name())?;
    let length = x86_64::length(code).ok_or("undecodable")?;
    let shared: Vec<&MemAccess> = accesses
        .iter()
        .filter(|access| !access.thread_local && !access.stack_implicit && !access.locked)
        .filter(|access| access.size > 0 && !is_own(access.address))
        .filter(|access| access.address.checked_add(u64::from(access.size)).is_some())
        .collect();
    let Some(&&access) = (!shared.is_empty()).then(|| &shared[random.usize(..shared.len())]) else {
        return Err(if accesses.is_empty() {
            "no-access"
        } else {
            "own-memory"
        });
    };
    let behind = RuntimeAddr(regs.rip.wrapping_add(length as u64));
    Ok(watched(access, behind, random))
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
    is_own: impl Fn(u64) -> bool,
    random: &mut fastrand::Rng,
) -> Result<Watched, Unsuitable> {
    let ranges = contract.ranges(regs);
    if ranges.is_empty() {
        return Err("no-access");
    }
    let shared: Vec<_> = ranges
        .into_iter()
        .filter(|range| !is_own(range.address))
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
    Ok(watched(access, behind, random))
}

fn watched(access: MemAccess, behind: RuntimeAddr, random: &mut fastrand::Rng) -> Watched {
    let (address, len) = part(access.address, access.size, random);
    Watched {
        access,
        behind,
        address: RuntimeAddr(address),
        len,
        kind: if access.kind.writes() {
            WatchKind::ReadsAndWrites
        } else {
            WatchKind::Writes
        },
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

/// Memory that belongs to the thread alone, as far as registers and the mapping of its stack
/// tell: its stack from just below the stack pointer up (with the thread descriptor that the C
/// library keeps at its top), and the neighbourhood of the thread pointer.
#[must_use]
pub fn is_own(address: u64, regs: &Regs, stack_end: u64) -> bool {
    /// `struct pthread` and static thread-local data stand on both sides of the thread pointer.
    const AROUND_THREAD_POINTER: u64 = 4096;
    let on_stack = address >= regs.rsp.saturating_sub(BELOW_STACK_POINTER) && address < stack_end;
    on_stack || address.abs_diff(regs.fs_base) < AROUND_THREAD_POINTER
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
            choose_in_call(contract, &regs, behind, |at| own.contains(&at), &mut random)
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
