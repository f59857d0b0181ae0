//! What `-v` tells of decisions, with functions, lines and variables in front of the offsets that tracers tell.
//!
//! Whoever asks for it wants to hear what is tried, and pays for it beside the budget: within limits, since reading debug information may take long.

use std::collections::HashMap;
use std::time::Duration;

use crate::report::place_of;
use crate::symbols::Symbolizer;

/// So many places are named.
const MOST: usize = 500;
/// Naming them may take so much CPU time in all.
const MOST_WORK: Duration = Duration::from_secs(2);

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// The instruction that begins there.
    Instruction,
    /// The instruction that ends there.
    EndOfInstruction,
    /// A variable.
    Variable,
}

/// A place by which it is known in all processes: module with build id, link-time address, and what is there.
type Key = (String, Vec<u8>, u64, What);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: HashMap<Key, Option<String>>,
    worked_ns: u64,
    is_over: bool,
}

impl Places {
    /// A decision with names, as far as they are known: `server+0x1430 (contended): hit` becomes
    /// `count_hit /src/server.c:70:9 (server+0x1430), contended: hit`.
    pub(super) fn named(&mut self, symbolizer: &Symbolizer, text: &str) -> String {
        told(text, &mut |place, what| self.name(symbolizer, place, what))
    }

    /// Takes note of how long that took, ns of CPU time.
    pub(super) fn worked(&mut self, ns: u64) {
        self.worked_ns += ns;
    }

    fn name(&mut self, symbolizer: &Symbolizer, place: &Place<'_>, what: What) -> Option<String> {
        let module = symbolizer.module_named(place.file)?;
        let key = (
            module.path.clone(),
            module.build_id.clone(),
            place.offset,
            what,
        );
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        if self.known.len() >= MOST || Duration::from_nanos(self.worked_ns) >= MOST_WORK {
            if !std::mem::replace(&mut self.is_over, true) {
                let named = self.known.len();
                tracing::info!(
                    "further places are told by their offsets, since {named} were named; `addr2line -e FILE OFFSET` names the others"
                );
            }
            return None;
        }
        let address = place.offset.wrapping_add(module.bias);
        let name = match what {
            What::Instruction => place_of(symbolizer.frames(address)),
            // Not the next one, which may be of another line.
            What::EndOfInstruction => place_of(symbolizer.frames(address.wrapping_sub(1))),
            What::Variable => symbolizer.global_at(address).map(|global| {
                let name = crate::report::clean::clean(&global.name).into_owned();
                match global.offset {
                    0 => name,
                    offset => format!("{name}+{offset}"),
                }
            }),
        };
        self.known.insert(key, name.clone());
        name
    }
}

/// A place as tracers tell it: `server+0x1430`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    text: &'a str,
    file: &'a str,
    offset: u64,
}

impl<'a> Place<'a> {
    /// Nothing for what is in no file (`0x7f0012345678`).
    fn parse(text: &'a str) -> Option<Self> {
        let (file, offset) = text.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        (!file.is_empty()).then_some(Self { text, file, offset })
    }
}

/// The way by which a tracer comes to a variable, and what it tells of those who write it.
const VARIABLE: &str = "variable";
const BEFORE: &str = " before ";

/// A decision with the names that `name` gives to places. It is `PLACE (WAY): OUTCOME`, and of a variable behind that ` before PLACE` for each instruction that
/// was seen to write it, with commas between.
fn told(text: &str, name: &mut dyn FnMut(&Place<'_>, What) -> Option<String>) -> String {
    // Names of files may have anything; ways and outcomes have none of this.
    let Some((rest, outcome)) = text.rsplit_once("): ") else {
        return text.to_owned();
    };
    let Some((place, way)) = rest.rsplit_once(" (") else {
        return text.to_owned();
    };
    let mut with_name = |text: &str, what| match Place::parse(text) {
        Some(place) => match name(&place, what) {
            Some(name) => format!("{name} ({})", place.text),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    };
    let what = if way == VARIABLE {
        What::Variable
    } else {
        What::Instruction
    };
    let place = with_name(place, what);
    let mut parts = outcome.split(BEFORE);
    let mut outcome = parts.next().unwrap_or_default().to_owned();
    for writer in parts {
        let (writer, comma) = match writer.strip_suffix(',') {
            Some(writer) => (writer, ","),
            None => (writer, ""),
        };
        let writer = with_name(writer, What::EndOfInstruction);
        outcome.push_str(&format!("{BEFORE}{writer}{comma}"));
    }
    format!("{place}, {way}: {outcome}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each place of a decision gets its name, that those without one stay, and that names of files may look like anything.
    #[test]
    fn decisions_are_named() {
        let mut asked = Vec::new();
        let mut named = |text: &str| {
            told(text, &mut |place, what| {
                asked.push((place.file.to_owned(), place.offset, what));
                (place.file != "libx.so").then(|| format!("f{:x} a.c:7", place.offset))
            })
        };
        for (text, expected) in [
            (
                "server+0x1430 (contended): hit",
                "f1430 a.c:7 (server+0x1430), contended: hit",
            ),
            (
                "server+0x1430 (unknown): shared, 1.5 ms apart",
                "f1430 a.c:7 (server+0x1430), unknown: shared, 1.5 ms apart",
            ),
            (
                "libx.so+0x10 (unknown): not-reached",
                "libx.so+0x10, unknown: not-reached",
            ),
            (
                "0x7f0012345678 (clock): quiet",
                "0x7f0012345678, clock: quiet",
            ),
            (
                "a (x): b+0x1 c+0x20 (clock): quiet",
                "f20 a.c:7 (a (x): b+0x1 c+0x20), clock: quiet",
            ),
            (
                "server+0x4098 (variable): written before server+0x1434, before libx.so+0x5, before 0x7f00",
                "f4098 a.c:7 (server+0x4098), variable: written before f1434 a.c:7 (server+0x1434), before libx.so+0x5, before 0x7f00",
            ),
            (
                "server+0x4098 (variable): unwritten",
                "f4098 a.c:7 (server+0x4098), variable: unwritten",
            ),
            ("something else", "something else"),
        ] {
            assert_eq!(named(text), expected);
        }
        assert_eq!(asked[0], ("server".to_owned(), 0x1430, What::Instruction));
        let writer = ("server".to_owned(), 0x1434, What::EndOfInstruction);
        assert!(asked.contains(&writer), "{asked:?}");
        assert!(asked.contains(&("server".to_owned(), 0x4098, What::Variable)));
    }

    /// Check with this program's own symbols that functions are named with their lines, and that an end comes to it: by the number of places, and by the work.
    #[test]
    fn names_have_limits() {
        let mut symbolizer = Symbolizer::new();
        symbolizer.add_module(&own_module());
        let file = own_module().path.rsplit('/').next().unwrap().to_owned();
        let offset = (names_have_limits as fn() as usize as u64) - own_module().bias;
        let decision = |offset: u64| format!("{file}+{offset:#x} (clock): quiet");
        let mut places = Places::default();
        let told = places.named(&symbolizer, &decision(offset));
        assert!(
            told.contains("names_have_limits") && told.contains("places.rs:"),
            "{told}"
        );
        for other in 1..2 * MOST as u64 {
            places.named(&symbolizer, &decision(other));
        }
        assert_eq!(places.known.len(), MOST);
        assert!(places.is_over);
        assert_eq!(places.named(&symbolizer, &decision(offset)), told);
        let mut places = Places::default();
        places.worked(u64::MAX);
        let told = places.named(&symbolizer, &decision(offset));
        assert!(told.starts_with(&file) && places.known.is_empty(), "{told}");
    }

    /// The module that this test is in.
    fn own_module() -> crate::report::ModuleInfo {
        let maps = crate::tracee::Maps::read(nix::unistd::Pid::this()).unwrap();
        let exe = std::env::current_exe().unwrap().canonicalize().unwrap();
        let of_exe: Vec<_> = maps
            .iter()
            .filter(|map| *map.name == *exe.as_os_str())
            .collect();
        let (first, last) = (of_exe[0], of_exe[of_exe.len() - 1]);
        crate::report::ModuleInfo {
            path: exe.to_string_lossy().into_owned(),
            via: crate::kernel::foreign::Via::Root {
                id: std::process::id(),
                path: exe,
            },
            start: first.start.0,
            end: last.end.0,
            bias: first.start.0,
            ..Default::default()
        }
    }
}
