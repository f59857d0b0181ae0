//! A table of coverage points. Format of the input: the section.

#![no_main]

use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{Coverage, RawSection};
use gwp_race_fuzz::{check_error, within_limits};
use libfuzzer_sys::fuzz_target;

const NAME: &str = "__sancov_pcs";

fuzz_target!(|data: &[u8]| {
    let section = RawSection {
        name: NAME,
        address: LinkAddr(0),
        data,
    };
    match within_limits(data.len(), || {
        Coverage::decode(&[section], Path::new("fuzzed"))
    }) {
        Ok(coverage) => assert_eq!(coverage.points().len() * 16, data.len()),
        Err(error) => check_error(&error, NAME),
    }
});
