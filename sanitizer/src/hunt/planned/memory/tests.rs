//! Whether functions are known again, and what is told of them.

use super::*;
use crate::hunt::{
    plan::event::{MemberId, SiteFacts, VariableId},
    world::image::{CodeImage, LENGTH},
};

/// A program whose functions access these members of what they are given, each in as many sites as there are; 0 stands for a variable.
fn image(functions: &[&[u32]]) -> CodeImage {
    let sites = functions
        .iter()
        .enumerate()
        .flat_map(|(function, members)| {
            let facts = move |member: &u32| SiteFacts {
                site: SiteId(0),
                function: FunctionId(function as u64),
                writes: true,
                variable: (*member == 0).then_some(VariableId(function as u64)),
                member: Some(MemberId(*member)),
                can_be_probed: false,
            };
            members.iter().map(facts)
        });
    let mut facts: Vec<_> = sites.collect();
    for (number, facts) in (0..).zip(&mut facts) {
        facts.site = SiteId(number);
    }
    CodeImage::of(&facts)
}

fn starts(code: &CodeImage) -> Vec<u64> {
    let all = (0..code.function_count()).filter_map(|number| code.some_function(number));
    all.collect()
}

fn begin(code: &CodeImage) -> u64 {
    code.module_of(starts(code)[0]).unwrap().0.start
}

fn memory() -> Memory {
    Memory {
        is_kept: true,
        ..Memory::default()
    }
}

fn seen(came: f32) -> Counts {
    counts_of(&vec![(0, came), (2, 1.0)]).unwrap()
}

/// What is gained where all functions were looked at, and `came` threads came to the second site of each function that has one.
fn gained(code: &CodeImage, came: f32) -> Vec<KnownFunction> {
    let mut memory = memory();
    let starts = starts(code);
    for start in &starts {
        assert!(memory.looked_at(*start, code).is_empty());
    }
    let sites = starts
        .iter()
        .map(|start| (SiteId(start + LENGTH), seen(came)));
    let function = |site: u64| starts.iter().copied().rfind(|start| *start <= site);
    let gained = memory.gained(sites.collect(), &[], function, true, code);
    assert!(
        gained
            .iter()
            .all(|part| part.is_whole && part.module == begin(code))
    );
    assert!(
        memory
            .gained(Vec::new(), &[], function, true, code)
            .is_empty()
    );
    gained.into_iter().flat_map(|part| part.functions).collect()
}

fn tell(memory: &mut Memory, code: &CodeImage, of: Of, functions: &[KnownFunction]) {
    for part in Remembered::in_parts(begin(code), vec![(of, functions.to_vec())]) {
        memory.remember(part);
    }
}

/// All that is told when all functions are looked at, sorted.
fn told(memory: &mut Memory, code: &CodeImage) -> Vec<String> {
    let mut told = Vec::new();
    for start in starts(code) {
        told.extend(memory.looked_at(start, code));
    }
    told.extend(memory.news(code));
    in_words(&told, code)
}

/// The same, of functions that were looked at before.
fn told_later(memory: &mut Memory, code: &CodeImage) -> Vec<String> {
    in_words(&memory.news(code), code)
}

fn in_words(told: &[What], code: &CodeImage) -> Vec<String> {
    let starts = starts(code);
    let number = |at: u64| starts.iter().rposition(|start| *start <= at).unwrap();
    let words = told.iter().map(|what| match what {
        What::Told(sites) => {
            let [(SiteId(site), counts)] = sites[..] else {
                panic!("{sites:?}");
            };
            format!("{}: {}", number(site), counts.came)
        }
        What::New(FunctionId(start)) => format!("{}: new", number(*start)),
        what => panic!("{what:?}"),
    });
    let mut words: Vec<_> = words.collect();
    words.sort_unstable();
    words
}

const WHOLE: Of = Of::Others { is_whole: true };
const PART: Of = Of::Others { is_whole: false };

/// Check that what was seen is told again of the same build, once, whether the functions were looked at before or after it was known; and anew where they were forgotten.
#[test]
fn the_same_build_is_known() {
    let code = image(&[&[1, 2], &[3, 4], &[3, 4]]);
    let known = gained(&code, 4.0);
    assert_eq!(known.len(), 3);
    let all = ["0: 4", "1: 4", "2: 4"];

    let mut before = memory();
    tell(&mut before, &code, Of::Same, &known);
    assert_eq!(told(&mut before, &code), all);
    assert!(told_later(&mut before, &code).is_empty());
    before.forget();
    assert_eq!(told(&mut before, &code), all);

    let mut after = memory();
    assert!(told(&mut after, &code).is_empty());
    tell(&mut after, &code, Of::Same, &known);
    assert_eq!(told_later(&mut after, &code), all);
    tell(&mut after, &code, Of::Same, &known);
    assert!(told_later(&mut after, &code).is_empty());
}

/// Check that functions of another build are known wherever they stand now, and that those are new which no such build has, if all of one are known, until they were tried.
#[test]
fn other_builds_are_known() {
    let before = image(&[&[1, 2], &[3, 4], &[5, 6]]);
    let known = gained(&before, 4.0);
    let code = image(&[&[7, 8], &[3, 4], &[9], &[1, 2]]);
    let mut memory = memory();
    tell(&mut memory, &code, WHOLE, &known);
    assert_eq!(
        told(&mut memory, &code),
        ["0: new", "1: 4", "2: new", "3: 4"]
    );

    let mut memory = self::memory();
    tell(&mut memory, &code, PART, &known);
    assert_eq!(told(&mut memory, &code), ["1: 4", "3: 4"]);

    // The first one was tried meanwhile, and the second one once more.
    let mut own = gained(&code, 1.0);
    own[2].sites.clear();
    own[3].sites.clear();
    let all = vec![(Of::Same, own), (WHOLE, known)];
    let mut memory = self::memory();
    for part in Remembered::in_parts(begin(&code), all) {
        memory.remember(part);
    }
    assert_eq!(told(&mut memory, &code), ["0: 1", "1: 5", "2: new", "3: 4"]);
}

/// Check that a record of other code at the same place is not believed, nor one with nonsense in it, nor any where too many are told; and that where nobody keeps
/// anything, nothing is done.
#[test]
fn nonsense_is_left_out() {
    let code = image(&[&[1, 2], &[3, 4]]);
    let mut known = gained(&code, 4.0);
    known[0].fingerprint ^= 1;
    known[1].sites.push((u32::MAX, vec![(0, f32::NAN)]));
    known[1].sites.push((6, vec![(99, 1.0)]));
    let mut memory = memory();
    tell(&mut memory, &code, Of::Same, &known);
    let told_all = told(&mut memory, &code);
    assert_eq!(told_all.len(), 1, "{told_all:?}");

    let mut memory = self::memory();
    let many: Vec<_> = (0..MOST_REMEMBERED as u64 + 9)
        .map(|at| KnownFunction {
            at,
            fingerprint: at,
            ..KnownFunction::default()
        })
        .collect();
    tell(&mut memory, &code, Of::Same, &many);
    for module in 0..2 * MOST_MODULES as u64 {
        Remembered::in_parts(module, Vec::new())
            .into_iter()
            .for_each(|part| memory.remember(part));
    }
    let kept: usize = memory
        .modules
        .values()
        .map(|module| module.same.len())
        .sum();
    assert!(kept <= MOST_REMEMBERED && memory.modules.len() <= MOST_MODULES);

    let mut nobody = Memory::default();
    assert!(told(&mut nobody, &code).is_empty());
    let seen = vec![(SiteId(begin(&code)), seen(1.0))];
    assert!(nobody.gained(seen, &[], Some, true, &code).is_empty());
    assert!(nobody.functions.is_empty());
}

/// Check that races are known again, whoever of the two is stalled, in the same build and in another one, and that others are not.
#[test]
fn races_are_known() {
    let code = image(&[&[1, 2], &[3, 4], &[5, 6]]);
    let starts = self::starts(&code);
    let mut first = memory();
    for start in &starts {
        first.looked_at(*start, &code);
    }
    let function = |site: u64| starts.iter().copied().rfind(|start| *start <= site);
    let raced = [(starts[0] + LENGTH, starts[1])];
    let gained = first.gained(Vec::new(), &raced, function, true, &code);
    let known: Vec<_> = gained.into_iter().flat_map(|part| part.functions).collect();
    assert!(!first.knows_race(raced[0].0, raced[0].1));
    let moved = image(&[&[9], &[3, 4], &[1, 2], &[5, 6]]);
    let moved_starts = self::starts(&moved);
    for (code, of, one, other) in [
        (&code, Of::Same, starts[0], starts[1]),
        (&moved, WHOLE, moved_starts[2], moved_starts[1]),
    ] {
        let mut memory = memory();
        tell(&mut memory, code, of, &known);
        let _ = told_all(&mut memory, code);
        assert!(memory.knows_race(one + LENGTH, other));
        assert!(memory.knows_race(other, one + LENGTH));
        assert!(!memory.knows_race(one, other));
        assert!(!memory.knows_race(one + LENGTH, one));
    }
}

/// Tells of all functions, whatever that is.
fn told_all(memory: &mut Memory, code: &CodeImage) -> usize {
    let all = starts(code).into_iter();
    all.map(|start| memory.looked_at(start, code).len()).sum()
}
