//! PC sections of all descriptions, written here and read back; of real programs, whose IR says
//! what must be there; and of bytes that no compiler would write.

use std::cell::Cell;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::description::tests::entry_form;
use super::*;
use crate::pcmeta::testing::{Workshop, put_uleb128};

const TEXT: Range<LinkAddr> = LinkAddr(0x1000)..LinkAddr(0x9000);
const ADDRESS: LinkAddr = LinkAddr(0xa000);

const LITTLE: Encoding = Encoding {
    is_32_bit: false,
    is_big_endian: false,
};

fn encoding() -> impl Strategy<Value = Encoding> {
    any::<[bool; 2]>().prop_map(|[is_32_bit, is_big_endian]| Encoding {
        is_32_bit,
        is_big_endian,
    })
}

/// Writes a number of this many bytes.
fn put_number(out: &mut Vec<u8>, encoding: Encoding, value: u64, bytes: usize) {
    let start = out.len();
    out.extend(value.to_le_bytes().into_iter().chain([0; 64]).take(bytes));
    if encoding.is_big_endian {
        out[start..].reverse();
    }
}

/// Writes what stands behind the distances of an entry, and gives the entries that are to be read.
fn put(
    out: &mut Vec<u8>,
    form: &PcEntryForm,
    encoding: Encoding,
    pcs: &[u64],
    size: u32,
    values: &[u64],
) -> Vec<PcEntry> {
    for pc in pcs {
        let distance = pc.wrapping_sub(ADDRESS.0 + out.len() as u64);
        put_number(out, encoding, distance, form.distance_size(encoding));
    }
    if form.has_size && form.compressed {
        put_uleb128(out, size.into());
    } else if form.has_size {
        put_number(out, encoding, size.into(), 4);
    }
    let mut constants = Vec::new();
    for (&constant, &value) in form.constants.iter().zip(values.iter().cycle()) {
        let bytes = usize::from(constant.bytes);
        let value = value & (u64::MAX >> (64 - 8 * bytes.min(8)));
        let start = out.len();
        if form.compressed && constant.is_integer && bytes > 1 && bytes <= 8 {
            put_uleb128(out, value);
        } else {
            put_number(out, encoding, value, bytes);
        }
        constants.push(match bytes {
            0..=8 => PcConstant::Number(value),
            _ => PcConstant::Wide(out[start..].to_vec()),
        });
    }
    let entry = |pc: &u64| PcEntry {
        pc: LinkAddr(*pc),
        size: form.has_size.then_some(size.into()),
        constants: constants.clone(),
    };
    pcs.iter().map(entry).collect()
}

/// Neither half of it is the distance to any code: such a constant could be an address, and nobody could tell.
fn constant() -> impl Strategy<Value = u64> {
    const HALF: std::ops::Range<u64> = 0x5000_0000..0x6000_0000;
    (HALF, prop::option::of(HALF)).prop_map(|(low, high)| low | high.unwrap_or(0) << 32)
}

fn described(forms: Vec<PcEntryForm>) -> PcSectionDescription {
    PcSectionDescription {
        name: "the_section".into(),
        forms,
    }
}

/// Whether that much of an entry is code.
fn is_code(entry: &PcEntry) -> bool {
    entry.pc >= TEXT.start && entry.pc.0 + entry.size.unwrap_or(1) <= TEXT.end.0
}

/// Check that a section is read as it was written, or else that nobody could tell: by chance bytes can also be read so that
/// more entries are code, or no more astray. Answers whether what was read is what was written.
fn as_written(
    read: Result<PcSection, TableError>,
    written: &[PcEntry],
) -> Result<Option<PcSection>, TestCaseError> {
    let code = written.iter().filter(|entry| is_code(entry)).count();
    let astray = written.len() - code;
    let section = match read {
        Ok(section) => section,
        // With another width none is astray.
        Err(error) => {
            prop_assert!(astray > 0, "{error}");
            return Ok(None);
        }
    };
    let read: Vec<_> = section.entries().collect();
    let read_code = read.iter().filter(|entry| is_code(entry)).count();
    prop_assert_eq!(section.entry_count(), read.len());
    prop_assert_eq!(section.discarded(), read.len() - read_code);
    let is_plausible = read_code > code || (astray > 0 && section.discarded() <= astray);
    if !is_plausible {
        prop_assert_eq!(&read[..], written);
    }
    Ok((read == written).then_some(section))
}

fn decode(
    description: &PcSectionDescription,
    data: &[u8],
    encoding: Encoding,
) -> Result<PcSection, TableError> {
    let section = RawSection {
        name: &description.name,
        address: ADDRESS,
        data,
        encoding,
    };
    PcSection::decode(description, &[section], &[TEXT], Path::new("the-file"))
}

/// Check that entries of every form are read as they were written and found by their PC, and that those of
/// discarded code are listed, counted and not found.
#[test]
fn what_is_written_is_read_back() {
    let value = || prop::collection::vec(0xffff_0000u64.., 1..4);
    let written = prop::collection::vec((0u64..0xa000, 1u32..64, value()), 0..20);
    let (tried, unlike) = (Cell::new(0), Cell::new(0));
    let run = TestRunner::default().run(
        &(entry_form(), encoding(), written, 0usize..9),
        |(form, encoding, written, padding)| {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (pc, size, values) in &written {
                expected.extend(put(&mut bytes, &form, encoding, &[*pc], *size, values));
            }
            // What a linker puts behind it is nothing, whatever its size.
            bytes.resize(bytes.len() + padding, 0);
            // Where no more than half point at code, another reading may have as many that do.
            let in_code = expected.iter().filter(|entry| is_code(entry)).count();
            if !expected.is_empty() && in_code * 2 <= expected.len() {
                return Ok(());
            }
            tried.set(tried.get() + 1);
            let read = decode(&described(vec![form.clone()]), &bytes, encoding);
            let Some(section) = as_written(read, &expected)? else {
                unlike.set(unlike.get() + 1);
                return Ok(());
            };
            for entry in expected.iter().filter(|entry| is_code(entry)) {
                prop_assert!(section.entries_at(entry.pc).any(|found| found == *entry));
                if !form.has_size {
                    prop_assert!(
                        section
                            .entries_at(entry.pc)
                            .all(|found| found.pc == entry.pc)
                    );
                }
            }
            Ok(())
        },
    );
    run.unwrap();
    let (tried, unlike) = (tried.get(), unlike.get());
    println!("{unlike} of {tried} sections could also be read in another way");
    assert!(
        tried > 0 && unlike * 50 <= tried,
        "{unlike} of {tried} were read in another way"
    );
}

proptest! {
    /// Check that entries of several kinds are told apart, and that instructions of one node share its constants: as
    /// the compiler writes them, all addresses first.
    #[test]
    fn kinds_are_told_apart_and_constants_are_shared(
        encoding in encoding(),
        written in prop::collection::vec(
            (0usize..3, prop::collection::vec(0x1000u64..0x8000, 1..5), 1u32..64, prop::collection::vec(constant(), 1..4)),
            0..20,
        ),
    ) {
        let description: PcSectionDescription =
            "the_section=function,4|instruction!C,8,1|instruction,8,2,16".parse().unwrap();
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (kind, pcs, size, values) in &written {
            let form = &description.forms[*kind];
            let pcs = if form.has_size { &pcs[..1] } else { pcs };
            expected.extend(put(&mut bytes, form, encoding, pcs, *size, values));
        }
        as_written(decode(&description, &bytes, encoding), &expected)?;
    }

    /// Check that whatever the bytes and the description are, the answer is entries within the
    /// code or an error.
    #[test]
    fn any_bytes_give_entries_or_an_error(
        forms in prop::collection::vec(entry_form(), 1..4),
        encoding in encoding(),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff), Just(0)], 0..80),
    ) {
        match decode(&described(forms), &bytes, encoding) {
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
                prop_assert!(message.ends_with("NAME[!C]=ENTRY|ENTRY"), "{}", message);
            }
        }
    }
}

/// Check that a function is not made of an instruction with a constant and the first of two that share theirs.
#[test]
fn constants_of_a_function_are_no_addresses() {
    let description: PcSectionDescription = "the_section=function,4|instruction,4".parse().unwrap();
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for pcs in [&[0x1010][..], &[0x1020, 0x1024], &[0x1030]] {
        let instruction = &description.forms[1];
        expected.extend(put(&mut bytes, instruction, LITTLE, pcs, 0, &[10]));
    }
    let section = decode(&description, &bytes, LITTLE).unwrap();
    assert_eq!(section.entries().collect::<Vec<_>>(), expected);
}

/// Check that a function is found by each of its addresses, and no other is, and the instructions in it by theirs.
#[test]
fn functions_are_found_by_what_is_in_them() {
    let description: PcSectionDescription = "the_section=function,4|instruction".parse().unwrap();
    let [function, instruction] = &description.forms[..] else {
        panic!()
    };
    let mut bytes = Vec::new();
    let mut put = |form, pc, size, values: &[u64]| {
        put(&mut bytes, form, LITTLE, &[pc], size, values).remove(0)
    };
    let second = put(function, 0x2000, 16, &[7]);
    let inside = put(instruction, 0x1004, 0, &[]);
    let first = put(function, 0x1000, 8, &[9]);
    let section = decode(&description, &bytes, LITTLE).unwrap();
    let at = |pc| section.entries_at(LinkAddr(pc)).collect::<Vec<_>>();
    for (pc, expected) in [
        (0xfff, vec![]),
        (0x1000, vec![&first]),
        (0x1004, vec![&first, &inside]),
        (0x1007, vec![&first]),
        (0x1008, vec![]),
        (0x2000, vec![&second]),
        (0x200f, vec![&second]),
        (0x2010, vec![]),
        (u64::MAX, vec![]),
    ] {
        assert_eq!(at(pc).iter().collect::<Vec<_>>(), expected, "{pc:#x}");
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
                constants: vec![300.into(), u64::MAX.into()],
            });
            assert_eq!(entries, expected, "{compiler} {flags:?} {text}");
        }
        let of_load = [200, 40000, 0xffff_fffe, 9_223_372_036_854_775_809];
        let of_load = of_load.map(PcConstant::Number);
        let of_stores = [1, 2, 3, 4].map(PcConstant::Number);
        let forms = ["plain=instruction,1,2,4,8", "packed!C=instruction,1,2,4,8"];
        for text in forms.into_iter().filter(knows_options) {
            let mut entries = load(text);
            entries.sort_by_key(|entry| entry.pc);
            let constants: Vec<&[PcConstant]> =
                entries.iter().map(|entry| &entry.constants[..]).collect();
            assert_eq!(
                constants,
                [&of_load[..], &of_stores, &of_stores],
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

/// A section with entries of all kinds, and constants of all forms, some of which two instructions share.
const MIXED_IR: &str = r#"
@variable = global i64 0
define i64 @first(ptr %p) noinline optnone !pcsections !0 {
  %a = load atomic i64, ptr %p seq_cst, align 8, !pcsections !1
  store atomic i64 %a, ptr @variable release, align 8, !pcsections !2
  store atomic i64 1, ptr @variable release, align 8, !pcsections !1
  store atomic i64 %a, ptr @variable monotonic, align 8, !pcsections !1
  ret i64 %a
}
define i64 @main() noinline optnone !pcsections !0 {
  %a = load atomic i64, ptr @variable seq_cst, align 8, !pcsections !1
  %b = call i64 @first(ptr @variable)
  ret i64 0
}
!0 = !{!"mixed", !3, !"mixed!C", !3}
!1 = !{!"mixed", !4}
!2 = !{!"mixed!C", !4}
!3 = !{i32 300}
!4 = !{i8 200, i24 70000, i128 18446744073709551618, float 1.0, {i8, i64} {i8 7, i64 5}, i64 9223372036854775809}
"#;

/// Check, on real programs, that functions and instructions, plain and packed constants, those of more than
/// 64 bits and those that instructions share are told apart in one section, and that an address of another width than
/// was said is named.
#[test]
fn one_section_may_hold_entries_of_several_kinds() {
    let shop = Workshop::new();
    shop.write("a.ll", MIXED_IR);
    let constants = "1,4,16,r4,r16,8";
    let description =
        format!("mixed=function,4|function!C,4|instruction,{constants}|instruction!C,{constants}");
    for target in ["x86_64", "aarch64"] {
        for flags in [
            "-O1",
            "-O0",
            "-O1 -code-model=large -relocation-model=static",
        ] {
            shop.run(&format!(
                "llc-22 -mtriple={target}-linux-gnu {flags} -filetype=obj a.ll -o a.o"
            ));
            shop.run("ld.lld-22 -e main a.o -o a");
            let is_wide = flags.contains("large");
            let narrow: PcSectionDescription = description.parse().unwrap();
            let mut wide = narrow.clone();
            wide.forms
                .iter_mut()
                .for_each(|form| form.pointer_sized = true);
            let (right, wrong) = if is_wide {
                (wide, narrow)
            } else {
                (narrow, wide)
            };
            let what = format!("{target} {flags}");
            for image in [
                Image::open(&shop.path("a")),
                Image::open_any(&shop.path("a.o")),
            ] {
                let image = image.unwrap();
                let section = PcSection::load(&image, &right).unwrap();
                assert_eq!(section.discarded(), 0, "{what}");
                let symbols = image.functions();
                let entries: Vec<_> = section.entries().collect();
                let of = |name: &str| {
                    let symbol = symbols.iter().find(|symbol| symbol.name == name).unwrap();
                    let range = symbol.address..symbol.address.offset(symbol.size as i64);
                    let is_in = move |entry: &&PcEntry| range.contains(&entry.pc);
                    entries.iter().filter(is_in).collect::<Vec<_>>()
                };
                let (first, main) = (of("first"), of("main"));
                let sizes = |entries: &[&PcEntry]| {
                    entries.iter().filter(|entry| entry.size.is_some()).count()
                };
                // A release store may be two instructions on some machines, so there may be more of these.
                assert_eq!((sizes(&first), sizes(&main)), (2, 2), "{what}");
                assert!(first.len() >= 6 && main.len() >= 3, "{what}: {entries:?}");
                for entry in &entries {
                    if entry.size.is_some() {
                        assert_eq!(entry.constants, [300.into()], "{what}");
                        continue;
                    }
                    let wide = [2u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
                    let fields = [7u64.to_le_bytes(), 5u64.to_le_bytes()].concat();
                    let expected = [
                        PcConstant::Number(200),
                        PcConstant::Number(70000),
                        PcConstant::Wide(wide),
                        PcConstant::Number(0x3f80_0000),
                        PcConstant::Wide(fields),
                        PcConstant::Number(9_223_372_036_854_775_809),
                    ];
                    assert_eq!(entry.constants, expected, "{what}");
                }
                let error = PcSection::load(&image, &wrong).err().unwrap().to_string();
                let width = if is_wide {
                    "have eight bytes"
                } else {
                    "have four bytes"
                };
                assert!(
                    error.contains(width) && error.contains("pc64"),
                    "{what}: {error}"
                );
            }
        }
    }
}
