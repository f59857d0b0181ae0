//! Names a race by its pair of code places, so that repeats are counted, not printed, and
//! runs can be compared. The hash is FNV-1a, 128 bits (draft-eastlake-fnv), written out here
//! because fingerprints are stored and must never change with a library.

use std::collections::HashSet;

use super::model::{Access, Race};
use crate::insn::x86_64::{self, Variable};
use crate::symbols::Symbolizer;

const FNV_OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(FNV_OFFSET_BASIS, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

/// An access, and what it accesses as far as its instruction alone tells.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The access.
    pub access: &'a Access,
    /// The variable or the part of an object ([`variable`]).
    pub variable: Option<&'a str>,
}

/// What an access's own instruction tells of the variable that it accesses, in a form that is the same from run to
/// run: a variable of the module with the distance from its start, or how far behind its register's address
/// an object's part is. Nothing of elements of arrays, of variables on the stack, and of
/// accesses that a routine or the kernel makes for its caller.
#[must_use]
pub fn variable(symbolizer: &Symbolizer, access: &Access) -> Option<String> {
    if access.system_call.is_some() || access.library_frames() > 0 {
        return None;
    }
    let pc = access.pc.0;
    match x86_64::variable(&symbolizer.instruction_at(pc), pc)? {
        Variable::Part(distance) => Some(format!("{distance:+}")),
        Variable::Fixed(address) => match symbolizer.global_at(address) {
            Some(global) => Some(format!("{}{:+}", global.name, global.offset)),
            None => {
                let bias = symbolizer.module_at(pc)?.bias;
                Some(format!("@{:#x}", address.wrapping_sub(bias)))
            }
        },
    }
}

/// The fingerprint of two accesses in any order: 32 hexadecimal digits.
#[must_use]
pub fn fingerprint(first: Place<'_>, second: Place<'_>) -> String {
    let mut sites = [site_key(first), site_key(second)];
    sites.sort();
    format!("{:032x}", fnv1a(sites.join("\n").as_bytes()))
}

/// What is stable of a place from run to run: the module's build (or name), the function, line and column, and
/// which variable it accesses (a line, and a macro in it, may have several accesses); the offset in the module
/// where no line is known.
fn site_key(Place { access, variable }: Place<'_>) -> String {
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
        Some(line) => {
            let column = site.column.unwrap_or_default();
            let variable = variable.unwrap_or_default();
            format!("{module}\t{function}\t{line}:{column}\t{variable}")
        }
        None => format!("{module}\t{function}\t@{}", site.offset),
    }
}

/// Tells new races from repeats.
#[derive(Clone, Debug, Default)]
pub struct Deduper {
    seen: HashSet<(String, String)>,
}

impl Deduper {
    /// Remembers a race; true if it is the first with its fingerprint and identity. (The same two instructions may access several
    /// variables.)
    pub fn record(&mut self, race: &Race) -> bool {
        self.seen
            .insert((race.fingerprint.clone(), race.identity.race.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::hex::Hex;
    use crate::report::model::StackFrame;
    use crate::report::sample::race;

    /// Check the hash against the published test vectors of FNV-1a, 128 bits.
    #[test]
    fn fnv1a_vectors() {
        assert_eq!(fnv1a(b""), FNV_OFFSET_BASIS);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv1a(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    /// Check that order, addresses and threads do not count, and that lines, columns and variables do.
    #[test]
    fn names_the_pair_of_places() {
        let race = race();
        let [a, b] = &race.accesses;
        fn place(access: &Access) -> Place<'_> {
            Place {
                access,
                variable: Some("+8"),
            }
        }
        let reference = fingerprint(place(a), place(b));
        assert_eq!(reference, "3a5f746d667a473fa20740e73af7f517");
        assert_eq!(fingerprint(place(b), place(a)), reference);
        let mut moved = a.clone();
        moved.pc = Hex(1);
        moved.tid = 99;
        for frame in &mut moved.stack {
            frame.pc = Hex(frame.pc.0 + 0x1000);
        }
        assert_eq!(fingerprint(place(&moved), place(b)), reference);
        for change in [
            |frame: &mut StackFrame| frame.line = Some(1234),
            |frame: &mut StackFrame| frame.column = Some(99),
        ] {
            let mut other = a.clone();
            change(other.stack.first_mut().expect("it has a frame"));
            assert_ne!(fingerprint(place(&other), place(b)), reference);
        }
        let other = Place {
            access: a,
            variable: Some("+16"),
        };
        assert_ne!(fingerprint(other, place(b)), reference);
    }

    /// Check that a repeat is not new.
    #[test]
    fn tells_repeats() {
        let mut deduper = Deduper::default();
        let race = race();
        let mut other = race.clone();
        other.fingerprint = "other".to_owned();
        assert!(deduper.record(&race));
        assert!(!deduper.record(&race));
        assert!(deduper.record(&other));
        assert!(!deduper.record(&other));
    }
}
