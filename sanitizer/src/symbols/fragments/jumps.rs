//! Direct jumps and calls from one piece of code to another. All of a program's code is looked through, so bytes that
//! may be a jump are sought first, and decoded from the start of their code only where they lead somewhere.

use std::collections::HashMap;
use std::ops::Range;

use crate::addr::LinkAddr;
use crate::image::Image;
use crate::insn::x86_64::direct_transfers;

/// Code that was laid out in one piece.
pub(super) struct Unit {
    pub(super) range: Range<LinkAddr>,
    /// A covered function, or the first part of one.
    pub(super) is_covered: bool,
}

/// A jump or call from one unit to another, by their indices.
pub(super) struct Jump {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) target: LinkAddr,
    pub(super) is_call: bool,
}

/// `call rel32`, `jmp rel32`, and the second byte of `jcc rel32`: compilers use no shorter ones between sections.
const CALL: u8 = 0xe8;
const JMP: u8 = 0xe9;
const JCC: Range<u8> = 0x80..0x90;
const JCC_ESCAPE: u8 = 0x0f;
const DISPLACEMENT: usize = 4;

pub(super) fn code<'image>(image: &'image Image, range: &Range<LinkAddr>) -> Option<&'image [u8]> {
    let len = usize::try_from(range.end.0.checked_sub(range.start.0)?).ok()?;
    image.bytes_at(range.start, len)
}

/// The jumps between units, of which at least one is not covered, and the calls of what `called` asks for. `units` are
/// sorted and do not overlap.
pub(super) fn between(
    image: &Image,
    units: &[Unit],
    called: impl Fn(LinkAddr) -> bool,
) -> Vec<Jump> {
    let mut decoded = Decoded {
        image,
        units,
        known: HashMap::new(),
    };
    let mut jumps = Vec::new();
    for (from, unit) in units.iter().enumerate() {
        let Some(bytes) = code(image, &unit.range) else {
            continue;
        };
        for (at, target, is_call) in likely(bytes, unit.range.start) {
            if unit.range.contains(&target) {
                continue;
            }
            if is_call && !called(target) {
                continue;
            }
            let after = units.partition_point(|other| other.range.start <= target);
            let Some(to) = after.checked_sub(1) else {
                continue;
            };
            let Some(other) = units.get(to).filter(|other| other.range.contains(&target)) else {
                continue;
            };
            let is_between = !(unit.is_covered && other.is_covered)
                && decoded.at(from, at) == Some(Some(target.0))
                && decoded.at(to, target).is_some();
            if is_between {
                jumps.push(Jump {
                    from,
                    to,
                    target,
                    is_call,
                });
            }
        }
    }
    jumps
}

/// The instructions of those units that were asked for.
struct Decoded<'a> {
    image: &'a Image,
    units: &'a [Unit],
    /// By unit: where they stand, sorted, and where they jump to.
    known: HashMap<usize, Vec<(u64, Option<u64>)>>,
}

impl Decoded<'_> {
    /// Where the instruction at an address jumps to, if anywhere; nothing where none begins there.
    fn at(&mut self, unit: usize, address: LinkAddr) -> Option<Option<u64>> {
        let range = &self.units.get(unit)?.range;
        let image = self.image;
        let known = self.known.entry(unit).or_insert_with(|| {
            let bytes = code(image, range).unwrap_or_default();
            direct_transfers(range.start.0, bytes)
        });
        let found = known.binary_search_by_key(&address.0, |&(at, _)| at).ok()?;
        known.get(found).map(|&(_, target)| target)
    }
}

/// What may be jumps and calls in code: where they stand, where they lead, and whether they are calls.
fn likely(bytes: &[u8], start: LinkAddr) -> impl Iterator<Item = (LinkAddr, LinkAddr, bool)> {
    bytes
        .windows(1 + DISPLACEMENT)
        .enumerate()
        .filter_map(move |(at, window)| {
            let (&first, displacement) = window.split_first()?;
            let begins = match first {
                CALL | JMP => at,
                second if JCC.contains(&second) => {
                    let escape = at.checked_sub(1)?;
                    (bytes.get(escape) == Some(&JCC_ESCAPE)).then_some(escape)?
                }
                _ => return None,
            };
            let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
            let address = |at: usize| LinkAddr(start.0.wrapping_add(at as u64));
            let target = address(at + 1 + DISPLACEMENT).offset(displacement.into());
            Some((address(begins), target, first == CALL))
        })
}
