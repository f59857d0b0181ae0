//! Lines of the source, for those who read what was found.

use std::{collections::BTreeMap, path::Path};

use super::{format::Header, recorded::Recorded};
use crate::{
    image::Image,
    symbols::{ModuleInfo, Symbolizer},
};

/// Gives names to the lines of all sites that were executed: the innermost ones, where calls were inlined.
pub(super) fn name(recorded: &mut Recorded, program: &Path, image: &Image, header: &Header) {
    let begins = image
        .segments()
        .iter()
        .map(|segment| segment.address.0)
        .min();
    let mut symbolizer = Symbolizer::new();
    symbolizer.add_module(&ModuleInfo {
        path: program.display().to_string(),
        via: program.to_owned().into(),
        start: header.base,
        end: header.end,
        bias: header.base.wrapping_sub(begins.unwrap_or(0)),
        build_id: Vec::new(),
    });
    let mut numbers = BTreeMap::new();
    for site in recorded.sites.iter_mut().filter(|site| site.comes > 0.0) {
        // The call itself, not what follows it.
        let frames = symbolizer.frames(header.base + u64::from(site.offset) - 1);
        let frame = frames.first();
        let file = frame.and_then(|frame| frame.file.as_deref()).unwrap_or("?");
        let file = file.rsplit('/').next().unwrap_or(file);
        let line = frame.and_then(|frame| frame.line).unwrap_or(0);
        let count = numbers.len() as u32;
        site.line = Some(*numbers.entry(format!("{file}:{line}")).or_insert(count));
    }
    let mut lines: Vec<_> = numbers.into_iter().collect();
    lines.sort_by_key(|(_, number)| *number);
    recorded.lines = lines.into_iter().map(|(line, _)| line).collect();
}
