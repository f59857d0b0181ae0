//! Suppressions made from races that were reported: each rule names one race, by what it is called in other builds as well (`identity.rs`). Code without
//! symbols has such names, too: they are made of the exact places, and hold for its build.

use super::clean::clean;
use super::identity::{self, NoName};
use super::model::Race;
use super::words::{sentence, summary_places};

/// Whether a user means this race by a name: its fingerprint, or what it is called.
#[must_use]
pub fn is_called(race: &Race, name: &str) -> bool {
    race.fingerprint == name || race.identity.is(name)
}

/// The rule that suppresses a race and no other one, below comments that tell which.
///
/// # Errors
/// The record has a name of another version of the rules, or none.
pub fn rule(race: &Race) -> Result<String, NoName> {
    let name = &race.identity.race;
    identity::check(name)?;
    let what = sentence(race);
    let places = summary_places(race);
    let (what, places) = (clean(&what), clean(&places));
    Ok(format!("# {what}\n# {places}\nidentity:{name}\n"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::report::{Hex, Suppressions, identity, sample};

    fn named(mut race: Race) -> Race {
        race.identity = identity(&race);
        race
    }

    /// Without symbols, as stripped code is, and at this offset.
    fn stripped(offset: u64) -> Race {
        let mut race = sample::race();
        race.location.name = None;
        for access in &mut race.accesses {
            access.stack.truncate(1);
            for frame in &mut access.stack {
                frame.function = None;
                frame.file = None;
                frame.line = None;
                frame.inlined = false;
                frame.offset = Hex(frame.offset.0 + offset);
            }
        }
        named(race)
    }

    /// Check that the rule of a race, of code with symbols and without, suppresses that one and none of the others; also in a file with several rules.
    #[test]
    fn rules_name_one_race() {
        let mut other_variable = sample::race();
        other_variable.location.name = Some("total".to_owned());
        let mut other_line = sample::race();
        other_line.accesses[0].stack[0].line = Some(8);
        let mut other_kind = sample::race();
        other_kind.accesses[1].atomic = false;
        let races = [
            named(sample::race()),
            named(other_variable),
            named(other_line),
            named(other_kind),
            stripped(0),
            stripped(4),
        ];
        let suppressed = |text: &str| {
            let mut list = Suppressions::parse(text, Path::new("supp")).unwrap();
            races.each_ref().map(|race| list.suppresses(race))
        };
        let rules = races.each_ref().map(|race| rule(race).unwrap());
        for (number, text) in rules.iter().enumerate() {
            let expected = std::array::from_fn(|other| other == number);
            assert_eq!(suppressed(text), expected, "{text}");
        }
        assert_eq!(suppressed(&rules.concat()), [true; 6]);
        assert!(is_called(&races[0], &races[0].fingerprint));
        assert!(is_called(&races[0], &races[0].identity.issue));
        assert!(!is_called(&races[0], &races[1].identity.race));
    }

    /// Check that a record makes no other rules than its own, whatever its words are, and that names of other versions make none.
    #[test]
    fn records_are_not_trusted() {
        let mut race = sample::race();
        race.location.name = Some("x\nrace:*".to_owned());
        race.accesses[0].thread_name = "y\nrace:*".to_owned();
        race.accesses[0].stack[0].file = Some("z\nrace:*".to_owned());
        let text = rule(&race).unwrap();
        let rules: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rules, [format!("identity:{}", race.identity.race)]);
        race.identity.race = "r1:00112233445566778899aabbccddeeff".to_owned();
        assert_eq!(rule(&race), Err(NoName::Version(1)));
        race.identity.race = "r3:x\nrace:*".to_owned();
        assert_eq!(rule(&race), Err(NoName::Form));
    }
}
