//! What `-v` tells of decisions, with functions, lines and variables for the addresses that tracers tell.
//!
//! Whoever asks for it wants to hear what is tried, and pays for it beside the budget: within limits, since reading debug information may take long.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::hunt::wire::Decision;
use crate::report::{ModuleInfo, place_of};
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
    /// A decision as people are told of it, with names as far as they are known:
    /// `count_hit /src/server.c:70:9 (server+0x1430), contended: hit`.
    pub(super) fn told(&mut self, symbolizer: &Symbolizer, decision: &Decision) -> String {
        told(decision, &mut |address, what| {
            let Some(module) = symbolizer.module_at(address) else {
                return bare(address);
            };
            let file = Path::new(&module.path).file_name().unwrap_or_default();
            let offset = address.wrapping_sub(module.bias);
            let place = format!("{}+{offset:#x}", file.to_string_lossy());
            match self.name(symbolizer, module, address, what) {
                Some(name) => format!("{name} ({place})"),
                None => place,
            }
        })
    }

    /// Takes note of how long that took, ns of CPU time.
    pub(super) fn worked(&mut self, ns: u64) {
        self.worked_ns += ns;
    }

    fn name(
        &mut self,
        symbolizer: &Symbolizer,
        module: &ModuleInfo,
        address: u64,
        what: What,
    ) -> Option<String> {
        let offset = address.wrapping_sub(module.bias);
        let key = (module.path.clone(), module.build_id.clone(), offset, what);
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

/// A decision without names: there is no time for them.
pub(super) fn unnamed(decision: &Decision) -> String {
    told(decision, &mut |address, _| bare(address))
}

fn bare(address: u64) -> String {
    format!("{address:#x}")
}

/// A decision with what `place` calls each place.
fn told(decision: &Decision, place: &mut dyn FnMut(u64, What) -> String) -> String {
    let Decision {
        at,
        is_variable,
        way,
        outcome,
        later_ns,
        writers,
    } = decision;
    let what = if *is_variable {
        What::Variable
    } else {
        What::Instruction
    };
    let chosen = place(*at, what);
    let later = later_ns.map_or_else(String::new, |later| {
        format!(
            ", {:.1} ms apart",
            Duration::from_nanos(later).as_secs_f64() * 1e3
        )
    });
    let writers = writers.iter();
    let writers: Vec<String> = writers
        .map(|writer| format!(" before {}", place(*writer, What::EndOfInstruction)))
        .collect();
    format!("{chosen}, {way}: {outcome}{later}{}", writers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(at: u64, way: &str, outcome: &str) -> Decision {
        Decision {
            at,
            is_variable: false,
            way: way.to_owned(),
            outcome: outcome.to_owned(),
            later_ns: None,
            writers: Vec::new(),
        }
    }

    /// Check how decisions are told: of instructions, with what came how much later, and of variables, with all that write them.
    #[test]
    fn decisions_in_words() {
        let mut asked = Vec::new();
        let mut words = |decision: &Decision| {
            told(decision, &mut |address, what| {
                asked.push((address, what));
                format!("f{address:x}")
            })
        };
        let hit = decision(0x1430, "contended", "hit");
        assert_eq!(words(&hit), "f1430, contended: hit");
        let shared = Decision {
            later_ns: Some(1_540_000),
            ..decision(1, "unknown", "shared")
        };
        assert_eq!(words(&shared), "f1, unknown: shared, 1.5 ms apart");
        let written = Decision {
            is_variable: true,
            writers: vec![0x10, 0x20],
            ..decision(0x4098, "variable", "written")
        };
        let expected = "f4098, variable: written before f10, before f20";
        assert_eq!(words(&written), expected);
        let expected = [
            (0x1430, What::Instruction),
            (1, What::Instruction),
            (0x4098, What::Variable),
            (0x10, What::EndOfInstruction),
            (0x20, What::EndOfInstruction),
        ];
        assert_eq!(asked, expected);
        assert_eq!(unnamed(&hit), "0x1430, contended: hit");
    }

    /// Check with this program's own symbols that functions are named with their lines, and that an end comes to it: by the number of places, and by the work.
    #[test]
    fn names_have_limits() {
        let mut symbolizer = Symbolizer::new();
        symbolizer.add_module(&own_module());
        let file = own_module().path.rsplit('/').next().unwrap().to_owned();
        let here = names_have_limits as fn() as usize as u64;
        let quiet = |at| decision(at, "clock", "quiet");
        let mut places = Places::default();
        let told = places.told(&symbolizer, &quiet(here));
        assert!(
            told.contains("names_have_limits") && told.contains("places.rs:"),
            "{told}"
        );
        for other in 1..2 * MOST as u64 {
            places.told(&symbolizer, &quiet(own_module().start + other));
        }
        assert_eq!(places.known.len(), MOST);
        assert!(places.is_over);
        assert_eq!(places.told(&symbolizer, &quiet(here)), told);
        assert_eq!(places.told(&symbolizer, &quiet(8)), "0x8, clock: quiet");
        let mut places = Places::default();
        places.worked(u64::MAX);
        let told = places.told(&symbolizer, &quiet(here));
        assert!(told.starts_with(&file) && places.known.is_empty(), "{told}");
    }

    /// The module that this test is in.
    fn own_module() -> ModuleInfo {
        let maps = crate::tracee::Maps::read(nix::unistd::Pid::this()).unwrap();
        let exe = std::env::current_exe().unwrap().canonicalize().unwrap();
        let of_exe: Vec<_> = maps
            .iter()
            .filter(|map| *map.name == *exe.as_os_str())
            .collect();
        let (first, last) = (of_exe[0], of_exe[of_exe.len() - 1]);
        ModuleInfo {
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
