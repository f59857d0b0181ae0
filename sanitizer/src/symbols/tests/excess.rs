//! Files that ask for more than anybody should give: each is looked at by a process that has little memory.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use nix::sys::resource::{Resource, setrlimit};

use super::super::{
    CallFrames, ModuleInfo, Outline, StackSnapshot, Stopped, Symbolizer, load_metadata,
    names_function,
};
use crate::addr::LinkAddr;
use crate::image::Image;
use crate::insn::Regs;
use crate::pcmeta::{Metadata, MetadataError};

/// What the process that looks may have of memory of its own, in bytes. All of it together is less than 100 MB.
const MEMORY: u64 = 64 << 20;
/// Where the code of the programs is.
const TEXT: u64 = 0x10_0000;
const TEXT_SIZE: u32 = 0x1000_0000;
/// The address that is asked for.
const PROBE: u64 = TEXT + 0x123;

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHF_COMPRESSED: u64 = 0x800;
/// `ELFCOMPRESS_ZSTD`.
const ZSTANDARD: u32 = 2;

/// A section with holes.
pub(crate) struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    size: u64,
    parts: Vec<(u64, Vec<u8>)>,
}

impl Section {
    fn new(name: &'static str, bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        Self {
            name,
            kind: SHT_PROGBITS,
            flags: 0,
            size,
            parts: vec![(0, bytes)],
        }
    }

    /// One that has `size` bytes of one value when it is decompressed.
    fn bomb(name: &'static str, value: u8, size: u64) -> Self {
        const BLOCK: u64 = 1 << 17;
        let mut bytes = [ZSTANDARD.to_le_bytes(), [0; 4]].concat();
        bytes.extend([size, 1].map(u64::to_le_bytes).concat());
        // A frame with a window of 1 MiB, and blocks of one byte that is repeated.
        bytes.extend([0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3]);
        for at in (0..size).step_by(BLOCK as usize) {
            let block = BLOCK.min(size - at);
            let is_last = u64::from(at + block == size);
            bytes.extend(&(block << 3 | 1 << 1 | is_last).to_le_bytes()[..3]);
            bytes.push(value);
        }
        Self {
            flags: SHF_COMPRESSED,
            ..Self::new(name, bytes)
        }
    }
}

/// Writes a shared library with one segment of code and these sections.
pub(crate) fn write(path: &Path, sections: &[Section]) {
    let mut names = vec![0];
    let mut file = File::create(path).unwrap();
    let mut headers = vec![0; 64];
    let mut at = 0x1000u64;
    let strtab = sections.iter().position(|s| s.kind == SHT_STRTAB);
    for section in sections {
        let name = names.len() as u32;
        names.extend(section.name.bytes().chain([0]));
        headers.extend([name, section.kind].map(u32::to_le_bytes).concat());
        headers.extend(
            [section.flags, 0, at, section.size]
                .map(u64::to_le_bytes)
                .concat(),
        );
        let link = strtab.map_or(0, |at| at as u32 + 1);
        headers.extend([link, 0].map(u32::to_le_bytes).concat());
        headers.extend([1u64, 0].map(u64::to_le_bytes).concat());
        for (offset, bytes) in &section.parts {
            file.seek(SeekFrom::Start(at + offset)).unwrap();
            file.write_all(bytes).unwrap();
        }
        at = (at + section.size).next_multiple_of(16);
    }
    names.extend(b".shstrtab\0");
    headers.extend(
        [names.len() as u32 - 10, SHT_STRTAB]
            .map(u32::to_le_bytes)
            .concat(),
    );
    headers.extend(
        [0, 0, at, names.len() as u64]
            .map(u64::to_le_bytes)
            .concat(),
    );
    headers.extend([0; 24]);
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&names).unwrap();
    let headers_at = (at + names.len() as u64).next_multiple_of(16);
    file.seek(SeekFrom::Start(headers_at)).unwrap();
    file.write_all(&headers).unwrap();
    let count = sections.len() as u16 + 2;
    let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    header.resize(16, 0);
    header.extend([3u16, 62].map(u16::to_le_bytes).concat());
    header.extend(1u32.to_le_bytes());
    header.extend([0, 64, headers_at].map(u64::to_le_bytes).concat());
    header.extend(0u32.to_le_bytes());
    let halves = [64, 56, 1, 64, count, count - 1];
    header.extend(halves.map(u16::to_le_bytes).concat());
    // The segment: PT_LOAD, read and execute.
    header.extend([1u32, 5].map(u32::to_le_bytes).concat());
    let size = u64::from(TEXT_SIZE);
    header.extend(
        [0, TEXT, TEXT, 0, size, 0x1000]
            .map(u64::to_le_bytes)
            .concat(),
    );
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&header).unwrap();
}

/// Declarations: 1 a unit, 2 a function, 3 an inlined call, 4 a variable, 5 a unit with a line table, 6 a unit of
/// nothing but a block.
fn abbreviations() -> Section {
    let bytes = [
        &[1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0][..],
        &[2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[
            3, 0x1d, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0x59, 0x0b, 0, 0,
        ],
        &[4, 0x34, 0, 0x02, 0x0a, 0x49, 0x13, 0, 0],
        &[5, 0x11, 0, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17, 0, 0],
        &[6, 0x34, 0, 0x1c, 0x04, 0, 0],
        &[0],
    ];
    Section::new(".debug_abbrev", bytes.concat())
}

/// A unit of DWARF 4 with these entries.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend([4, 0, 0, 0, 0, 0, 8]);
    bytes.extend(entries);
    bytes
}

/// Address and size of an entry.
fn extent(address: u64, size: u32) -> Vec<u8> {
    [&address.to_le_bytes()[..], &size.to_le_bytes()].concat()
}

fn root() -> Vec<u8> {
    [vec![1], extent(TEXT, TEXT_SIZE)].concat()
}

fn function(name: &str, address: u64, size: u32) -> Vec<u8> {
    [&[2], name.as_bytes(), &[0], &extent(address, size)].concat()
}

/// Calls that are inlined into each other.
fn nested() -> Vec<Section> {
    let mut entries = [root(), function("outer", TEXT, 0x1000)].concat();
    for _ in 0..100_000 {
        entries.extend([&[3, b'i', 0][..], &extent(TEXT, 0x1000), &[7]].concat());
    }
    entries.extend(vec![0; 100_002]);
    vec![abbreviations(), Section::new(".debug_info", unit(&entries))]
}

/// More functions in a unit than are kept.
fn functions() -> Vec<Section> {
    let mut entries = root();
    for index in 0..2_000_000 {
        entries.extend(function(&format!("f{index}"), TEXT + 16 * index, 16));
        entries.push(0);
    }
    entries.push(0);
    vec![abbreviations(), Section::new(".debug_info", unit(&entries))]
}

/// A function with a million variables.
fn variables() -> Vec<Section> {
    let mut entries = [root(), function("outer", TEXT, 0x1000)].concat();
    for _ in 0..1_000_000 {
        entries.extend([4, 1, 0x55, 0, 0, 0, 0]);
    }
    entries.extend([0, 0]);
    vec![abbreviations(), Section::new(".debug_info", unit(&entries))]
}

/// A table of a million declarations.
fn declarations() -> Vec<Section> {
    let mut bytes = abbreviations().parts.remove(0).1;
    bytes.pop();
    for code in 100..1_000_000u32 {
        let code = [code, code >> 7, code >> 14].map(|byte| byte as u8 & 0x7f);
        bytes.extend([
            code[0] | 0x80,
            code[1] | 0x80,
            code[2],
            0x34,
            0,
            0x1c,
            0x04,
            0,
            0,
        ]);
    }
    bytes.push(0);
    let entries = [root(), function("outer", TEXT, 0x1000), vec![0, 0]].concat();
    let info = Section::new(".debug_info", unit(&entries));
    vec![Section::new(".debug_abbrev", bytes), info]
}

/// A unit with a line table: names of files, and opcodes.
fn with_lines(files: &[u8], opcodes: &[u8]) -> Vec<Section> {
    let entries = [vec![5], extent(TEXT, TEXT_SIZE), vec![0; 4]].concat();
    // No directories. A row's line is at most 5 smaller, of 14 values; each standard opcode has its operands.
    let operands = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    let names = [&[1, 1, 1, 0xfb, 14, 13], &operands[..], &[0], files, &[0]].concat();
    let mut table = 4u16.to_le_bytes().to_vec();
    table.extend((names.len() as u32).to_le_bytes());
    table.extend(names);
    table.extend([0, 9, 2]);
    table.extend(TEXT.to_le_bytes());
    table.extend(opcodes);
    table.extend([0, 1, 1]);
    let line = [&(table.len() as u32).to_le_bytes()[..], &table].concat();
    vec![
        abbreviations(),
        Section::new(".debug_info", unit(&entries)),
        Section::new(".debug_line", line),
    ]
}

/// A table of 40 million rows, one for each byte of code.
fn rows() -> Vec<Section> {
    with_lines(b"file.c\0\0\0\0", &vec![13 + 5 + 14; 40_000_000])
}

/// A table of three million files, of which the last is asked for.
fn files() -> Vec<Section> {
    let mut files = b"a\0\0\0\0".repeat(3_000_000);
    files.extend(b"last.c\0\0\0\0");
    // Set file 3,000,001; a row; on by 4,096 bytes.
    let opcodes = [4, 0xc1, 0x8d, 0xb7, 1, 1, 2, 0x80, 0x20];
    with_lines(&files, &opcodes)
}

/// A path of 8 MB.
fn path() -> Vec<Section> {
    let mut files = vec![b'p'; 8 << 20];
    files.extend([0; 4]);
    with_lines(&files, &[1, 2, 0x80, 0x20])
}

/// 2 GiB of debug information in units of 64 KiB.
fn large() -> Vec<Section> {
    const UNIT: u64 = 1 << 16;
    let mut parts = Vec::new();
    for number in 0..1u64 << 15 {
        let address = TEXT + number * 0x1000;
        let mut entries = [vec![1], extent(address, 0x1000)].concat();
        entries.extend(function(&format!("f{number}"), address, 0x1000));
        entries.extend([0, 6]);
        let block = UNIT - entries.len() as u64 - 11 - 4 - 1;
        entries.extend((block as u32).to_le_bytes());
        let mut bytes = unit(&entries);
        bytes[..4].copy_from_slice(&(UNIT as u32 - 4).to_le_bytes());
        parts.push((number * UNIT, bytes));
    }
    let info = Section {
        size: UNIT << 15,
        parts,
        ..Section::new(".debug_info", Vec::new())
    };
    vec![abbreviations(), info]
}

fn with_symbol(names: Section) -> Vec<Section> {
    let mut symbol = vec![0; 24];
    symbol.extend([1, 0, 0, 0, 0x12, 0, 1, 0]);
    symbol.extend([TEXT, 0x1000].map(u64::to_le_bytes).concat());
    let symbols = Section {
        kind: SHT_SYMTAB,
        ..Section::new(".symtab", symbol)
    };
    let names = Section {
        kind: SHT_STRTAB,
        ..names
    };
    vec![symbols, names]
}

/// A name of a megabyte among names of 250, and one of 250 megabytes that is compressed.
fn names() -> [Vec<Section>; 2] {
    let long = Section {
        size: 250 << 20,
        parts: vec![(0, vec![0]), (1, vec![b'n'; 1 << 20])],
        ..Section::new(".strtab", Vec::new())
    };
    let bomb = Section::bomb(".strtab", b'n', 250 << 20);
    [with_symbol(long), with_symbol(bomb)]
}

/// More functions than entries are looked at, all of one name but the first and the last; and one function that the metadata covers.
fn many_symbols() -> Vec<Section> {
    const SHF_ALLOC: u64 = 2;
    const SHF_EXECINSTR: u64 = 4;
    const NUMBER: u64 = (1 << 22) + 2;
    let symbol = |name: u32, address: u64| {
        let mut symbol = name.to_le_bytes().to_vec();
        symbol.extend([0x12, 0, 1, 0]);
        symbol.extend([address, 0x10].map(u64::to_le_bytes).concat());
        symbol
    };
    let mut symbols = symbol(1, PROBE);
    for number in 2..NUMBER {
        symbols.extend(symbol(7, TEXT + 0x1000 + number));
    }
    symbols.extend(symbol(12, PROBE + 0x10));
    let mut sections = with_symbol(Section::new(".strtab", b"\0first\0many\0last\0".to_vec()));
    sections[0] = Section {
        kind: SHT_SYMTAB,
        ..Section::new(".symtab", symbols)
    };
    let text = Section {
        flags: SHF_ALLOC | SHF_EXECINSTR,
        ..Section::new(".text", vec![0x90; 0x1000])
    };
    // A distance to its code, its size, and what was analyzed.
    let covered = Section {
        flags: SHF_ALLOC,
        ..Section::new("sanmd_covered2", vec![0x10, 0, 0, 0, 0x20, 1])
    };
    sections.extend([text, covered]);
    sections
}

/// A name of 500 bytes that stands for gigabytes.
fn doubling() -> Vec<Section> {
    let mut name = String::from("\0_Z1f1a1pIS_S_E");
    for digit in "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars() {
        name.push_str(&format!("S0_IS{digit}_S{digit}_E"));
    }
    name.push('\0');
    with_symbol(Section::new(".strtab", name.into_bytes()))
}

/// Sections of 4 GiB in 100 KB, one after the other.
fn bombs() -> Vec<Vec<Section>> {
    let bomb = |name, value| {
        let sections = [".debug_abbrev", ".debug_info", ".debug_line", ".debug_str"];
        let others = sections.into_iter().filter(move |other| *other != name);
        let others = others.map(|name| match name {
            ".debug_abbrev" => abbreviations(),
            ".debug_info" => {
                let entries = [root(), function("outer", TEXT, 0x1000), vec![0, 0]].concat();
                Section::new(name, unit(&entries))
            }
            name => Section::new(name, vec![0; 16]),
        });
        others
            .chain([Section::bomb(name, value, 4 << 30)])
            .collect()
    };
    vec![
        bomb(".debug_info", 0),
        bomb(".debug_line", 32),
        bomb(".debug_str", b'x'),
        bomb(".debug_abbrev", 1),
    ]
}

/// Has a process with little memory look at a file with these sections; what it tells.
fn look_at(sections: &[Section]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    write(&path, sections);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "symbols::tests::excess::look"])
        .args(["--ignored", "--nocapture", "--test-threads", "1"])
        .env(FILE, &path)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let of: Vec<_> = sections.iter().map(|section| section.name).collect();
    assert!(output.status.success(), "{of:?}: {told}\n{errors}");
    assert!(told.contains("\nlooked: "), "{of:?}: {told}");
    told
}

/// Where the process that looks finds the name of its file.
const FILE: &str = "GWP_RACE_TEST_EXCESSIVE_FILE";

/// Looks at a file with little memory; see [`look_at`].
#[test]
#[ignore = "the other tests of this file start it"]
fn look() {
    let path = std::env::var_os(FILE).expect("the name of a file");
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY).unwrap();
    let symbolizer = Symbolizer::with_debug_dirs(Vec::new());
    println!("{}", told_by(symbolizer, path.as_ref()));
    look_at_image(&Image::open(path.as_ref()).unwrap());
}

/// What a symbolizer tells of a file.
pub(crate) fn told_by(mut symbolizer: Symbolizer, path: &Path) -> String {
    use std::fmt::Write as _;
    symbolizer.add_module(&ModuleInfo {
        path: "/opt/file".to_owned(),
        via: path.to_owned().into(),
        start: TEXT,
        end: TEXT + u64::from(TEXT_SIZE),
        bias: 0,
        build_id: Vec::new(),
    });
    let frames = symbolizer.frames(PROBE);
    let _ = symbolizer.frames(TEXT + u64::from(TEXT_SIZE) - 1);
    let stopped = Stopped {
        pc: PROBE,
        regs: &Regs::default(),
        stack: &StackSnapshot::default(),
    };
    let _ = symbolizer.held_at(stopped, (PROBE, 8));
    let _ = symbolizer.result_at(PROBE);
    let _ = symbolizer.is_of_no_place(PROBE);
    let _ = symbolizer.global_at(PROBE);
    let first = frames.first().unwrap();
    let outermost = frames.last().unwrap();
    let name = outermost.function.as_deref().unwrap_or("nothing");
    let mut told = String::new();
    writeln!(
        told,
        "\nlooked: {} frames of {}",
        frames.len(),
        &name[..name.len().min(600)]
    )
    .unwrap();
    writeln!(told, "name: {} bytes", name.len()).unwrap();
    let file = first.file.as_deref().unwrap_or_default();
    writeln!(
        told,
        "file: {} bytes, {}",
        file.len(),
        &file[..file.len().min(80)]
    )
    .unwrap();
    writeln!(told, "line: {:?}", first.line).unwrap();
    writeln!(told, "lack: {:?}", symbolizer.lack(PROBE)).unwrap();
    told
}

/// All of these files, one after the other, with what is to be told of each.
pub(crate) fn all() -> impl Iterator<Item = (Vec<Section>, &'static str)> {
    let bombs = bombs().into_iter();
    let [long, bomb] = names();
    let of_names = [
        (long, "name: 4096 bytes"),
        (bomb, "looked: 1 frames of nothing\n"),
        (doubling(), "frames of _Z1f1a1pIS_S_ES0_IS1_S1_E"),
    ];
    type Make = fn() -> Vec<Section>;
    let made: [(Make, &str); 8] = [
        (nested, "more than 256 calls"),
        (functions, "looked: 1 frames of f18\n"),
        (variables, "looked: 1 frames of outer\n"),
        (declarations, "table of abbreviations"),
        (rows, "line: Some(1)"),
        (files, "file: 6 bytes, last.c"),
        (path, "file: 4096 bytes, ppp"),
        (large, "looked: 1 frames of f0\n"),
    ];
    (made.into_iter().map(|(make, told)| (make(), told)))
        .chain(bombs.map(|bomb| (bomb, "claims to have 4294967296 bytes")))
        .chain(of_names)
}

/// The same for what the hunt asks.
fn look_at_image(image: &Image) {
    let frames = CallFrames::of(image);
    let covered = load_metadata(image, || &frames).map_or(0, |metadata| metadata.function_count());
    println!("covered: {covered}");
    let all = [image.all_functions().is_some(), image.labels().is_some()];
    println!(
        "functions: {}, objects: {}, all: {all:?}",
        image.functions().len(),
        image.objects().len()
    );
    let last = image.functions_where(|symbol| symbol.name == "last").len();
    let names_last = names_function(image, LinkAddr(PROBE + 0x10));
    let before = image.function_before(LinkAddr(PROBE + 1));
    let outline = Outline::of(image).to_bytes().unwrap();
    assert!(Outline::of_bytes(&outline).unwrap().bytes() < 40 << 20);
    println!(
        "last: {last} {names_last}, before: {:?}",
        before.map(|symbol| symbol.name)
    );
}

/// Check that no file with excessive debug information takes more than a process may have, and that what can be told
/// of it is told, or why it is not.
#[test]
fn debug_information() {
    let told = look_at(&nested());
    assert!(told.contains("looked: 257 frames of outer\n"), "{told}");
    assert!(told.contains("more than 256 calls"), "{told}");
    let told = look_at(&functions());
    assert!(told.contains("looked: 1 frames of f18\n"), "{told}");
    let told = look_at(&variables());
    assert!(told.contains("looked: 1 frames of outer\n"), "{told}");
    let told = look_at(&declarations());
    assert!(told.contains("looked: 1 frames of nothing\n"), "{told}");
    assert!(told.contains("table of abbreviations"), "{told}");
}

/// The same for line tables.
#[test]
fn line_tables() {
    let told = look_at(&rows());
    assert!(told.contains("line: Some(1)"), "{told}");
    assert!(told.contains("file: 6 bytes, file.c"), "{told}");
    let told = look_at(&files());
    assert!(told.contains("file: 6 bytes, last.c"), "{told}");
    let told = look_at(&path());
    assert!(told.contains("file: 4096 bytes, ppp"), "{told}");
}

/// The same for what is compressed: it is refused by what it claims.
#[test]
fn compressed() {
    for sections in bombs() {
        let told = look_at(&sections);
        assert!(told.contains("looked: 1 frames of nothing\n"), "{told}");
        assert!(told.contains("claims to have 4294967296 bytes"), "{told}");
    }
}

/// The same for the names of symbols.
#[test]
fn symbol_names() {
    let [long, bomb] = names();
    let told = look_at(&long);
    assert!(told.contains("name: 4096 bytes"), "{told}");
    let told = look_at(&bomb);
    assert!(told.contains("looked: 1 frames of nothing\n"), "{told}");
    let told = look_at(&doubling());
    assert!(
        told.contains("frames of _Z1f1a1pIS_S_ES0_IS1_S1_E"),
        "{told}"
    );
}

/// The same for their number: the first of them are known, and nothing is concluded of those that are missing.
#[test]
fn number_of_symbols() {
    let told = look_at(&many_symbols());
    assert!(told.contains("looked: 1 frames of first\n"), "{told}");
    assert!(told.contains("covered: 1\n"), "{told}");
    assert!(
        told.contains("functions: 524288, objects: 0, all: [false, false]"),
        "{told}"
    );
    assert!(
        told.contains("last: 0 false, before: Some(\"first\")"),
        "{told}"
    );
}

/// Check that 2 GiB of debug information are read, function by function, by a process that has a thirtieth of it.
#[test]
fn large_program() {
    let told = look_at(&large());
    assert!(told.contains("looked: 1 frames of f0\n"), "{told}");
    assert!(told.contains("lack: None"), "{told}");
}

/// Check that metadata of which more would be kept than a process may have is refused, with what it has and may have.
#[test]
fn metadata() {
    const SHF_ALLOC: u64 = 2;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let load = |size: u64| {
        let section = Section {
            flags: SHF_ALLOC,
            size,
            ..Section::new("sanmd_atomics2", Vec::new())
        };
        write(&path, &[section]);
        Metadata::load(&Image::open(&path).unwrap())
    };
    // An offset of 0 is padding.
    assert!(load(1 << 20).is_ok_and(|metadata| metadata.is_empty()));
    let error = load(100 << 20).err().expect("it is too much");
    let limit = 32 << 20;
    assert!(
        matches!(error, MetadataError::TooLarge { bytes, limit: most, .. } if bytes == 100 << 20 && most == limit)
    );
}
