//! What a collector says that others have learned of a build: a file of hints, or an error by which it is ignored.
//! Format of the input: one byte that says whether the rest is packed (0) or not, then that.

#![no_main]

use gwp_race::delivery::hints::HintFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&form, data)) = input.split_first() else {
        return;
    };
    let read = if form == 0 {
        HintFile::decode(data)
    } else {
        HintFile::of_bytes(data)
    };
    if let Ok(file) = read {
        assert!(file.module.can_be_shared());
        assert!(file.functions.iter().all(|function| function.is_sound()));
        // What is taken can be told on, and is the same then.
        let again = HintFile::decode(&file.encode());
        assert_eq!(again.expect("a file"), file);
    }
});
