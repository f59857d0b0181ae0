//! PC sections of all descriptions, written here and read back; of real programs, whose IR says
//! what must be there; and of bytes that no compiler would write.

use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::pcmeta::testing::put_uleb128;

const TEXT: Range<LinkAddr> = LinkAddr(0x1000)..LinkAddr(0x9000);
const ADDRESS: LinkAddr = LinkAddr(0xa000);

fn description() -> impl Strategy<Value = PcSectionDescription> {
    let constants = prop::collection::vec(prop::sample::select(&[1u8, 2, 4, 8][..]), 0..4);
    (any::<[bool; 3]>(), constants).prop_map(
        |([has_size, pointer_sized, compressed], constants)| PcSectionDescription {
            name: "the_section".into(),
            has_size,
            pointer_sized,
            compressed,
            constants,
        },
    )
}

/// Writes an entry and gives it as it is to be read.
fn put(
    out: &mut Vec<u8>,
    description: &PcSectionDescription,
    pc: u64,
    size: u32,
    values: &[u64],
) -> PcEntry {
    let distance = pc.wrapping_sub(ADDRESS.0 + out.len() as u64);
    let width = if description.pointer_sized { 8 } else { 4 };
    out.extend(&distance.to_le_bytes()[..width]);
    if description.has_size && description.compressed {
        put_uleb128(out, size.into());
    } else if description.has_size {
        out.extend(size.to_le_bytes());
    }
    let mut constants = Vec::new();
    for (&bytes, &value) in description.constants.iter().zip(values.iter().cycle()) {
        let value = value & (u64::MAX >> (64 - 8 * u32::from(bytes)));
        if bytes > 1 && description.compressed {
            put_uleb128(out, value);
        } else {
            out.extend(&value.to_le_bytes()[..usize::from(bytes)]);
        }
        constants.push(value);
    }
    PcEntry {
        pc: LinkAddr(pc),
        size: description.has_size.then_some(size.into()),
        constants,
    }
}

fn decode(description: &PcSectionDescription, data: &[u8]) -> Result<PcSection, TableError> {
    let section = RawSection {
        name: &description.name,
        address: ADDRESS,
        data,
    };
    PcSection::decode(description, &[section], &[TEXT], Path::new("the-file"))
}

proptest! {
    /// Check that entries of every description are read as they were written and found by their PC,
    /// and that those of discarded code are listed, counted and not found.
    #[test]
    fn what_is_written_is_read_back(
        description in description(),
        written in prop::collection::vec((0u64..0xa000, 1u32..64, prop::collection::vec(any::<u64>(), 1..4)), 0..20),
        padding in 0usize..9,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (pc, size, values) in &written {
            expected.push(put(&mut bytes, &description, *pc, *size, values));
        }
        // What a linker puts behind it is nothing, whatever its size.
        bytes.resize(bytes.len() + padding, 0);
        let section = decode(&description, &bytes).unwrap();
        let entries: Vec<_> = section.entries().collect();
        prop_assert_eq!(&entries, &expected);
        prop_assert_eq!(section.entry_count(), expected.len());
        let is_code = |entry: &&PcEntry| {
            entry.pc >= TEXT.start && entry.pc.0 + entry.size.unwrap_or(1) <= TEXT.end.0
        };
        prop_assert_eq!(section.discarded(), entries.iter().filter(|entry| !is_code(entry)).count());
        for entry in entries.iter().filter(is_code) {
            prop_assert!(section.entries_at(entry.pc).any(|found| found == *entry));
            if !description.has_size {
                prop_assert!(section.entries_at(entry.pc).all(|found| found.pc == entry.pc));
            }
        }
    }

    /// Check that whatever the bytes and the description are, the answer is entries within the
    /// code or an error.
    #[test]
    fn any_bytes_give_entries_or_an_error(
        description in description(),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff), Just(0)], 0..80),
    ) {
        match decode(&description, &bytes) {
            Ok(section) => {
                prop_assert_eq!(section.entries().count(), section.entry_count());
                for entry in section.entries() {
                    let found = section.entries_at(entry.pc).count();
                    prop_assert!(found <= section.entry_count());
                }
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("the-file: section the_section at offset 0x"), "{}", message);
            }
        }
    }
}

/// Check that a function is found by each of its addresses, and no other is.
#[test]
fn functions_are_found_by_what_is_in_them() {
    let description: PcSectionDescription = "the_section=function,4".parse().unwrap();
    let mut bytes = Vec::new();
    let second = put(&mut bytes, &description, 0x2000, 16, &[7]);
    let first = put(&mut bytes, &description, 0x1000, 8, &[9]);
    let section = decode(&description, &bytes).unwrap();
    let at = |pc| section.entries_at(LinkAddr(pc)).collect::<Vec<_>>();
    for (pc, expected) in [
        (0xfff, None),
        (0x1000, Some(&first)),
        (0x1007, Some(&first)),
        (0x1008, None),
        (0x2000, Some(&second)),
        (0x200f, Some(&second)),
        (0x2010, None),
        (u64::MAX, None),
    ] {
        assert_eq!(
            at(pc).iter().collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "{pc:#x}"
        );
    }
}

const IR: &str = r#"
@variable = global i64 0
define i64 @first(ptr %p) noinline optnone !pcsections !0 {
  %a = load atomic i64, ptr %p seq_cst, align 8, !pcsections !1
  store atomic i64 %a, ptr @variable release, align 8, !pcsections !2
  ret i64 %a
}
define void @second(ptr %p) noinline optnone !pcsections !0 {
  store atomic i64 7, ptr %p monotonic, align 8, !pcsections !2
  ret void
}
define i32 @main() noinline {
  call void @second(ptr @variable)
  %a = call i64 @first(ptr @variable)
  ret i32 0
}
!0 = !{!"functions", !3, !"packed_functions!C", !3}
!1 = !{!"plain", !4, !"packed!C", !4}
!2 = !{!"plain", !5, !"packed!C", !5, !"alone"}
!3 = !{i32 300, i64 -1}
!4 = !{i8 200, i16 40000, i32 -2, i64 9223372036854775809}
!5 = !{i8 1, i16 2, i32 3, i64 4}
"#;

/// Check, on programs of the real compilers, that constants, sizes and functions are those of
/// the IR, with addresses of either size.
#[test]
fn real_programs_have_what_their_ir_says() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("a.ll"), dir.path().join("a"));
    std::fs::write(&input, IR).unwrap();
    for (compiler, flags) in [
        ("clang-22", &["-O1"][..]),
        ("clang-22", &["-O0", "-static"]),
        (
            "clang-22",
            &["-O1", "-mcmodel=large", "-no-pie", "-fno-pic"],
        ),
        ("clang-16", &["-O1"]),
        ("clang-16", &["-O1", "-mcmodel=medium"]),
    ] {
        let mut command = Command::new(compiler);
        let command = command.args(flags).arg("-Wno-override-module").arg(&input);
        let status = command.arg("-o").arg(&output).status();
        assert!(
            status
                .expect("compilers are needed: cargo xtask setup")
                .success()
        );
        let image = Image::open(&output).unwrap();
        let wide = flags.iter().any(|flag| flag.starts_with("-mcmodel"));
        let load = |text: &str| {
            let text = if wide {
                text.replacen(",", ",pc64,", 1)
            } else {
                text.to_owned()
            };
            let section = PcSection::load(&image, &text.parse().unwrap()).unwrap();
            assert_eq!(section.discarded(), 0, "{compiler} {flags:?} {text}");
            section.entries().collect::<Vec<_>>()
        };
        let symbols = image.functions();
        let symbol = |name: &str| *symbols.iter().find(|symbol| symbol.name == name).unwrap();
        let (first, second) = (symbol("first"), symbol("second"));
        // Clang 16 knows no options, and takes them for a part of the name.
        let knows_options = |text: &&str| !text.contains('!') || compiler != "clang-16";
        let forms = ["functions=function,4,8", "packed_functions!C=function,4,8"];
        for text in forms.into_iter().filter(knows_options) {
            let entries = load(text);
            let expected = [first, second].map(|function| PcEntry {
                pc: function.address,
                size: Some(function.size),
                constants: vec![300, u64::MAX],
            });
            assert_eq!(entries, expected, "{compiler} {flags:?} {text}");
        }
        let of_load = [200, 40000, 0xffff_fffe, 9_223_372_036_854_775_809];
        let forms = ["plain=instruction,1,2,4,8", "packed!C=instruction,1,2,4,8"];
        for text in forms.into_iter().filter(knows_options) {
            let mut entries = load(text);
            entries.sort_by_key(|entry| entry.pc);
            let constants: Vec<&[u64]> = entries.iter().map(|entry| &entry.constants[..]).collect();
            assert_eq!(
                constants,
                [&of_load[..], &[1, 2, 3, 4], &[1, 2, 3, 4]],
                "{compiler} {text}"
            );
            for (entry, function) in entries.iter().zip([first, first, second]) {
                let distance = entry.pc.0.wrapping_sub(function.address.0);
                assert!(distance < function.size, "{compiler} {text}: {}", entry.pc);
            }
        }
        let alone = if wide {
            "alone=instruction,pc64"
        } else {
            "alone=instruction"
        };
        let section = PcSection::load(&image, &alone.parse().unwrap()).unwrap();
        assert_eq!(section.entry_count(), 2);
    }
}
