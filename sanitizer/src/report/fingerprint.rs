//! Names a race by its pair of code places, so that repeats are counted, not printed, and
//! runs can be compared. The hash is FNV-1a, 128 bits (draft-eastlake-fnv), written out here
//! because fingerprints are stored and must never change with a library.

use std::collections::HashMap;

use super::model::{Access, Race};

const FNV_OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(FNV_OFFSET_BASIS, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

/// The fingerprint of two accesses in any order: 32 hexadecimal digits.
#[must_use]
pub fn fingerprint(first: &Access, second: &Access) -> String {
    let mut sites = [site_key(first), site_key(second)];
    sites.sort();
    format!("{:032x}", fnv1a(sites.join("\n").as_bytes()))
}

/// What is stable of a place from run to run: the module's build (or name), the function and
/// the line; the offset in the module where no line is known.
fn site_key(access: &Access) -> String {
    let Some(site) = access.site() else {
        return format!(
            "{}\t{}",
            access.module.as_deref().unwrap_or_default(),
            access.offset
        );
    };
    let module = match &site.build_id {
        Some(build_id) => build_id.as_str(),
        None => {
            let path = site.module.as_deref().unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default()
        }
    };
    let function = site.function.as_deref().unwrap_or_default();
    match site.line {
        Some(line) => format!("{module}\t{function}\t{line}"),
        None => format!("{module}\t{function}\t@{}", site.offset),
    }
}

/// Tells new races from repeats, and counts both.
#[derive(Clone, Debug, Default)]
pub struct Deduper {
    seen: HashMap<String, u64>,
    total: u64,
}

impl Deduper {
    /// Counts a race; true if it is the first with its fingerprint.
    pub fn record(&mut self, race: &Race) -> bool {
        self.total += 1;
        let count = self.seen.entry(race.fingerprint.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// How many different races were recorded.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.seen.len() as u64
    }

    /// How many races were recorded in all.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// How often the race with this fingerprint was recorded.
    #[must_use]
    pub fn count(&self, fingerprint: &str) -> u64 {
        self.seen.get(fingerprint).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::hex::Hex;
    use crate::report::sample::race;

    /// Check the hash against the published test vectors of FNV-1a, 128 bits.
    #[test]
    fn fnv1a_vectors() {
        assert_eq!(fnv1a(b""), FNV_OFFSET_BASIS);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv1a(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    /// Check that order, addresses and threads do not count, and that lines do.
    #[test]
    fn names_the_pair_of_places() {
        let race = race();
        let [a, b] = &race.accesses;
        let reference = fingerprint(a, b);
        assert_eq!(reference, "adf9a37c12be3ce7c9d6369adb6a218c");
        assert_eq!(fingerprint(b, a), reference);
        let mut moved = a.clone();
        moved.pc = Hex(1);
        moved.tid = 99;
        for frame in &mut moved.stack {
            frame.pc = Hex(frame.pc.0 + 0x1000);
            frame.column = None;
        }
        assert_eq!(fingerprint(&moved, b), reference);
        if let Some(frame) = moved.stack.first_mut() {
            frame.line = Some(1234);
        }
        assert_ne!(fingerprint(&moved, b), reference);
    }

    /// Check that a repeat is counted and not new.
    #[test]
    fn counts_repeats() {
        let mut deduper = Deduper::default();
        let race = race();
        let mut other = race.clone();
        other.fingerprint = "other".to_owned();
        assert!(deduper.record(&race));
        assert!(!deduper.record(&race));
        assert!(deduper.record(&other));
        assert_eq!((deduper.unique(), deduper.total()), (2, 3));
        assert_eq!(deduper.count(&race.fingerprint), 2);
    }
}
