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
        black_box(image.relocated(&section).is_ok());
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
        if let Ok(image) = Image::parse_any(bytes, Path::new("damaged")) {
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

/// Check that the functions of an object file have places of their own, one behind the other, with
/// the names and sizes that the program linked from it has, and that only `open_any` takes it.
#[test]
fn object_files() {
    for target in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        let target = format!("--target={target}");
        let dir = tempfile::tempdir().unwrap();
        let (input, object) = (dir.path().join("a.c"), dir.path().join("a.o"));
        std::fs::write(&input, PROGRAM).unwrap();
        let compile = |flags: &[&str]| {
            let mut command = Command::new("clang-22");
            command
                .args(["-O1", "-ffunction-sections", "-c", &target])
                .args(flags);
            let status = command.arg(&input).arg("-o").arg(&object).status();
            assert!(status.unwrap().success());
        };
        compile(&[]);
        let error = Image::open(&object).unwrap_err().to_string();
        assert!(
            error.contains("an object file") && error.contains("link it"),
            "{error}"
        );
        let image = Image::open_any(&object).unwrap();
        assert!(image.is_object() && !image.is_dynamic());
        let functions = image.functions();
        let names: Vec<&str> = functions.iter().map(|function| function.name).collect();
        assert_eq!(names, ["function", "main"]);
        assert!(functions[0].address.0 + functions[0].size <= functions[1].address.0);
        for function in &functions {
            let section = image.section(&format!(".text.{}", function.name)).unwrap();
            assert_eq!(
                (section.address, section.size),
                (function.address, function.size)
            );
            assert!(
                image
                    .text_ranges()
                    .contains(&(section.address..LinkAddr(section.address.0 + section.size)))
            );
        }
        // What refers to code is filled in: the CFI of `main` names its place.
        let frames = image.section(".eh_frame").unwrap();
        let relocated = image.relocated(&frames).unwrap();
        assert_ne!(&relocated[..], frames.data);
        let main = functions[1];
        let is_start = |(at, word): (usize, &[u8])| {
            let distance = i32::from_le_bytes(word.try_into().unwrap());
            frames.address.offset(at as i64 + i64::from(distance)) == main.address
        };
        assert!(relocated.windows(4).enumerate().any(is_start));

        // The same with packed relocations.
        let expected = relocated.into_owned();
        compile(&["-Wa,--crel,--allow-experimental-crel"]);
        let image = Image::open_any(&object).unwrap();
        assert!(image.sections().any(|section| section.kind == 0x4000_0014));
        let frames = image.section(".eh_frame").unwrap();
        assert_eq!(image.relocated(&frames).unwrap(), expected);
    }
}

/// Check that all forms in which linkers pack relocations say the same as those that are not packed: of a table
/// of functions, and of the cells for functions of other files.
#[test]
fn packed_relocations() {
    let source = "int rand(void); unsigned long strlen(const char *);\n\
        __attribute__((noinline)) int f(int x) { return rand() + x; }\n\
        __attribute__((noinline)) int g(int x) { return rand() * x; }\n\
        int main(int n, char **v) { return f(n) + g(n) + (int)strlen(v[0]); }\n\
        int other;\n\
        __attribute__((section(\"table\"))) void *places[300] = { f, g, main, 0, &other, f,\n\
          [100 ... 199] = g, [210] = f, [299] = main };\n";
    for target in [
        "-O1",
        "--target=aarch64-linux-gnu -O1 -shared -nostdlib -Wl,-Bsymbolic",
    ] {
        let mut kinds = Vec::new();
        for form in ["none", "android", "relr", "android+relr"] {
            let pack = format!("-Wl,--pack-dyn-relocs={form}");
            let mut flags: Vec<&str> = target.split(' ').collect();
            flags.extend(["-fPIC", "-fuse-ld=lld-22", &pack]);
            if !target.contains("-shared") {
                flags.push("-pie");
            }
            let (_dir, image) = build(source, &flags);
            let section = image.section("table").unwrap();
            let table = image.relocated(&section).unwrap();
            let symbols = [image.functions(), image.objects()].concat();
            let address = |name: &str| {
                let symbol = symbols.iter().find(|symbol| symbol.name == name);
                symbol.unwrap().address.0
            };
            for (place, word) in table.chunks_exact(8).enumerate() {
                let expected = match place {
                    0 | 5 | 210 => address("f"),
                    1 | 100..=199 => address("g"),
                    2 | 299 => address("main"),
                    4 => address("other"),
                    _ => 0,
                };
                let word = u64::from_le_bytes(word.try_into().unwrap());
                assert_eq!(word, expected, "{target} {form} {place}");
            }
            if image.machine() == Machine::X86_64 {
                let slots = image.slots();
                for name in ["rand", "strlen"] {
                    let cell = SlotTarget::Symbol(name);
                    assert!(
                        slots.iter().any(|slot| slot.target == cell),
                        "{form} {name}"
                    );
                }
            }
            let is_packed = |s: &SectionRef<'_>| [0x6000_0002, 19].contains(&s.kind);
            let mut packed: Vec<u32> = image.sections().filter(is_packed).map(|s| s.kind).collect();
            packed.sort_unstable();
            kinds.push(packed);
            // Damage to what is packed is told, and not taken for addresses.
            if form == "android" {
                let packed = image.sections().find(is_packed).unwrap();
                let mut bytes = image.data().to_vec();
                bytes[packed.offset.0 as usize] = b'X';
                let damaged = Image::parse(bytes, image.name()).unwrap();
                let error = damaged.relocated(&damaged.section("table").unwrap());
                let error = error.unwrap_err().to_string();
                assert!(error.contains("does not begin with APS2"), "{error}");
                assert!(error.contains("--pack-dyn-relocs=none"), "{error}");
            }
        }
        let [android, relr] = [0x6000_0002, 19];
        assert_eq!(
            kinds,
            [vec![], vec![android], vec![relr], vec![relr, android]]
        );
    }
}

/// Check that packed relocations cannot be told to be more than the file has places for.
#[test]
fn packed_relocations_take_no_more_memory_than_the_file() {
    let (_dir, image) = build(
        PROGRAM,
        &[
            "-fPIC",
            "-pie",
            "-fuse-ld=lld-22",
            "-Wl,--pack-dyn-relocs=android",
        ],
    );
    let packed = image
        .sections()
        .find(|section| section.kind == 0x6000_0002)
        .unwrap();
    let mut bytes = image.data().to_vec();
    // 2^62 relocations in one group: offsets, types and addends in common.
    let mut table = b"APS2".to_vec();
    let count = gimli::leb128::write::Leb128::signed(1 << 62);
    table.extend(count.bytes());
    table.extend([0]);
    table.extend(count.bytes());
    table.extend([15, 4, 8, 0]);
    assert!(table.len() <= packed.size as usize, "{}", packed.size);
    let at = packed.offset.0 as usize;
    bytes[at..at + table.len()].copy_from_slice(&table);
    let image = Image::parse(bytes, image.name()).unwrap();
    let section = image.section(".data").unwrap();
    let error = image.relocated(&section).unwrap_err().to_string();
    assert!(
        error.contains("more entries than the file has places"),
        "{error}"
    );
}

/// Check that an object file with more sections than fit the field of a symbol is read.
#[test]
fn object_files_with_very_many_sections() {
    use std::fmt::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let (input, object) = (dir.path().join("a.s"), dir.path().join("a.o"));
    let mut source = String::new();
    let count = 0x1_0100;
    for index in 0..count {
        writeln!(
            source,
            ".section .text.f{index},\"ax\"\n.type f{index},@function\nf{index}: ret\n.size f{index}, 1"
        )
        .unwrap();
    }
    // A name that is not global keeps the linker's choice out of it.
    writeln!(
        source,
        ".section table,\"a\"\n.quad f{0}\n.quad f0",
        count - 1
    )
    .unwrap();
    std::fs::write(&input, source).unwrap();
    let status = Command::new("clang-22")
        .arg("-c")
        .arg(&input)
        .arg("-o")
        .arg(&object)
        .status();
    assert!(status.unwrap().success());
    let image = Image::open_any(&object).unwrap();
    let functions = image.functions();
    assert_eq!(functions.len(), count);
    assert!(
        functions
            .windows(2)
            .all(|pair| pair[0].address < pair[1].address)
    );
    let address_of = |name: &str| functions.iter().find(|f| f.name == name).unwrap().address.0;
    let table = image.section("table").unwrap();
    let expected = [address_of(&format!("f{}", count - 1)), address_of("f0")];
    assert_eq!(
        image.relocated(&table).unwrap()[..],
        expected.map(u64::to_le_bytes).concat()
    );
}

/// Check that a compressed section is read as it was, and that damage to it is an error that names it.
#[test]
fn compressed_sections_are_decompressed() {
    let (dir, image) = build(PROGRAM, &["-O1", "-fbasic-block-address-map"]);
    let name = ".llvm_bb_addr_map";
    let compressed = dir.path().join("compressed");
    for form in ["zlib", "zstd"] {
        let status = Command::new("llvm-objcopy-22")
            .arg(format!("--compress-sections={name}={form}"))
            .arg(image.name())
            .arg(&compressed)
            .status();
        assert!(status.unwrap().success());
        let bytes = std::fs::read(&compressed).unwrap();
        let packed = Image::parse(bytes.clone(), &compressed).unwrap();
        let section = packed.section(name).unwrap();
        assert!(section.is_compressed);
        let plain = image.section(name).unwrap().data;
        assert_eq!(&packed.relocated(&section).unwrap()[..], plain);
        // The header's form and size, and the first bytes of the stream.
        for (at, what) in [
            (0, "unknown form"),
            (12, "too many to be true"),
            (8, "cannot be decompressed"),
            (24, "cannot be decompressed"),
        ] {
            let mut bytes = bytes.clone();
            bytes[section.offset.0 as usize + at] ^= 0x55;
            let damaged = Image::parse(bytes, &compressed).unwrap();
            let section = damaged.section(name).unwrap();
            let error = damaged.relocated(&section).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(what), "{error}");
            assert!(error.contains("--compress-sections=NAME=none"), "{error}");
        }
    }
}

/// Check that sections which share their bytes many times are refused: each is work of its own.
#[test]
fn sections_that_overlap_are_refused() {
    let (_dir, image) = build(PROGRAM, &["-O1"]);
    let mut bytes = image.data().to_vec();
    let size = bytes.len() as u64;
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(bytes[60..62].try_into().unwrap()));
    // All but the first, and the names, become as large as the file.
    for index in 1..count - 2 {
        let header = table + index * 64;
        bytes[header + 24..header + 32].copy_from_slice(&0u64.to_le_bytes());
        bytes[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
    }
    let error = Image::parse(bytes, Path::new("the-file"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("its sections overlap"), "{error}");
}
