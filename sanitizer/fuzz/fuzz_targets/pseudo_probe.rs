//! A section of pseudo probes. Format of the input: the section; the function of its first eight bytes is
//! one whose address is known.

#![no_main]

use std::collections::HashMap;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::PseudoProbes;
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let known = data
        .first_chunk()
        .map(|first| (u64::from_le_bytes(*first), LinkAddr(0x1000)));
    let starts = HashMap::from_iter(known);
    let mut probes = 0;
    let functions = decode(".pseudo_probe", data, |section, file| {
        probes = 0;
        PseudoProbes::decode(&section, &starts, file, |_, sites| {
            assert!(sites.len() * 11 <= data.len());
            probes += 1;
        })
    });
    if let Some(functions) = functions {
        assert!(functions * 10 <= data.len() && probes * 3 <= data.len());
    }
});
