//! Whole files whose debug information is read, as the reader without rights reads it: whatever DWARF and unwind tables say, an answer that the daemon takes, or none.
//! Format of the input: an ELF file.

#![no_main]

use std::{
    fs::File,
    io::{Seek as _, Write as _},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use gwp_race::{
    insn::Regs,
    symbols::{
        Answer, Beside, FileIdentity, Looked, Opened, Question, Registers, Shelf, StackSnapshot,
        Wanted,
    },
};
use libfuzzer_sys::fuzz_target;

/// The number by which the file is known.
const FILE: u64 = 1;
/// Stretches of code in which addresses are asked for, and addresses of each.
const STRETCHES: usize = 2;
const ADDRESSES: u64 = 6;
/// No more is asked after this: one question may take half a second here.
const ENOUGH: Duration = Duration::from_secs(2);
/// Where the stack is that is told beside.
const STACK: u64 = 0x7000;
const STACK_WORDS: u64 = 64;

/// The file of which all inputs are the contents, one after the other.
static PLACE: LazyLock<File> = LazyLock::new(|| tempfile::tempfile().expect("a file"));

/// Nothing belongs to the file; compressed sections have room.
struct Alone;

impl Beside for Alone {
    fn look(&self, wanted: &Wanted) -> Looked {
        match (wanted, tempfile::tempfile()) {
            (Wanted::Scratch, Ok(file)) => Looked::Found(Opened {
                file,
                identity: FileIdentity::default(),
            }),
            _ => Looked::NoPlace,
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut place = PLACE.try_clone().expect("a descriptor");
    place.set_len(0).expect("an empty file");
    place.rewind().expect("its beginning");
    place.write_all(bytes).expect("a file that is written");
    let Ok(opened) = Opened::elf(place) else {
        return;
    };
    let begun = Instant::now();
    let mut shelf = Shelf::default();
    let Ok(facts) = shelf.open(FILE, opened, Arc::new(Alone)) else {
        return;
    };
    for &(start, end) in facts.code.iter().take(STRETCHES) {
        let step = (end.saturating_sub(start) / ADDRESSES).max(1);
        for place in 0..ADDRESSES {
            if begun.elapsed() > ENOUGH {
                return;
            }
            ask(&mut shelf, start.wrapping_add(place.wrapping_mul(step)));
        }
    }
    if let Some((low, high)) = facts.range {
        let step = (high.saturating_sub(low) / ADDRESSES).max(1);
        for place in 0..ADDRESSES {
            if begun.elapsed() > ENOUGH {
                return;
            }
            let at = low.wrapping_add(place.wrapping_mul(step));
            let pc = facts.code.first().map_or(0, |&(start, _)| start);
            put(&mut shelf, Question::Object(at));
            put(&mut shelf, Question::Bytes(at, 16));
            let bytes = (at, 4);
            put(&mut shelf, Question::Member { pc, bytes });
        }
    }
    put(&mut shelf, Question::LeftOut("fuzzed".to_owned()));
});

/// Asks all that is asked of code.
fn ask(shelf: &mut Shelf, pc: u64) {
    let regs = Regs {
        rip: pc,
        rsp: STACK + 0x80,
        rbp: STACK + 0x100,
        rdi: STACK + 0x88,
        ..Regs::default()
    };
    for question in [
        Question::Frames(pc),
        Question::Function(pc),
        Question::IsOfNoPlace(pc),
        Question::Result(pc),
        Question::IsStrict(pc),
        Question::Code(pc),
        Question::Step(pc, Box::new(Registers::new(&regs))),
    ] {
        put(shelf, question);
    }
    for at in [STACK + 0x78, STACK + 0x90] {
        let bytes = (at, 8);
        put(
            shelf,
            Question::Held {
                pc,
                regs: Box::new(regs),
                bias: 0,
                bytes,
            },
        );
        for cfa in [None, Some(STACK + 0xa0)] {
            put(
                shelf,
                Question::Named {
                    pc,
                    regs: Box::new(regs),
                    bias: 0,
                    cfa,
                    bytes,
                },
            );
        }
    }
}

/// Puts a question, whose answer is one that the daemon takes.
fn put(shelf: &mut Shelf, question: Question) {
    static SNAPSHOT: LazyLock<StackSnapshot> = LazyLock::new(|| StackSnapshot {
        base: STACK,
        bytes: (0..STACK_WORDS).flat_map(u64::to_le_bytes).collect(),
    });
    let answer: Option<Answer> = shelf.ask(FILE, &question, Some(&SNAPSHOT));
    if let Some(answer) = answer {
        let told = format!("{answer:?}");
        assert!(answer.checked(&question).is_some(), "{question:?}: {told}");
    }
}
