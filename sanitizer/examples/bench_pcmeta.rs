//! Loading and asking the metadata of a large program: 1,000,000 functions, 200,000 atomics.
//!
//! Writes an ELF file of that size, then prints CSV: the time to load it from the page cache
//! (median of 9), once with the entries in the order of the code, as linkers leave them, and
//! once shuffled; the time of one random query (median of 9 runs of a million); and the memory
//! that the tables take. `cargo run --release -p gwp-race --example bench_pcmeta`

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use gwp_race::addr::LinkAddr;
use gwp_race::image::Image;
use gwp_race::insn::AccessKind;
use gwp_race::pcmeta::Metadata;

const FUNCTIONS: usize = 1_000_000;
const ATOMICS: usize = 200_000;
const RUNS: usize = 9;
const QUERIES: usize = 1_000_000;

const PAGE: u64 = 0x1000;
const TEXT_ADDRESS: u64 = 0x40_0000;
const HEADER_SIZE: u64 = 64;
const SECTION_HEADER_SIZE: u64 = 64;
const PROGRAM_HEADER_SIZE: u64 = 56;

/// A random number generator with a fixed start, so that each run measures the same.
struct Random(u64);

impl Random {
    /// A number below `limit`: splitmix64, scaled.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * u128::from(limit)) >> 64) as u64
    }
}

/// The program that the files describe.
struct Program {
    text_size: u64,
    functions: Vec<(u64, u64)>,
    atomics: Vec<u64>,
}

impl Program {
    fn new(random: &mut Random) -> Self {
        let mut at = TEXT_ADDRESS;
        let functions: Vec<(u64, u64)> = (0..FUNCTIONS)
            .map(|_| {
                // Sizes as they are in large C++ programs: most below 128 bytes, few large.
                let size = match random.below(10) {
                    0 => 200 + random.below(2000),
                    _ => 6 + random.below(120),
                };
                let start = at;
                at = (at + size).next_multiple_of(16);
                (start, size)
            })
            .collect();
        let mut atomics: Vec<u64> = (0..ATOMICS)
            .map(|_| {
                let index = random.below(FUNCTIONS as u64) as usize;
                let (start, size) = functions[index];
                start + random.below(size)
            })
            .collect();
        atomics.sort_unstable();
        Self {
            text_size: at - TEXT_ADDRESS,
            functions,
            atomics,
        }
    }

    /// Writes an ELF file with the metadata of this program in version 2. The code itself is a
    /// hole in the file: nothing reads it.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let covered_address = (TEXT_ADDRESS + self.text_size).next_multiple_of(PAGE);
        let mut covered = Vec::new();
        for &(start, size) in &self.functions {
            let here = covered_address + covered.len() as u64;
            covered.extend((start.wrapping_sub(here) as i32).to_le_bytes());
            let mut rest = size;
            while rest >= 0x80 {
                covered.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            covered.push(rest as u8);
            covered.push(1);
        }
        let atomics_address = covered_address + covered.len() as u64;
        let mut atomics = Vec::new();
        for pc in &self.atomics {
            let here = atomics_address + atomics.len() as u64;
            atomics.extend((pc.wrapping_sub(here) as i32).to_le_bytes());
        }

        let names = b"\0.text\0sanmd_covered2\0sanmd_atomics2\0.shstrtab\0";
        let name = |name: &str| {
            let at = names
                .windows(name.len())
                .position(|window| window == name.as_bytes());
            at.unwrap_or_default() as u64
        };
        let text_offset = PAGE;
        let covered_offset = text_offset + (covered_address - TEXT_ADDRESS);
        let atomics_offset = covered_offset + covered.len() as u64;
        let names_offset = atomics_offset + atomics.len() as u64;
        let sections_offset = (names_offset + names.len() as u64).next_multiple_of(8);
        let (allocated, executable) = (2, 4);
        // name, type, flags, address, offset, size
        let sections = [
            [0; 6],
            [
                name(".text"),
                1,
                allocated | executable,
                TEXT_ADDRESS,
                text_offset,
                self.text_size,
            ],
            [
                name("sanmd_covered2"),
                1,
                allocated,
                covered_address,
                covered_offset,
                covered.len() as u64,
            ],
            [
                name("sanmd_atomics2"),
                1,
                allocated,
                atomics_address,
                atomics_offset,
                atomics.len() as u64,
            ],
            [name(".shstrtab"), 3, 0, 0, names_offset, names.len() as u64],
        ];

        let mut file = Vec::new();
        file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        put(&mut file, 2, &[2, 62]); // ET_EXEC, EM_X86_64
        put(&mut file, 4, &[1]);
        put(&mut file, 8, &[TEXT_ADDRESS, HEADER_SIZE, sections_offset]);
        put(&mut file, 4, &[0]);
        put(
            &mut file,
            2,
            &[HEADER_SIZE, PROGRAM_HEADER_SIZE, 1, SECTION_HEADER_SIZE],
        );
        put(
            &mut file,
            2,
            &[sections.len() as u64, sections.len() as u64 - 1],
        );
        put(&mut file, 4, &[1, 5]); // PT_LOAD, readable and executable
        let loaded = names_offset - text_offset;
        put(
            &mut file,
            8,
            &[
                text_offset,
                TEXT_ADDRESS,
                TEXT_ADDRESS,
                loaded,
                loaded,
                PAGE,
            ],
        );
        file.resize(covered_offset as usize, 0);
        file.extend(covered);
        file.extend(atomics);
        file.extend(names);
        file.resize(sections_offset as usize, 0);
        for [name, kind, flags, address, offset, size] in sections {
            put(&mut file, 4, &[name, kind]);
            put(&mut file, 8, &[flags, address, offset, size]);
            put(&mut file, 4, &[0, 0]);
            put(&mut file, 8, &[1, 0]);
        }
        std::fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Appends numbers of `width` bytes.
fn put(out: &mut Vec<u8>, width: usize, numbers: &[u64]) {
    for number in numbers {
        out.extend(&number.to_le_bytes()[..width]);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Milliseconds to open the file and to decode its metadata, median of several.
fn load_ms(path: &Path) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..=RUNS {
        let start = Instant::now();
        let metadata = Metadata::load(&Image::open(path)?)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(
            metadata.function_count() == FUNCTIONS,
            "not all functions were found"
        );
    }
    times.remove(0); // the one that brought the file into the page cache
    Ok(median(times))
}

/// Nanoseconds a query of random addresses in the code, median of several.
fn query_ns<T>(addresses: &[LinkAddr], query: impl Fn(LinkAddr) -> T) -> f64 {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        for &address in addresses {
            black_box(query(black_box(address)));
        }
        start.elapsed().as_secs_f64() * 1e9 / addresses.len() as f64
    });
    median(times.collect())
}

fn main() -> anyhow::Result<()> {
    let mut random = Random(1);
    let mut program = Program::new(&mut random);
    let directory = tempfile::tempdir()?;
    let sorted = directory.path().join("sorted");
    let shuffled = directory.path().join("shuffled");
    program.write(&sorted)?;
    for last in (1..program.functions.len()).rev() {
        program
            .functions
            .swap(last, random.below(last as u64 + 1) as usize);
    }
    for last in (1..program.atomics.len()).rev() {
        program
            .atomics
            .swap(last, random.below(last as u64 + 1) as usize);
    }
    program.write(&shuffled)?;

    println!("measure,value,unit");
    println!("load_sorted,{:.1},ms", load_ms(&sorted)?);
    println!("load_shuffled,{:.1},ms", load_ms(&shuffled)?);

    let metadata = Metadata::load(&Image::open(&sorted)?)?;
    let addresses: Vec<LinkAddr> = (0..QUERIES)
        .map(|_| LinkAddr(TEXT_ADDRESS + random.below(program.text_size)))
        .collect();
    println!(
        "query_function,{:.1},ns",
        query_ns(&addresses, |pc| metadata.function_at(pc))
    );
    println!(
        "query_atomic,{:.1},ns",
        query_ns(&addresses, |pc| metadata.is_atomic(pc))
    );
    let atomicity = |pc| metadata.atomicity(pc, 4, AccessKind::Write);
    println!("query_atomicity,{:.1},ns", query_ns(&addresses, atomicity));

    let (functions, atomics) = metadata.memory_size();
    println!(
        "memory_function,{:.1},bytes",
        functions as f64 / metadata.function_count() as f64
    );
    println!(
        "memory_atomic,{:.1},bytes",
        atomics as f64 / metadata.atomic_count() as f64
    );
    Ok(())
}
