//! The words of decisions are those that are explained.

use std::collections::BTreeSet;

use super::*;

/// What explains them.
const PAGE: &str = include_str!("../../../../docs/how-it-works.md");
const SECTION: &str = "### Decisions\n";

/// What the engine adds to the words of strategies: ways to a place without a wait, and what comes of watching a variable, or of a claim.
const OF_ENGINE: [&str; 7] = [
    "clock",
    "arrival",
    "preempted",
    "variable",
    "written",
    "unwritten",
    "early",
];

/// What is known of bytes, each once.
fn all_known() -> Vec<Known> {
    let all = vec![Known::Nothing, Known::Contended, Known::Address];
    for known in &all {
        // Whoever adds one is to add it above.
        match known {
            Known::Nothing | Known::Contended | Known::Address => {}
        }
    }
    all
}

/// What can come of a proposal, each once.
fn all_outcomes() -> Vec<Outcome> {
    let conflict = Conflict {
        behind: 0,
        distance: Duration::ZERO,
    };
    let all = vec![
        Outcome::NotReached,
        Outcome::Held,
        Outcome::TooOften,
        Outcome::Unsuitable,
        Outcome::KnownPrivate,
        Outcome::Beside,
        Outcome::Quiet,
        Outcome::Locked,
        Outcome::Shared(conflict),
        Outcome::Private,
        Outcome::Unused,
        Outcome::Blind,
        Outcome::Hit(conflict),
        Outcome::Repeat,
    ];
    for outcome in &all {
        // Whoever adds one is to add it above.
        match outcome {
            Outcome::NotReached
            | Outcome::Held
            | Outcome::TooOften
            | Outcome::Unsuitable
            | Outcome::KnownPrivate
            | Outcome::Beside
            | Outcome::Quiet
            | Outcome::Locked
            | Outcome::Shared(_)
            | Outcome::Private
            | Outcome::Unused
            | Outcome::Blind
            | Outcome::Hit(_)
            | Outcome::Repeat => {}
        }
    }
    all
}

/// Check that each word of a decision is explained once, and none that there is not.
#[test]
fn all_words_are_explained() {
    let (_, section) = PAGE.split_once(SECTION).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let (word, meaning) = line.strip_prefix("| `")?.split_once("` | ")?;
        assert!(meaning.len() > " |".len(), "{word} is not explained");
        Some(word)
    });
    let explained: Vec<&str> = rows.collect();
    let outcomes = all_outcomes();
    let known = all_known();
    let names = known.iter().map(|known| known.name());
    let names = names.chain(outcomes.iter().map(|outcome| outcome.name()));
    let there_are: BTreeSet<&str> = names.chain(OF_ENGINE).collect();
    assert_eq!(
        there_are.len(),
        known.len() + outcomes.len() + OF_ENGINE.len(),
        "a word means two things"
    );
    let told: BTreeSet<&str> = explained.iter().copied().collect();
    assert_eq!(told, there_are);
    assert_eq!(
        told.len(),
        explained.len(),
        "a word is explained twice: {explained:?}"
    );
}
