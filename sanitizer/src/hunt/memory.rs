//! What is remembered of a program's functions from one time that it is watched to the next: what the daemon keeps, and a tracer is told and tells.

use serde::{Deserialize, Serialize};

use super::plan::counts::Counts;

/// Functions in a message, and what they weigh at most: a tracer has the next message when it asks for it, and none may fill its socket.
const MOST_FUNCTIONS: usize = 256;
const MOST_WEIGHT: usize = 1024;

/// What is counted at the sites of a function: by how far they are from its beginning, bytes.
pub type Sites = Vec<(u32, Parts)>;
/// What of [`Counts`] is not 0.
pub type Parts = Vec<(u8, f32)>;

/// What is known of a function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownFunction {
    /// How far it is from the beginning of its module, bytes.
    pub at: u64,
    /// What tells its code from other code ([`fingerprint`](crate::insn::x86_64::fingerprint)).
    pub fingerprint: u64,
    /// What was seen at its sites.
    pub sites: Sites,
    /// Races of them that were told.
    pub raced: Vec<Raced>,
}

/// A race of a site with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raced {
    /// How far the site is from its function's beginning, bytes.
    pub at: u32,
    /// The fingerprint of the other one's function, and how far the other one is from its beginning.
    pub with: (u64, u32),
}

impl KnownFunction {
    /// Adds what else is known of the function to so much of what was known before.
    pub fn add(&mut self, left: f64, other: &Self) {
        /// Races of a function that are kept.
        const MOST: usize = 64;
        add(&mut self.sites, left, &other.sites);
        for raced in &other.raced {
            if self.raced.len() < MOST && !self.raced.contains(raced) {
                self.raced.push(*raced);
            }
        }
    }

    /// Whether nothing was seen but that it is there.
    #[must_use]
    pub fn is_untried(&self) -> bool {
        self.sites.is_empty() && self.raced.is_empty()
    }
}

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
    let all = counts.values().into_iter().enumerate();
    all.filter(|(_, value)| *value > 0.0)
        .filter_map(|(index, value)| Some((u8::try_from(index).ok()?, value as f32)))
        .collect()
}

/// They as they are counted; nothing where they can be none.
#[must_use]
pub fn counts_of(parts: &Parts) -> Option<Counts> {
    let mut values = Counts::default().values();
    for &(index, value) in parts {
        if value < 0.0 {
            return None;
        }
        *values.get_mut(usize::from(index))? += f64::from(value);
    }
    let counts = Counts::of_values(values);
    counts.is_sound().then_some(counts)
}

/// Adds what was seen at sites to so much of what was seen there before.
fn add(sites: &mut Sites, left: f64, more: &Sites) {
    /// Of so much less nothing is kept: one look, seven half-lives ago.
    const LEAST: f32 = 0.01;
    let mut all = std::collections::BTreeMap::<u32, Counts>::new();
    for (part, seen) in [(left, &*sites), (1.0, more)] {
        for (at, parts) in seen {
            let counts = counts_of(parts).unwrap_or_default();
            all.entry(*at).or_default().add(counts.times(part));
        }
    }
    let kept = all.into_iter().map(|(at, counts)| (at, parts_of(counts)));
    *sites = kept
        .filter(|(_, parts)| parts.iter().any(|(_, value)| *value >= LEAST))
        .collect();
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

    /// Check that what is added counts in full, what was there before in part, and what is next to nothing not at all.
    #[test]
    fn counts_add_up() {
        let mut sites = vec![(4, vec![(0, 8.0)]), (9, vec![(1, 0.01)])];
        add(
            &mut sites,
            0.5,
            &vec![(4, vec![(0, 1.0), (2, 2.0)]), (6, vec![(3, 1.0)])],
        );
        assert_eq!(sites, [(4, vec![(0, 5.0), (2, 2.0)]), (6, vec![(3, 1.0)])]);
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
