//! A table of coverage points. Format of the input: the section.

#![no_main]

use gwp_race::pcmeta::Coverage;
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let coverage = decode("__sancov_pcs", data, |section, file| {
        Coverage::decode(&[section], file)
    });
    if let Some(coverage) = coverage {
        assert_eq!(coverage.points().len() * 16, data.len());
    }
});
