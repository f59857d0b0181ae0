//! What a host has learned of a build since it told it last, as others are told it.

use serde::{Deserialize, Serialize};

use super::{KnownFunction, MOST_OF_FUNCTION, Module};

/// Functions that are told at once.
pub const MOST_FUNCTIONS: usize = 256;
/// How many of these a message has.
pub const MOST_LEARNED: usize = 8;
/// What was seen in all functions of a message, bytes.
const MOST_OF_MESSAGE: usize = 1 << 20;
/// How often anything is counted of a site at once: more than a host can see in the time between two messages. One that says more may have others look elsewhere for a while, and no more.
const MOST_COUNTED: f32 = 1e5;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// The build.
    #[serde(flatten)]
    pub module: Module,
    /// Until when, ms since 1970.
    pub at: i64,
    /// Its functions in which something was seen, in the order of their places.
    pub functions: Vec<KnownFunction>,
}

impl Learned {
    /// Lets nothing be later than this, or counted more often than can be.
    pub fn end_at(&mut self, now: i64) {
        self.at = self.at.clamp(0, now.max(0));
        for function in &mut self.functions {
            function.end_at(MOST_COUNTED);
        }
    }
}

/// Why what somebody else says that he has learned is taken by nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Too many builds or functions, or too much in them.
    #[error("it says more of functions at once than any host does")]
    TooMuch,
    /// A build that is none.
    #[error("it says something of functions of a build that has no name or build id")]
    Module,
    /// A function that can be none.
    #[error("it says of a function what cannot be")]
    Function,
    /// Functions, sites of one or counts of one that stand in no order, or twice.
    #[error("it has functions, or sites or counts of one, that are not in order")]
    Order,
}

/// Checks what somebody else has made: all of it is what a store takes, in a time that has a bound.
///
/// # Errors
/// Something is not.
pub fn check(all: &[Learned]) -> Result<(), Unfit> {
    if all.len() > MOST_LEARNED {
        return Err(Unfit::TooMuch);
    }
    let mut bytes = 0;
    for Learned {
        module, functions, ..
    } in all
    {
        if !module.can_be_shared() {
            return Err(Unfit::Module);
        }
        if functions.len() > MOST_FUNCTIONS {
            return Err(Unfit::TooMuch);
        }
        if !functions.is_sorted_by(|one, next| one.at < next.at) {
            return Err(Unfit::Order);
        }
        for function in functions {
            if function.is_untried() || !function.is_sound() {
                return Err(Unfit::Function);
            }
            if !function.is_in_order() {
                return Err(Unfit::Order);
            }
            let seen_in = function.seen_in().map_err(|_| Unfit::Function)?;
            bytes += seen_in.len();
            if seen_in.len() > MOST_OF_FUNCTION || bytes > MOST_OF_MESSAGE {
                return Err(Unfit::TooMuch);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(at: u64, came: f32) -> KnownFunction {
        KnownFunction {
            at,
            fingerprint: 7,
            sites: vec![(4, vec![(0, came)])],
            raced: Vec::new(),
        }
    }

    fn learned(functions: Vec<KnownFunction>) -> Learned {
        let [name, build] = ["app", "aa11"].map(str::to_owned);
        Learned {
            module: Module { name, build },
            at: 5,
            functions,
        }
    }

    /// Check that what a host says is taken up to all bounds, and beyond none of them.
    #[test]
    fn bounds_hold() {
        let many = |count| learned((0..count).map(|at| function(at, 1.0)).collect());
        assert_eq!(check(&vec![many(256); 8]), Ok(()));
        assert_eq!(check(&vec![many(1); 9]), Err(Unfit::TooMuch));
        assert_eq!(check(&[many(257)]), Err(Unfit::TooMuch));
        let mut large = function(1, 1.0);
        large.sites = (0..5000).map(|at| (at, vec![(0, 1.0); 1])).collect();
        assert_eq!(check(&[learned(vec![large.clone()])]), Ok(()));
        let several = (0..30).map(|at| KnownFunction {
            at,
            ..large.clone()
        });
        assert_eq!(check(&[learned(several.collect())]), Err(Unfit::TooMuch));
        let mut twice = large.clone();
        twice.sites.extend_from_within(..);
        assert_eq!(check(&[learned(vec![twice])]), Err(Unfit::Order));
        large.sites = (0..10_000).map(|at| (at, vec![(0, 1.0); 1])).collect();
        assert_eq!(check(&[learned(vec![large])]), Err(Unfit::TooMuch));
        for order in [[2, 1], [1, 1]] {
            let wrong = learned(order.map(|at| function(at, 1.0)).into());
            assert_eq!(check(&[wrong]), Err(Unfit::Order));
        }
        for wrong in [f32::NAN, -1.0] {
            let wrong = learned(vec![function(1, wrong)]);
            assert_eq!(check(&[wrong]), Err(Unfit::Function));
        }
        let nothing = learned(vec![KnownFunction::default()]);
        assert_eq!(check(&[nothing]), Err(Unfit::Function));
        let mut nameless = many(1);
        nameless.module.build.clear();
        assert_eq!(check(&[nameless]), Err(Unfit::Module));
    }

    /// Check that a time still to come is now, one before all time its beginning, and that nothing counts more than can be.
    #[test]
    fn times_and_counts_have_an_end() {
        for (at, now, expected) in [(5, 9, 5), (i64::MAX, 9, 9), (-5, 9, 0), (5, -9, 0)] {
            let mut all = learned(vec![function(1, 1e9)]);
            all.at = at;
            all.end_at(now);
            assert_eq!(all.at, expected);
            assert_eq!(all.functions, [function(1, MOST_COUNTED)]);
        }
    }
}
