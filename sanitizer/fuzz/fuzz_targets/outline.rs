//! What is told of the code of a file. Format of the input: one byte that says whether the rest is what a reader has told (0), or a file of which one is
//! to be told, then that.

#![no_main]

use std::path::Path;

use gwp_race::{
    addr::LinkAddr,
    image::{Image, Raw},
    insn::Regs,
    symbols::{Outline, Outlined, StackSnapshot},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&form, data)) = input.split_first() else {
        return;
    };
    let name = Path::new("a");
    let outline = if form == 0 {
        Outline::of_bytes(data).ok()
    } else {
        let image = Image::parse(data.to_vec(), name);
        image.ok().map(|image| Outline::of(&image))
    };
    let Some(outline) = outline else {
        return;
    };
    // What is taken, or made, can be told on, and is the same then.
    let bytes = outline.to_bytes().expect("there is memory");
    let again = Outline::of_bytes(&bytes).expect("it is sound");
    assert_eq!(again.to_bytes().expect("there is memory"), bytes);
    ask(&Outlined::new(Raw::of_bytes(data.to_vec(), name), again));
});

/// Asks all that a tracer asks.
fn ask(file: &Outlined) {
    let stack = StackSnapshot {
        base: 0x7000,
        bytes: (0..64u64).flat_map(u64::to_le_bytes).collect(),
    };
    let regs = Regs {
        rsp: 0x7080,
        rbp: 0x7100,
        ..Regs::default()
    };
    let named = file.declared().functions().map(|(at, _)| at);
    let cells = file.declared().cells().map(|(at, _)| at);
    let mut addresses: Vec<LinkAddr> = named.chain(cells).collect();
    addresses.extend(file.segments().iter().map(|segment| segment.address));
    if let Some(metadata) = file.metadata() {
        let functions: Vec<_> = metadata.functions().take(64).collect();
        for function in &functions {
            assert!(function.start < function.end);
            assert_eq!(metadata.function_at(function.start), Some(*function));
            addresses.push(function.start);
        }
        assert!(metadata.atomics().take(64).all(|pc| metadata.is_atomic(pc)));
    }
    addresses.extend([LinkAddr(0), LinkAddr(u64::MAX)]);
    addresses.extend((0..64).map(|step| LinkAddr(step * 16)));
    for pc in addresses {
        if let Some(range) = file.frames().extent(pc) {
            assert!(range.contains(&pc));
        }
        let _ = file.frames().caller(pc, &regs, &stack);
        let _ = file.frames().may_land(pc);
        let named = file.functions().before(pc);
        assert!(named.is_none_or(|named| named.start <= pc));
        assert!(!file.functions().begins_at(pc) || named.is_some_and(|named| named.start == pc));
        let _ = (file.is_stub(pc), file.bytes_at(pc, 16));
    }
}
