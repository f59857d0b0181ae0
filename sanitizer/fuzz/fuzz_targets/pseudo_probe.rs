//! A section of pseudo probes. Format of the input: the section; the function of its first eight bytes is
//! one whose address is known.

#![no_main]

use std::collections::HashMap;
use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{PseudoProbes, RawSection};
use gwp_race_fuzz::{check_error, within_limits};
use libfuzzer_sys::fuzz_target;

const NAME: &str = ".pseudo_probe";

fuzz_target!(|data: &[u8]| {
    let section = RawSection {
        name: NAME,
        address: LinkAddr(0),
        data,
    };
    let known = data
        .first_chunk()
        .map(|first| (u64::from_le_bytes(*first), LinkAddr(0x1000)));
    let starts = HashMap::from_iter(known);
    let mut probes = 0;
    let decode = || {
        PseudoProbes::decode(&section, &starts, Path::new("fuzzed"), |_, sites| {
            assert!(sites.len() * 11 <= data.len());
            probes += 1;
        })
    };
    match within_limits(data.len(), decode) {
        Ok(functions) => assert!(functions * 10 <= data.len() && probes * 3 <= data.len()),
        Err(error) => check_error(&error, NAME),
    }
});
