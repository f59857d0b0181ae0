//! The headers of a file, by which those are chosen that carry metadata: whatever they say, an answer or an error.
//! Format of the input: an ELF file.

#![no_main]

use gwp_race::symbols::Carried;
use libfuzzer_sys::fuzz_target;

/// With what the name of a section of metadata begins.
const NAME: &[u8] = b"sanmd_";
/// The longest build id.
const LONGEST: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Ok(carried) = Carried::by(bytes, bytes.len() as u64) else {
        return;
    };
    assert!(carried.build_id.len() <= LONGEST);
    let has_name = || bytes.windows(NAME.len()).any(|window| window == NAME);
    assert!(!carried.metadata || has_name());
    // What is not whole carries nothing, whatever is there of it.
    let shorter = bytes.len() as u64 - 1;
    if let Ok(cut) = Carried::by(bytes, shorter) {
        assert!(carried.metadata || !cut.metadata);
    }
});
