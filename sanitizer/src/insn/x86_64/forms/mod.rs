//! Each form of instruction under a real watchpoint: what it accesses, said by the processor, is
//! what is foreseen before it and what is recovered after it.
//!
//! The table says which bytes a form accesses. Each is run several times, with the watchpoint on
//! the first byte, on the last, on what the detector would watch, and on the bytes next to it:
//! only where all of those behave is the table right.

mod group;
mod program;
mod table;

use std::collections::HashSet;
use std::fmt::Debug;

use group::{Group, Outcome, Truth};
use program::{Program, Run, Watch};

use super::stepping::{code_at, containing};
use super::{accesses_before, attribute};
use crate::insn::{Attributed, MemAccess, Regs, Undetermined, ranges_overlap};
use crate::kernel::perf::WatchKind;

/// How many forms there are at least, on any processor.
const FORMS: usize = 300;

/// A form, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    source: &'static str,
    group: &'static Group,
}

/// What the processor has, as the kernel names it.
fn features() -> HashSet<String> {
    std::fs::read_to_string("/proc/cpuinfo")
        .expect("the kernel tells about the processor")
        .lines()
        .find_map(|line| line.strip_prefix("flags")?.split_once(':'))
        .map(|(_, flags)| flags.split_whitespace().map(str::to_owned).collect())
        .expect("x86 processors have flags")
}

/// Forms that may take a second try.
const MOST_LOST: usize = 3;

#[derive(Debug, Default)]
struct Tally {
    forms: usize,
    traps: usize,
    quiet: usize,
    exact: usize,
    overwritten: usize,
    repeated: usize,
    late: usize,
    counted: usize,
    /// Hits next to what is accessed.
    beside: usize,
}

/// Check that what each form accesses is foreseen, and recovered from a trap, with PC, kind, size
/// and address; or refused, with the reason that the table has.
#[test]
fn every_form_under_a_watchpoint() {
    let present = features();
    let (forms, absent): (Vec<Form>, Vec<Form>) = table::groups()
        .flat_map(|group| {
            group
                .sources
                .iter()
                .map(move |source| Form { source, group })
        })
        .partition(|form| {
            let mut needs = form.group.needs.split_whitespace();
            needs.all(|flag| present.contains(flag))
        });
    let distinct: HashSet<(&str, &str)> = forms
        .iter()
        .chain(&absent)
        .map(|form| (form.source, form.group.setup))
        .collect();
    assert_eq!(
        distinct.len(),
        forms.len() + absent.len(),
        "a form stands twice"
    );

    let mut program = Program::start(&forms);
    let mut tally = Tally::default();
    let mut problems = Vec::new();
    let mut again = 0;
    for (i, form) in forms.iter().enumerate() {
        tally.forms += 1;
        // A virtual machine may lose a trap (docs/compatibility.md); what is wrong stays wrong.
        if let Err(problem) = check(&mut program, i, form, &mut tally) {
            println!("{}: {problem}; once more", form.source);
            again += 1;
            program = Program::start(&forms);
        } else {
            continue;
        }
        if let Err(problem) = check(&mut program, i, form, &mut tally) {
            problems.push(format!("{}: {problem}", form.source));
        }
    }
    println!(
        "{tally:?}; {} forms that this processor lacks",
        absent.len()
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(again <= MOST_LOST, "{again} forms took two tries");
    let everywhere = forms.iter().filter(|form| form.group.needs.is_empty());
    assert!(everywhere.count() >= FORMS);
}

fn differ<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:x?} instead of {expected:x?}"))
}

fn check(program: &mut Program, i: usize, form: &Form, tally: &mut Tally) -> Result<(), String> {
    let group = form.group;
    let start = program.registers();
    let accesses: Vec<MemAccess> = group
        .truths
        .iter()
        .flatten()
        .map(|truth| access(group, truth, &start))
        .collect();

    let watched = |address, len, kind| Watch { address, len, kind };
    let both = WatchKind::ReadsAndWrites;
    for own in &accesses {
        let end = own.address + u64::from(own.size);
        let (block, block_len) = largest_block(own);
        for watch in [
            watched(own.address, 1, both),
            watched(end - 1, 1, both),
            watched(block, block_len, both),
        ] {
            let run = run(program, i, watch)?;
            if run.hit.is_none()
                && group.halved
                && watch.address >= own.address + u64::from(own.size / 2)
            {
                continue;
            }
            let after = run.hit.ok_or_else(|| format!("{watch:x?} is not hit"))?;
            tally.traps += 1;
            foreseen(program, i, group, &accesses, &run.before)?;
            recovered(program, i, form, own, &after, watch, tally)
                .map_err(|problem| format!("{watch:x?}: {problem}"))?;
        }
        let stores = run(program, i, watched(own.address, 1, WatchKind::Writes))?;
        let stored = accesses
            .iter()
            .any(|other| other.overlaps(own.address, 1) && other.kind.writes());
        differ("stores", &stores.hit.is_some(), &stored)?;
    }

    // Bytes beside them.
    let mut outside: Vec<u64> = accesses
        .iter()
        .flat_map(|own| [own.address - 1, own.address + u64::from(own.size)])
        .filter(|&byte| !accesses.iter().any(|own| own.overlaps(byte, 1)))
        .collect();
    if accesses.is_empty() {
        outside.push(start.rbx);
    }
    for byte in outside {
        let watch = watched(byte, 1, both);
        let run = run(program, i, watch)?;
        foreseen(program, i, group, &accesses, &run.before)?;
        let Some(after) = run.hit else {
            tally.quiet += 1;
            continue;
        };
        tally.beside += 1;
        let offset = byte.wrapping_sub(start.rbx).cast_signed();
        differ(&format!("rbx{offset:+#x}"), &"hit", &group.beside())?;
        let reason = match group.outcome {
            Outcome::Counted(reason) | Outcome::Unknown { after: reason, .. } => reason,
            _ => Undetermined::NoMatch,
        };
        differ("beside it", &answer(program, &after, watch)?, &Err(reason))?;
    }
    Ok(())
}

fn run(program: &mut Program, i: usize, watch: Watch) -> Result<Run, String> {
    let function = program.function(&format!("form_{i}")).clone();
    program.run(&function, watch)
}

fn access(group: &Group, truth: &Truth, regs: &Regs) -> MemAccess {
    MemAccess {
        address: truth.place.of(regs).wrapping_add_signed(truth.offset),
        size: truth.size,
        kind: truth.kind,
        locked: group.locked && !truth.implicit,
        thread_local: group.thread_local && !truth.implicit,
        stack_implicit: truth.implicit,
    }
}

/// As the detector watches an access of its own: an aligned block inside it.
fn largest_block(access: &MemAccess) -> (u64, u8) {
    let end = access.address + u64::from(access.size);
    [8u8, 4, 2]
        .into_iter()
        .find_map(|len| {
            let first = access.address.next_multiple_of(u64::from(len));
            (first + u64::from(len) <= end).then_some((first, len))
        })
        .unwrap_or((access.address, 1))
}

/// What is said about the accesses before they are made.
fn foreseen(
    program: &Program,
    i: usize,
    group: &Group,
    accesses: &[MemAccess],
    before: &Regs,
) -> Result<(), String> {
    let function = program.function(&format!("form_{i}"));
    let found = accesses_before(code_at(function, before.rip), before);
    let expected = match group.outcome {
        Outcome::Unknown { before, .. } => Err(before),
        Outcome::RepeatedUntil => Err(Undetermined::DataDependent),
        _ => Ok(sorted(accesses.to_vec())),
    };
    differ("before it", &found.map(sorted), &expected)
}

/// By address; neighbours of one kind as one access (`iretq` loads five words).
fn sorted(mut accesses: Vec<MemAccess>) -> Vec<MemAccess> {
    accesses.sort_by_key(|access| (access.address, access.kind));
    accesses.dedup_by(|next, access| {
        let end = access.address + u64::from(access.size);
        let neighbours = end == next.address && access.kind == next.kind;
        if neighbours {
            access.size += next.size;
        }
        neighbours
    });
    accesses
}

/// What the detector would be told about a hit.
fn answer(
    program: &Program,
    after: &Regs,
    watch: Watch,
) -> Result<Result<Attributed, Undetermined>, String> {
    // As the detector does: one byte back from the trap is still in the function.
    let function = containing(program.functions(), after.rip.wrapping_sub(1))
        .ok_or_else(|| format!("stopped at {:#x}, in no function", after.rip))?;
    let watch = (watch.address, u32::from(watch.len));
    Ok(attribute(function.start, &function.code, after, watch))
}

/// Whether that is right.
fn recovered(
    program: &Program,
    i: usize,
    form: &Form,
    own: &MemAccess,
    after: &Regs,
    watch: Watch,
    tally: &mut Tally,
) -> Result<(), String> {
    let found = answer(program, after, watch)?;
    let watch = (watch.address, u32::from(watch.len));
    if let Outcome::Counted(reason) | Outcome::Unknown { after: reason, .. } = form.group.outcome {
        tally.counted += 1;
        return differ("after it", &found, &Err(reason));
    }
    let found = found.map_err(|reason| format!("after it: {reason}, at {:#x}", after.rip))?;
    let home = program.function(&format!("form_{i}"));
    let pc = pc_of_form(home);
    differ("PC", &(found.pc, found.len), &pc)?;
    let expected = match form.group.outcome {
        Outcome::Overwritten => {
            tally.overwritten += 1;
            Attributed {
                address_exact: false,
                access: MemAccess {
                    address: watch.0,
                    ..*own
                },
                ..found
            }
        }
        Outcome::Repeated | Outcome::RepeatedUntil => {
            tally.repeated += 1;
            tally.late += usize::from(!found.address_exact);
            let bytes = (found.access.address, found.access.size);
            let inside = found.access.address >= own.address
                && bytes.0 + u64::from(bytes.1) <= own.address + u64::from(own.size);
            differ("within its bytes", &inside, &true)?;
            differ("at the watch", &ranges_overlap(bytes, watch), &true)?;
            Attributed {
                access: MemAccess {
                    address: bytes.0,
                    size: bytes.1,
                    ..*own
                },
                ..found
            }
        }
        _ => {
            tally.exact += 1;
            Attributed {
                address_exact: true,
                access: *own,
                ..found
            }
        }
    };
    differ("after it", &found, &expected)
}

/// Address and length of a form's instruction: between the first int3 that stands in the code as
/// an instruction, and the nop and int3 that end it.
fn pc_of_form(function: &super::testing::Function) -> (u64, u32) {
    let mut offset = 0;
    loop {
        let code = &function.code[offset..];
        let len = super::length(code).expect("what was assembled decodes");
        offset += len;
        if code[0] == INT3 {
            break;
        }
    }
    let len = function.code.len() - offset - 2;
    (
        function.start + offset as u64,
        u32::try_from(len).expect("instructions are short"),
    )
}

const INT3: u8 = 0xcc;
