//! Loading and asking the metadata of a large program: 1,000,000 functions, 200,000 atomics.
//!
//! Writes an ELF file of that size, then prints CSV: the time to load it from the page cache
//! (median of 9), once with the entries in the order of the code, as linkers leave them, and
//! once shuffled; the time of one random query (median of 9 runs of a million); and the memory
//! that the tables take. `cargo run --release -p gwp-race --example bench_pcmeta`

mod elf;
mod random;
mod tables;

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use gwp_race::addr::LinkAddr;
use gwp_race::image::Image;
use gwp_race::insn::AccessKind;
use gwp_race::pcmeta::Metadata;

use elf::TEXT_ADDRESS;
use random::Random;

const FUNCTIONS: usize = 1_000_000;
const ATOMICS: usize = 200_000;
const RUNS: usize = 9;
const QUERIES: usize = 1_000_000;

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
        Self {
            text_size: at - TEXT_ADDRESS,
            atomics: tables::choose_atomics(&functions, ATOMICS, random),
            functions,
        }
    }

    /// Writes an ELF file with the metadata of this program in version 2.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let sections = tables::sections(&self.functions, &self.atomics, self.text_size);
        elf::write(path, self.text_size, &sections)
            .with_context(|| format!("cannot write {}", path.display()))
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
