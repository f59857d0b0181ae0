//! Images of real programs, checked against what the compiler and the shell know of them.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

/// Compiles `source` in a fresh directory and opens the result.
fn build(source: &str, flags: &[&str]) -> (tempfile::TempDir, Image) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input.c");
    let output = dir.path().join("output");
    std::fs::write(&input, source).unwrap();
    let status = Command::new("clang-22")
        .args(["-g0", "-Wl,--build-id=sha1"])
        .args(flags)
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .status()
        .expect("clang-22 is needed by the tests: cargo xtask setup");
    assert!(status.success());
    let image = Image::open(&output).unwrap();
    (dir, image)
}

const PROGRAM: &str = "int counter = 7; static int hidden[4];\n\
    __attribute__((noinline)) int *function(int i) { return hidden + i; }\n\
    int main(void) { return *function(counter) * 0; }\n";

#[test]
fn names_bytes_and_addresses_belong_together() {
    for flags in [
        &["-O1", "-no-pie"][..],
        &["-O1", "-pie"],
        &["-O1", "-static"],
    ] {
        let (_dir, image) = build(PROGRAM, flags);
        let functions = image.functions();
        let main = functions.iter().find(|f| f.name == "main").unwrap();
        assert!(main.size > 0);
        assert!(functions.is_sorted_by_key(|f| f.address));
        let in_text = |range: &Range<LinkAddr>| range.contains(&main.address);
        assert!(image.text_ranges().iter().any(in_text));

        let objects = image.objects();
        let counter = objects.iter().find(|o| o.name == "counter").unwrap();
        assert_eq!(counter.size, 4);
        assert_eq!(
            image.bytes_at(counter.address, 4),
            Some(&7u32.to_le_bytes()[..])
        );
        let offset = image.file_offset_of(counter.address).unwrap();
        assert_eq!(image.link_address_of(offset), Some(counter.address));
        // Zero-initialised: in memory, not in the file.
        let hidden = objects.iter().find(|o| o.name == "hidden").unwrap();
        assert_eq!(image.bytes_at(hidden.address, 4), None);

        let text = image.section(".text").unwrap();
        assert!(text.is_executable && !text.is_writable);
        assert_eq!(image.bytes_at(text.address, 16), text.data.get(..16));
        assert_eq!(image.machine(), Machine::X86_64);
        assert_eq!(image.is_position_independent(), flags.contains(&"-pie"));
        assert_eq!(image.is_dynamic(), !flags.contains(&"-static"));
    }
}

#[test]
fn the_build_id_is_the_one_that_file_tools_print() {
    let (_dir, image) = build(PROGRAM, &["-O1"]);
    let id = image.build_id().unwrap();
    assert_eq!(id.len(), 20);
    let printed = Command::new("readelf")
        .arg("-n")
        .arg(image.name())
        .output()
        .unwrap();
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(String::from_utf8_lossy(&printed.stdout).contains(&hex));
    let (_dir, without) = build(PROGRAM, &["-O1", "-Wl,--build-id=none"]);
    assert_eq!(without.build_id(), None);
}

#[test]
fn a_stripped_library_still_names_what_it_exports() {
    let (_dir, image) = build(PROGRAM, &["-O1", "-fPIC", "-shared", "-s"]);
    assert!(image.section(".symtab").is_none());
    assert!(image.functions().iter().any(|f| f.name == "function"));
    assert!(image.objects().iter().any(|o| o.name == "counter"));
    assert!(image.objects().iter().all(|o| o.name != "hidden"));
}

#[test]
fn separate_debug_information_is_named() {
    let (dir, image) = build(PROGRAM, &["-O1"]);
    assert_eq!(image.debuglink(), None);
    let debug = dir.path().join("output.debug");
    let run = |args: &[&str]| {
        let status = Command::new("objcopy")
            .current_dir(&dir)
            .args(args)
            .status();
        assert!(status.unwrap().success());
    };
    run(&["--only-keep-debug", "output", "output.debug"]);
    run(&[
        "--strip-all",
        "--add-gnu-debuglink=output.debug",
        "output",
        "linked",
    ]);
    let linked = Image::open(&dir.path().join("linked")).unwrap();
    let (name, _crc) = linked.debuglink().unwrap();
    assert_eq!(name, "output.debug");
    // A file of nothing but debug information has segments without bytes.
    let debug = Image::open(&debug).unwrap();
    assert_eq!(debug.build_id(), image.build_id());
    assert!(debug.functions().iter().any(|f| f.name == "main"));
}

#[test]
fn without_section_headers_the_code_is_in_the_executable_segments() {
    let (dir, image) = build(PROGRAM, &["-O1"]);
    let stripped = dir.path().join("stripped");
    let status = Command::new("llvm-strip-22")
        .arg("--strip-sections")
        .arg(image.name())
        .arg("-o")
        .arg(&stripped)
        .status();
    assert!(status.unwrap().success());
    let stripped = Image::open(&stripped).unwrap();
    assert!(!stripped.has_section_headers());
    assert!(stripped.section(".text").is_none());
    let text = image.section(".text").unwrap().address;
    assert!(
        stripped
            .text_ranges()
            .iter()
            .any(|range| range.contains(&text))
    );
    assert_eq!(stripped.build_id(), image.build_id());
}

#[test]
fn files_that_are_no_images_say_what_they_are() {
    let error = |bytes: &[u8]| {
        let error = Image::parse(bytes.to_vec(), Path::new("the-file")).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("the-file: "), "{message}");
        message
    };
    assert!(error(b"").contains("not an ELF file"));
    assert!(error(b"#!/bin/sh\n").contains("not an ELF file"));
    assert!(error(b"\x7fELF").contains("ELF header"));

    let (_dir, image) = build(PROGRAM, &["-O1"]);
    let whole = image.data();
    let mut other = whole.to_vec();
    other[18] = 3; // EM_386
    assert!(error(&other).contains("machine 3"));
    other = whole.to_vec();
    other[16] = 1; // ET_REL
    assert!(error(&other).contains("link it"));
    // The section header table is the last thing in the file.
    let message = error(&whole[..whole.len() - 1]);
    assert!(
        message.contains("section header table at offset 0x"),
        "{message}"
    );
    assert!(message.contains("copy it again"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Image::open(Path::new("/nonexistent/program")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/program"));
}

/// Asks an image everything; what matters is that it answers.
fn exercise(image: &Image) {
    use std::hint::black_box;
    for section in image.sections() {
        black_box(image.bytes_at(section.address, section.data.len()));
        black_box(image.link_address_of(section.offset));
    }
    black_box(image.text_ranges());
    black_box((image.functions(), image.objects()));
    black_box((image.debuglink(), image.build_id()));
    black_box(image.bytes_at(LinkAddr(u64::MAX), 1));
    black_box(image.bytes_at(LinkAddr(0), usize::MAX));
}

#[test]
fn damaged_files_give_errors_or_answers_but_never_a_panic() {
    let (_dir, image) = build(PROGRAM, &["-O1"]);
    let whole = image.data().to_vec();
    let table = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let size = whole.len();
    proptest!(ProptestConfig::with_cases(2000), |(
        // The headers are where damage hurts: the first bytes and the last.
        at in prop_oneof![0..0x400usize, table..size, 0..size],
        damage in prop::collection::vec(any::<u8>(), 1..9),
        cut in prop_oneof![Just(usize::MAX), 0..size],
    )| {
        let mut bytes = whole.clone();
        for (byte, damage) in bytes[at..].iter_mut().zip(damage) {
            *byte = damage;
        }
        bytes.truncate(cut);
        if let Ok(image) = Image::parse(bytes, Path::new("damaged")) {
            exercise(&image);
        }
    });
}

/// Check that the cells for functions of other files are found, by each form of linking, and in
/// a static program those that its own functions fill.
#[test]
fn cells_for_functions() {
    let source = "#include <string.h>\nchar a[99], b[99];\n\
        int main(int n, char **v) { memcpy(a, b, n); return a[0]; }\n";
    for flags in [
        &["-O1", "-fno-builtin"][..],
        &["-O1", "-fno-builtin", "-fno-plt", "-Wl,-z,now"],
        &["-O1", "-fno-builtin", "-no-pie", "-Wl,-z,lazy"],
    ] {
        let (_dir, image) = build(source, flags);
        let slots = image.slots();
        let slot = slots
            .iter()
            .find(|slot| slot.target == SlotTarget::Symbol("memcpy"));
        let slot = slot.unwrap_or_else(|| panic!("{flags:?}: {slots:?}"));
        let writable = image
            .segments()
            .iter()
            .filter(|segment| segment.is_writable);
        let within = |segment: &Segment| {
            let end = segment.address.0 + segment.memory_size;
            (segment.address.0..end).contains(&slot.address.0)
        };
        assert!(writable.into_iter().any(within), "{flags:?}");
    }
    let (_dir, image) = build(source, &["-O1", "-fno-builtin", "-static"]);
    let functions = image.functions();
    let memcpy = functions.iter().find(|f| f.name == "memcpy").unwrap();
    assert!(memcpy.indirect);
    let resolved = SlotTarget::Resolver(memcpy.address);
    assert!(image.slots().iter().any(|slot| slot.target == resolved));
}
