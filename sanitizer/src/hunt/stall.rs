//! What a stall watches: the access that the stopped thread is about to make, and the part of
//! its bytes that the hardware can cover.

use crate::{
    addr::RuntimeAddr,
    insn::{MemAccess, Regs, x86_64},
    kernel::perf::WatchKind,
};

/// Bytes below the stack pointer that belong to the frame (the red zone, and some).
const BELOW_STACK_POINTER: u64 = 256;

/// An access that is about to happen, with what is watched of it.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// The access.
    pub access: MemAccess,
    /// Length of the accessing instruction in bytes.
    pub instruction_len: u8,
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
    let (address, len) = part(access.address, access.size, random);
    Ok(Watched {
        access,
        instruction_len: length as u8,
        address: RuntimeAddr(address),
        len,
        kind: if access.kind.writes() {
            WatchKind::ReadsAndWrites
        } else {
            WatchKind::Writes
        },
    })
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
}
