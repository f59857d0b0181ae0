//! What hosts send to a collector: a message, or an error by which it is refused, for good or until the collector is newer.
//! Format of the input: one byte that says whether the rest is packed (0) or JSON, then that.

#![no_main]

use gwp_race::delivery::Message;
use libfuzzer_sys::fuzz_target;

/// Bytes of a message that is unpacked.
const MOST: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&form, data)) = input.split_first() else {
        return;
    };
    let read = if form == 0 {
        Message::decode(data, MOST)
    } else {
        Message::of_json(data)
    };
    match read {
        // What is taken can be sent on, and is the same then.
        Ok(message) => {
            let again = Message::decode(&message.encode(), 16 * MOST);
            assert_eq!(again.expect("a message"), message);
        }
        Err(error) => assert!(matches!(error.status(), 400 | 413 | 422 | 426), "{error}"),
    }
});
