//! A PC section. Format of the input: a byte with what an entry is (bit 0: a function, 1: distances of
//! eight bytes, 2: ULEB128, 3 to 5: how many constants, 6: there is another kind, the same without constants, 7: the
//! first constant is no integer), a byte with the sizes of up to four constants, two bits each (the largest has 16
//! bytes), then the section.

#![no_main]

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{PcConstantForm, PcEntryForm, PcSection, PcSectionDescription};
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let &[choice, sizes, ref data @ ..] = input else {
        return;
    };
    let constants = (0..(choice >> 3 & 7).min(4)).map(|place| PcConstantForm {
        bytes: [1, 2, 8, 16][usize::from(sizes >> (2 * place) & 3)],
        is_integer: place > 0 || choice & 0x80 == 0,
    });
    let form = PcEntryForm {
        has_size: choice & 1 != 0,
        pointer_sized: choice & 2 != 0,
        compressed: choice & 4 != 0,
        constants: constants.collect(),
    };
    let other = PcEntryForm {
        constants: Vec::new(),
        ..form.clone()
    };
    let mut forms = vec![form];
    if choice & 0x40 != 0 {
        forms.push(other);
    }
    let description = PcSectionDescription {
        name: "the_section".into(),
        forms,
    };
    assert_eq!(description.to_string().parse(), Ok(description.clone()));
    let text = [
        LinkAddr(0x1000)..LinkAddr(0x8000),
        LinkAddr(0x10_0000)..LinkAddr(0x20_0000),
    ];
    let section = decode(&description.name, data, |mut section, file| {
        section.address = LinkAddr(0x8000);
        PcSection::decode(&description, &[section], &text, file)
    });
    let Some(section) = section else { return };
    assert_eq!(section.entries().count(), section.entry_count());
    for entry in section.entries().take(100) {
        let is_code = text.iter().any(|range| range.contains(&entry.pc));
        let is_found = section.entries_at(entry.pc).any(|found| found == entry);
        // An entry of code that is not found is a function that goes on beyond it, or is empty.
        assert!(is_found || !is_code || entry.size.is_some());
    }
});
