//! What lists tell of files, compared with what the files' own tables tell.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::image::{FunctionSymbol, Raw};
use crate::insn::Regs;
use crate::symbols::{StackSnapshot, names_function};

fn build(compiler: &str, name: &str, source: &str, flags: &[&str], dir: &Path) -> Image {
    let (input, output) = (dir.join(name), dir.join("output"));
    std::fs::write(&input, source).unwrap();
    let status = Command::new(compiler)
        .args(flags)
        .args([&input, Path::new("-o"), &output])
        .status();
    assert!(status.unwrap().success());
    Image::open(&output).unwrap()
}

fn library(name: &str) -> Image {
    let dirs = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
    ];
    let mut paths = dirs.iter().map(|dir| Path::new(dir).join(name));
    Image::open(&paths.find(|path| path.exists()).unwrap()).unwrap()
}

/// It as whoever asks for it gets it.
fn told(image: &Image) -> (Outline, usize) {
    let bytes = Outline::of(image).to_bytes().unwrap();
    (Outline::of_bytes(&bytes).unwrap(), bytes.len())
}

/// Check that of a C library each instruction has the extent and the caller that its unwind tables tell, and of symbols what they tell.
#[test]
fn a_library_as_its_tables_tell() {
    let image = library("libc.so.6");
    let (outline, size) = told(&image);
    let tables = CallFrames::of(&image);
    let stack = StackSnapshot {
        base: 0x7000,
        bytes: (0..4096u64).flat_map(u64::to_le_bytes).collect(),
    };
    let regs = |pc: LinkAddr| Regs {
        rip: pc.0,
        rsp: 0x7100,
        rbp: 0x7800,
        rbx: 0x7900,
        r12: 12,
        r13: 13,
        r14: 14,
        r15: 0x7a00,
        r10: 0x7b00,
        ..Regs::default()
    };
    let (mut found, mut lost) = (0, 0);
    for range in image.text_ranges() {
        // All of them take long. Other steps would miss some of sixteen.
        for address in (range.start.0..range.end.0).step_by(61) {
            let pc = LinkAddr(address);
            assert_eq!(outline.frames.extent(pc), tables.extent(pc), "{pc}");
            let caller = outline.frames.caller(pc, &regs(pc), &stack);
            let expected = tables.caller(pc, &regs(pc), &stack);
            if caller.is_none() && expected.is_some() {
                lost += 1;
                continue;
            }
            assert_eq!(caller, expected, "{pc}");
            found += usize::from(caller.is_some());
        }
    }
    assert!(found > 10_000 && lost < found / 1000, "{found} {lost}");
    let functions = image.functions();
    for symbol in &functions {
        let at = symbol.address;
        assert_eq!(outline.functions.begins_at(at), names_function(&image, at));
        for at in [at, at.offset(1)] {
            let expected = image.function_before(at).unwrap();
            let named = outline.functions.before(at).unwrap();
            assert_eq!((named.start, named.size), (expected.address, expected.size));
        }
    }
    println!(
        "{size} bytes told, {} kept, {:?} entries and rows, {} rules, {} functions",
        outline.bytes(),
        outline.frames.counts(),
        outline.frames.rules.len(),
        functions.len()
    );
    fits_within(outline, size);
}

/// Check that a function with a destructor to run may be landed in, and one without may not; nor is that claimed
/// of what is not described.
#[test]
fn where_exceptions_lead() {
    const SOURCE: &str = r#"
extern "C" {
void work();
struct Held { ~Held(); };
void holds() { Held held; work(); }
void passes_through() { work(); work(); }
}
"#;
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-shared", "-fPIC"];
    let image = build("clang++-22", "a.cpp", SOURCE, &flags, dir.path());
    let (outline, _) = told(&image);
    let functions = image.functions();
    let lands = |name: &str| {
        let symbol = functions.iter().find(|symbol| symbol.name == name).unwrap();
        outline.frames.may_land(symbol.address.offset(1))
    };
    assert!(lands("holds") && !lands("passes_through"));
    assert!(outline.frames.may_land(LinkAddr(1)));
}

/// Check that of analyzed code no rows are kept, and no symbols, and that what lies before it does not seem to go on there.
#[test]
fn what_metadata_tells_is_told_once() {
    const SOURCE: &str = "int g; __attribute__((noinline, no_sanitize(\"thread\"))) int f(int n) { return g += n; }\n\
        int main(int n, char **v) { return f(n) + f(n + 1); }\n";
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-fexperimental-sanitize-metadata=atomics"];
    let image = build("clang-22", "a.c", SOURCE, &flags, dir.path());
    let (outline, _) = told(&image);
    let functions = image.functions();
    let find = |name: &str| -> &FunctionSymbol<'_> {
        functions.iter().find(|symbol| symbol.name == name).unwrap()
    };
    let metadata = outline.metadata.as_ref().unwrap();
    let main = find("main").address;
    assert!(metadata.function_at(main).unwrap().is_analyzed());
    assert!(outline.frames.extent(main).is_some());
    assert_eq!(outline.functions.before(main), None);
    let start = find("_start").address;
    assert!(outline.functions.begins_at(start) && !outline.functions.begins_at(main));
    let stack = StackSnapshot {
        base: 0x7000,
        bytes: vec![1; 256],
    };
    let regs = Regs {
        rsp: 0x7000,
        ..Regs::default()
    };
    assert_eq!(outline.frames.caller(main, &regs, &stack), None);
}

/// Check that no name of a routine is longer than those of C libraries, whoever tells it, and that names count.
#[test]
fn names_of_routines() {
    let name = |len: usize| format!("memcpy_avx{}", "x".repeat(len - 10));
    let (long, longer) = (name(64), name(65));
    let source = format!(
        "asm(\".text\\n.globl {long}, {longer}\\n.type {long}, @function\\n.type {longer}, @function\\n{long}: ret\\n{longer}: ret\\n\");"
    );
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-shared", "-nostdlib"];
    let image = build("clang-22", "a.c", &source, &flags, dir.path());
    let (mut outline, _) = told(&image);
    let names: Vec<&str> = (outline.declared.functions())
        .map(|(_, name)| name)
        .collect();
    assert_eq!(names, [&long]);
    let (named, all) = (outline.declared.bytes(), outline.bytes());
    assert!(named > long.len(), "{named}");
    outline.declared = Declared::default();
    assert_eq!(outline.bytes(), all - named);
    for (name, is_sound) in [(long, true), (longer, false)] {
        let (none, one) = (Vec::<(u64, String)>::new(), vec![(1u64, name)]);
        let bytes = postcard::to_allocvec(&(&none, &none, one, Vec::<u64>::new()));
        let declared: Declared = postcard::from_bytes(&bytes.unwrap()).unwrap();
        assert_eq!(declared.is_sound(), is_sound);
    }
}

/// Check that an outline which is cut short is none, and that there is one of a file that says of no part of it that it is loaded.
#[test]
fn damaged_outlines() {
    let dir = tempfile::tempdir().unwrap();
    let image = build(
        "clang-22",
        "a.c",
        "int main() { return 0; }",
        &["-O1"],
        dir.path(),
    );
    let bytes = Outline::of(&image).to_bytes().unwrap();
    for len in 0..bytes.len() {
        assert!(Outline::of_bytes(&bytes[..len]).is_err());
    }
    // `e_phnum`
    let mut bytes = image.data().to_vec();
    bytes[56..58].fill(0);
    let image = Image::parse(bytes, Path::new("a")).unwrap();
    assert!(told(&image).0.segments.is_empty());
}

/// Check that whatever bytes somebody tells, they are refused, or lead to lists in which looking is safe and finds what they say.
#[test]
fn lies_do_no_harm() {
    const SOURCE: &str = "#include <string.h>\n_Atomic int a; char b[64]; int far(int);\n\
        void f(int n) { a++; memset(b, far(n), n); }\n\
        int main(int n, char **v) { f(n); memcpy(b, v[0], n); return a; }\n";
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "-O1",
        "-shared",
        "-fPIC",
        "-fno-builtin",
        "-fexperimental-sanitize-metadata=atomics",
    ];
    let image = build("clang-22", "a.c", SOURCE, &flags, dir.path());
    let bytes = Outline::of(&image).to_bytes().unwrap();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut taken = 0;
    for _ in 0..4000 {
        let mut lie = bytes.clone();
        for _ in 0..=random(3) {
            let at = random(lie.len());
            lie[at] = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8][random(6)];
        }
        let Ok(outline) = Outline::of_bytes(&lie) else {
            continue;
        };
        taken += 1;
        let told = Outline::of_bytes(&outline.to_bytes().unwrap()).unwrap();
        let raw = Raw::of_bytes(image.data().to_vec(), Path::new("a"));
        look_for(&Outlined::new(raw, told), &image);
    }
    assert!((400..4000).contains(&taken), "{taken}");
}

/// Looks for all that a tracer looks for.
fn look_for(file: &Outlined, image: &Image) {
    let stack = StackSnapshot {
        base: 0x7000,
        bytes: (0..64u64).flat_map(u64::to_le_bytes).collect(),
    };
    let regs = Regs {
        rsp: 0x7080,
        rbp: 0x7100,
        ..Regs::default()
    };
    let text = image.text_ranges();
    let all = text
        .iter()
        .flat_map(|range| (range.start.0..range.end.0).step_by(4));
    for pc in all.chain([0, u64::MAX]).map(LinkAddr) {
        let extent = file.frames().extent(pc);
        assert!(extent.is_none_or(|range| range.contains(&pc)));
        let _ = (
            file.frames().caller(pc, &regs, &stack),
            file.frames().may_land(pc),
        );
        let named = file.functions().before(pc);
        assert!(named.is_none_or(|named| named.start <= pc));
        assert!(!file.functions().begins_at(pc) || named.is_some_and(|named| named.start == pc));
        let _ = (file.is_stub(pc), file.bytes_at(pc, 16));
        let function = file.metadata().and_then(|known| known.function_at(pc));
        assert!(function.is_none_or(|function| (function.start..function.end).contains(&pc)));
    }
}

/// Check that of a file with more segments than linkers make nothing is told but that.
#[test]
fn too_many_segments() {
    let dir = tempfile::tempdir().unwrap();
    let source = "int main() { return 0; }";
    let image = build("clang-22", "a.c", source, &["-O1"], dir.path());
    let load = image.segments()[0];
    for count in [256u16, 257] {
        // New headers at the end, all alike: `e_phoff`, `e_phnum`, and `p_type`, `p_flags` and the rest of `Elf64_Phdr`.
        let mut bytes = image.data().to_vec();
        let at = bytes.len() as u64;
        bytes[32..40].copy_from_slice(&at.to_le_bytes());
        bytes[56..58].copy_from_slice(&count.to_le_bytes());
        for _ in 0..count {
            bytes.extend([1u32, 5].iter().flat_map(|word| word.to_le_bytes()));
            let words = [0, load.address.0, 0, load.file_size, load.memory_size, 4096];
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        let image = Image::parse(bytes, Path::new("a")).unwrap();
        assert_eq!(image.segments().len(), usize::from(count));
        let (outline, _) = told(&image);
        assert_eq!(outline.segments.len(), 256);
        match outline.metadata {
            Ok(_) => assert_eq!(count, 256),
            Err(why) => assert!(count == 257 && why.contains("257 segments"), "{why}"),
        }
    }
}

/// Check that of what is too much to be told that is left out first which tells the least.
fn fits_within(outline: Outline, size: usize) {
    let rows = |outline: &Outline| outline.frames.counts().1;
    let all = rows(&outline);
    let outline = outline.within(size).unwrap();
    assert_eq!(rows(&outline), all);
    let outline = outline.within(size - 1).unwrap();
    assert_eq!(rows(&outline), 0);
    assert!(outline.functions.are_all() && outline.frames.counts().0 > 1000);
    let size = outline.to_bytes().unwrap().len();
    let outline = outline.within(size - 1).unwrap();
    assert!(!outline.functions.are_all() && outline.frames.counts().0 > 1000);
    let size = outline.to_bytes().unwrap().len();
    assert!(outline.within(size - 1).is_none());
}

/// Check that entries of unwind tables are found by the search table where they stand behind what looks like the end, or cannot be read.
#[test]
fn entries_behind_the_end() {
    let function =
        |name| format!("int g{name}(int); int f{name}(int n) {{ return g{name}(n) + n; }}\n");
    let source: String = ["a", "b", "c", "d", "e"].map(function).concat();
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-shared", "-fPIC"];
    let image = build("clang-22", "a.c", &source, &flags, dir.path());
    let (whole, _) = told(&image);
    let functions = image.functions();
    let start = |name: &str| {
        let symbol = functions.iter().find(|symbol| symbol.name == name);
        symbol.unwrap().address
    };
    let extents = |outline: &Outline| {
        ["fa", "fb", "fc", "fd", "fe"].map(|name| outline.frames.extent(start(name)))
    };
    assert!(extents(&whole).iter().all(Option::is_some));
    // Where the length of the entry of `fb` stands: two words before its address, which is told from where that stands.
    let table = image.section(".eh_frame").unwrap();
    let at = (0..table.data.len() - 4).step_by(4).find(|&at| {
        let word = i32::from_le_bytes(table.data[at..at + 4].try_into().unwrap());
        table.address.offset((at as i64) + i64::from(word)) == start("fb")
    });
    let at = usize::try_from(table.offset.0).unwrap() + at.unwrap() - 8;
    for length in [0u32, 0xffff_fff0] {
        let mut bytes = image.data().to_vec();
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        let image = Image::parse(bytes, Path::new("a")).unwrap();
        let (outline, _) = told(&image);
        let mut expected = extents(&whole);
        expected[1] = None;
        assert_eq!(extents(&outline), expected);
        let rows = |outline: &Outline| outline.frames.counts().1;
        assert!(rows(&outline) + 8 > rows(&whole));
    }
}

/// Check that where not all rows are kept those of routines are, wherever they stand.
#[test]
fn rows_of_routines_come_first() {
    let image = library("libc.so.6");
    let (outline, _) = told(&image);
    let starts = outline.declared.starts();
    let last = *starts.last().unwrap();
    let base = outline.frames.base;
    let rows = |most, first| {
        let is_routine = |range: Range<LinkAddr>| first && range.contains(&last);
        let frames = Frames::of(&image, base, most, is_routine, |_| true);
        assert!(frames.rows.is_sorted_by_key(|row| row.start) && frames.rows.len() <= most);
        let at = u32::try_from(last.0 - base.0).unwrap();
        frames.rows.iter().any(|row| row.start == at)
    };
    assert!(rows(1000, true) && !rows(1000, false));
    assert!(rows(MOST_ROWS, false));
}
