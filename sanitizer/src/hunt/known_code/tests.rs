//! Whether what is known of code is what it tells, and what was seen.

use std::{ops::Range, time::Duration};

use super::*;
use crate::hunt::strategy::Conflict;

const START: u64 = 0x1000;
const OTHER: u64 = 0x1100;
const DATA: u64 = 0x3000;

/// Two functions: the first one loads from a variable at its start, stores by a pointer right behind, and calls the second one,
/// which returns at once.
struct View {
    first: Vec<u8>,
}

impl View {
    fn new() -> Self {
        // mov x(%rip), %eax; mov %eax, (%rdi); call OTHER; ret.
        let mut first = vec![0x8b, 0x05];
        first.extend((DATA as u32 - (START as u32 + 6)).to_le_bytes());
        first.extend([0x89, 0x07, 0xe8]);
        first.extend((OTHER as u32 - (START as u32 + 13)).to_le_bytes());
        first.push(0xc3);
        Self { first }
    }
}

/// Where the store is, and behind it.
const STORE: u64 = START + 6;
const BEHIND: u64 = START + 8;

impl CodeView for View {
    fn code(&self, _: u64) -> &[u8] {
        &[]
    }
    fn is_analyzed(&self, _: u64) -> bool {
        true
    }
    fn is_routine(&self, _: u64) -> bool {
        false
    }
    fn routine(&self, _: crate::insn::Transfer) -> Option<u64> {
        None
    }
    fn is_atomic(&self, _: u64) -> bool {
        false
    }
    fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
        match pc {
            START..OTHER => Some((START, &self.first)),
            OTHER => Some((OTHER, &[0xc3])),
            _ => None,
        }
    }
    fn some_function(&self, _: u64) -> Option<u64> {
        None
    }
    fn function_count(&self) -> u64 {
        2
    }
    fn module_of(&self, _: u64) -> Option<(Range<u64>, Range<u64>)> {
        None
    }
    fn is_constant(&self, _: u64) -> bool {
        false
    }
}

/// Check that a function is looked at once, with what its code names and writes, and that what it calls is looked at when it is known to execute.
#[test]
fn functions_are_looked_at() {
    let (code, mut known) = (View::new(), KnownCode::default());
    assert_eq!(known.learn(STORE, &code), Some(START));
    assert_eq!(known.learn(START, &code), Some(START));
    assert_eq!(known.learn(0x9000, &code), None);
    let sites: Vec<_> = known.sites_in(START).collect();
    assert_eq!(
        sites.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        [START, STORE]
    );
    assert_eq!(
        sites
            .iter()
            .map(|(_, site)| site.has(AccessSite::WRITES))
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(
        (known.variables.of(START), known.variables.of(STORE)),
        (Some(DATA), None)
    );
    known.look_at_called(&code, Timekeeper::Steps);
    assert_eq!(known.take_new(), [START]);
    known.executes(START, &code);
    known.look_at_called(&code, Timekeeper::Steps);
    assert_eq!(known.take_new(), [OTHER]);
    assert!(known.take_new().is_empty());
    assert_eq!(known.coverage(), (2, 0));
}

/// Check that sites are found by addresses beside and behind them.
#[test]
fn sites_are_found() {
    let (code, mut known) = (View::new(), KnownCode::default());
    assert_eq!(known.site_before(BEHIND, &code), Some(STORE));
    assert_eq!(known.site_before(STORE, &code), Some(START));
    assert_eq!(known.site_before(START, &code), None);
    assert_eq!(known.site_beside(START + 1), Some(START));
    assert_eq!(known.site_beside(STORE + u64::from(BESIDE)), Some(STORE));
    assert_eq!(known.site_beside(STORE + u64::from(BESIDE) + 1), None);
    assert_eq!(known.start_of(BEHIND), Some(START));
    assert_eq!(known.start_of(START - 1), None);
}

/// Check what the outcomes of stalls say of sites: which were stalled at, and which others use, whose frame is nobody's own then.
#[test]
fn outcomes_are_counted() {
    let (code, mut known) = (View::new(), KnownCode::default());
    known.learn(START, &code);
    for outcome in [Outcome::NotReached, Outcome::Unsuitable, Outcome::Unused] {
        known.outcome(STORE, outcome);
    }
    assert_eq!(known.coverage(), (2, 0));
    for outcome in [Outcome::Quiet, Outcome::Locked] {
        known.outcome(STORE, outcome);
    }
    assert_eq!(known.coverage(), (2, 1));
    assert!(known.own_frame(STORE) > 0);
    known.outcome(
        STORE,
        Outcome::Shared(Conflict {
            behind: BEHIND,
            distance: Duration::from_millis(1),
        }),
    );
    assert_eq!(known.own_frame(STORE), 0);
    known.shares(START);
    let expected = LookedAt {
        start: START,
        sites: 2,
        sampled: 1,
        contended: 2,
    };
    assert_eq!(known.looked_at(), [expected]);
    // Of no site nothing is known.
    known.outcome(BEHIND, Outcome::Quiet);
    assert_eq!(known.coverage(), (2, 1));
}

/// Check that what a function calls is looked at as soon as somebody came to a site of it, not before.
#[test]
fn whoever_comes_shows_what_is_called() {
    let code = View::new();
    for (outcome, is_called) in [(Outcome::NotReached, false), (Outcome::Held, true)] {
        let mut known = KnownCode::default();
        known.learn(START, &code);
        known.outcome(STORE, outcome);
        known.look_at_called(&code, Timekeeper::Steps);
        assert_eq!(known.take_new().contains(&OTHER), is_called);
    }
}
