//! The true races of a recording: pairs of sites at which two threads used the same bytes, one of them to write and one not atomically, with nothing that
//! orders the two.
//!
//! Of each word the last access of each thread at each site is kept: an earlier one at the same site was no less ordered. So all pairs of
//! sites are found, not only the first one at an address.

use std::collections::{BTreeMap, HashMap};

use super::{clocks::Clocks, format::Access};

/// What is kept of a word at most; the oldest goes first.
const MOST_KEPT: usize = 64;

/// A place in the code, and what is done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The site.
    pub site: u32,
    /// It writes.
    pub writes: bool,
    /// It is atomic.
    pub atomic: bool,
}

/// What was seen of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How often; of one access with others, once for each.
    pub times: u64,
    /// How close in time two were, in ticks.
    pub nearest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    thread: u32,
    place: Place,
    bytes: u8,
    moment: u32,
    time: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Races {
    words: HashMap<u64, Vec<Last>>,
    found: BTreeMap<[Place; 2], Seen>,
}

impl Races {
    /// A thread accesses bytes of a word.
    pub fn access(
        &mut self,
        clocks: &Clocks,
        thread: usize,
        (word, bytes): (u64, u8),
        place: Place,
        time: u64,
    ) {
        let kept = self.words.entry(word).or_default();
        let number = thread as u32;
        let mut own = None;
        for (index, last) in kept.iter().enumerate() {
            if last.thread == number {
                if last.place == place && last.bytes == bytes {
                    own = Some(index);
                }
                continue;
            }
            let conflict = last.bytes & bytes != 0
                && (last.place.writes || place.writes)
                && !(last.place.atomic && place.atomic);
            if conflict && !clocks.is_after(thread, last.thread as usize, last.moment) {
                let mut pair = [last.place, place];
                pair.sort_unstable();
                let apart = time.abs_diff(last.time);
                let seen = self.found.entry(pair).or_insert(Seen {
                    times: 0,
                    nearest: apart,
                });
                seen.times += 1;
                seen.nearest = seen.nearest.min(apart);
            }
        }
        let last = Last {
            thread: number,
            place,
            bytes,
            moment: clocks.moment(thread),
            time,
        };
        match own.and_then(|own| kept.get_mut(own)) {
            Some(own) => *own = last,
            None => {
                if kept.len() >= MOST_KEPT {
                    let oldest = kept.iter().enumerate().min_by_key(|(_, last)| last.time);
                    if let Some((oldest, _)) = oldest {
                        kept.swap_remove(oldest);
                    }
                }
                kept.push(last);
            }
        }
    }

    /// Memory is somebody's anew: what was done with it before is no race with what comes.
    pub fn allocated(&mut self, address: u64, length: u16) {
        let all = Access {
            address,
            length,
            writes: true,
            atomic: false,
        };
        for (word, _) in all.words() {
            self.words.remove(&word);
        }
    }

    /// What was found.
    #[must_use]
    pub fn into_found(self) -> BTreeMap<[Place; 2], Seen> {
        self.found
    }
}

#[cfg(test)]
mod tests;
