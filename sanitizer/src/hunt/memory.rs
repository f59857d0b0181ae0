//! What is remembered of a program's functions from one time that it is watched to the next: what the daemon keeps, and a tracer is told and tells.

use serde::{Deserialize, Serialize};

use super::plan::counts::Counts;
use crate::learned::{MOST_FUNCTIONS, parts, values};

pub use crate::learned::{KnownFunction, Parts, Raced, Sites};

/// What functions in a message weigh at most: a tracer has the next message when it asks for it, and none may fill its socket.
const MOST_WEIGHT: usize = 1024;

/// Functions of a module that is mapped now, as they were known before: a part of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// Where the module begins, at run time.
    pub module: u64,
    /// What is told of.
    pub of: Of,
    /// The functions.
    pub functions: Vec<KnownFunction>,
    /// What was told before was of another module, which is no longer there.
    pub is_first: bool,
    /// Nothing more is remembered of the module.
    pub is_last: bool,
}

/// Which build of a module is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Of {
    /// The same one: its functions are where they were.
    Same,
    /// Others: where their functions were says nothing. `is_whole`: the functions of at least one of them are all known, so that what is not among them is new.
    Others {
        /// See above.
        is_whole: bool,
    },
}

/// What was gained of functions since it was told last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gained {
    /// Where their module begins, at run time.
    pub module: u64,
    /// The functions: `at` is from there.
    pub functions: Vec<KnownFunction>,
    /// All functions of the module are known by now.
    pub is_whole: bool,
}

impl Remembered {
    /// All that is remembered of a module, in parts that can be told one by one.
    #[must_use]
    pub fn in_parts(module: u64, all: Vec<(Of, Vec<KnownFunction>)>) -> Vec<Self> {
        let mut parts = Vec::new();
        for (of, functions) in all {
            for functions in in_parts(functions) {
                parts.push(Self {
                    module,
                    of,
                    functions,
                    is_first: parts.is_empty(),
                    is_last: false,
                });
            }
        }
        if parts.is_empty() {
            parts.push(Self {
                module,
                of: Of::Same,
                functions: Vec::new(),
                is_first: true,
                is_last: false,
            });
        }
        if let Some(last) = parts.last_mut() {
            last.is_last = true;
        }
        parts
    }
}

/// Functions in lists that are short enough for a message each.
#[must_use]
pub fn in_parts(functions: Vec<KnownFunction>) -> Vec<Vec<KnownFunction>> {
    let mut parts: Vec<Vec<KnownFunction>> = Vec::new();
    let mut weight = 0;
    for function in functions {
        let adds = 1 + function.sites.len() + function.raced.len();
        match parts.last_mut() {
            Some(last) if last.len() < MOST_FUNCTIONS && weight + adds <= MOST_WEIGHT => {
                weight += adds;
                last.push(function);
            }
            _ => {
                weight = adds;
                parts.push(vec![function]);
            }
        }
    }
    parts
}

/// Counts as they are kept.
#[must_use]
pub fn parts_of(counts: Counts) -> Parts {
    parts(&counts.values())
}

/// They as they are counted; nothing where they can be none.
#[must_use]
pub fn counts_of(parts: &Parts) -> Option<Counts> {
    let counts = Counts::of_values(values(parts)?);
    counts.is_sound().then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that counts are what they were when they were kept, and that what can be none is refused.
    #[test]
    fn counts_are_kept() {
        let parts = vec![(0, 3.0), (1, 0.25), (13, 1.0)];
        let counts = counts_of(&parts).unwrap();
        assert_eq!(
            (counts.came, counts.waited_s, counts.news),
            (3.0, 0.25, 1.0)
        );
        assert_eq!(parts_of(counts), parts);
        assert_eq!(counts_of(&Vec::new()), Some(Counts::default()));
        for wrong in [(200, 1.0), (0, f32::NAN), (0, -1.0), (1, f32::INFINITY)] {
            assert_eq!(counts_of(&vec![(0, 1.0), wrong]), None, "{wrong:?}");
        }
    }

    /// Check that all of it is told, in parts of which none is large, and that the last one says so.
    #[test]
    fn parts_are_small() {
        let function = |at: u64| KnownFunction {
            at,
            fingerprint: at * 7,
            raced: Vec::new(),
            sites: (0..(at % 5) as u32 * 100)
                .map(|site| (site, vec![(0, 1.0); 16]))
                .collect(),
        };
        let all: Vec<_> = (0..1000).map(function).collect();
        let of = [Of::Same, Of::Others { is_whole: true }];
        let parts = Remembered::in_parts(7, of.map(|of| (of, all.clone())).into());
        let told = |which: Of| {
            let parts = parts.iter().filter(move |part| part.of == which);
            parts.flat_map(|part| part.functions.clone())
        };
        assert!(of.into_iter().all(|of| told(of).eq(all.clone())));
        for part in &parts {
            // The buffer of a socket has some 200 KiB, and other messages are there, too.
            assert!(postcard::to_allocvec(part).unwrap().len() < 128 << 10);
        }
        let count = |is: fn(&Remembered) -> bool| parts.iter().filter(|part| is(part)).count();
        assert_eq!(
            (count(|part| part.is_first), count(|part| part.is_last)),
            (1, 1)
        );
        assert!(parts[0].is_first && parts.last().is_some_and(|part| part.is_last));
        let [nothing] = &Remembered::in_parts(7, Vec::new())[..] else {
            panic!("it is told that nothing is remembered")
        };
        assert!(nothing.is_first && nothing.is_last && nothing.functions.is_empty());
    }
}
