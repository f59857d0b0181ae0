//! Programs that clang has split, with and without symbols and block maps.

use super::*;
use crate::pcmeta::testing::Workshop;

/// A function with a rare part that has an atomic and a plain access, one that calls on the rare path, and one
/// that nothing is to be known of.
const SOURCE: &str = r#"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
_Atomic long atomic_hits;
long hits, other[64];
__attribute__((noinline)) long work(long x) {
  long sum = x;
  for (int i = 0; i < 100; i++) sum = sum * 31 + i;
  if (__builtin_expect(sum & 1, 0)) {
    hits++;
    atomic_hits++;
    other[sum & 63] += sum;
  }
  return sum;
}
__attribute__((noinline)) long calls(long x) {
  long y = work(x);
  if (__builtin_expect(y == 12345, 0)) {
    printf("%ld\n", hits);
    hits = rand();
    printf("%ld %ld\n", hits, y);
  }
  return y + other[x & 63];
}
int main(int argc, char **argv) { (void)argv; return (int)(calls(argc) + work(argc)); }
"#;

const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";

fn workshop() -> Workshop {
    let workshop = Workshop::new();
    workshop.write("input.c", SOURCE);
    // The entry of `work` alone is hot.
    workshop.write("list", "!work\n!!0 1 2\n");
    workshop
}

fn load(workshop: &Workshop, file: &str) -> (Image, Metadata) {
    let image = Image::open(&workshop.path(file)).unwrap();
    let frames = CallFrames::of(&image);
    let metadata = load_metadata(&image, || &frames).unwrap();
    (image, metadata)
}

/// The functions that are covered whole: those whose symbols' code, and that of all their parts, is covered.
fn covered_bytes(metadata: &Metadata) -> u64 {
    metadata.functions().map(|function| function.size()).sum()
}

/// The atomic instructions that are in no covered function.
fn lost_atomics(metadata: &Metadata) -> usize {
    let is_lost = |pc: &LinkAddr| metadata.function_at(*pc).is_none();
    metadata.atomics().filter(is_lost).count()
}

/// Check that each way of splitting by each compiler leaves no code of a covered function out where symbols are
/// there, that each part is its own function's, and that each is analyzed.
#[test]
fn split_programs_are_covered() {
    let workshop = workshop();
    for (compiler, flags) in [
        ("clang-22", "-fbasic-block-sections=all"),
        ("clang-16", "-fbasic-block-sections=all"),
        (
            "clang-22",
            "-fbasic-block-sections=all -fbasic-block-address-map",
        ),
        (
            "clang-22",
            "-fbasic-block-sections=all -fomit-frame-pointer -fuse-ld=lld-22",
        ),
        (
            "clang-22",
            "-fbasic-block-sections=all -fno-asynchronous-unwind-tables",
        ),
    ] {
        workshop.run(&format!(
            "{compiler} -O2 {METADATA} {flags} input.c -o split"
        ));
        let (image, metadata) = load(&workshop, "split");
        assert!(metadata.fragment_count() >= 6, "{compiler} {flags}");
        assert_eq!(lost_atomics(&metadata), 0, "{compiler} {flags}");
        for name in ["work", "calls"] {
            let (functions, labels) = (image.functions(), image.labels().unwrap());
            let whole = functions.iter().find(|symbol| symbol.name == name).unwrap();
            let parts: Vec<_> = (labels.iter())
                .filter(|symbol| symbol.name.starts_with(&format!("{name}.")) && symbol.size > 0)
                .collect();
            assert!(parts.len() >= 2, "{compiler} {flags}");
            for part in parts {
                let function = metadata.function_at(part.address);
                let function =
                    function.unwrap_or_else(|| panic!("{compiler} {flags} {}", part.name));
                assert!(function.is_analyzed());
                assert_eq!(function.size(), part.size);
                assert_eq!(metadata.whole_of(function.start), Some(whole.address));
            }
        }
    }
}

/// Check that the cold code of a function is known by each compiler, which puts what is not listed there, and by the jumps into
/// its middle also without symbols.
#[test]
fn cold_parts() {
    let workshop = workshop();
    for compiler in ["clang-22", "clang-16"] {
        let flags = "-fbasic-block-sections=list=list";
        workshop.run(&format!(
            "{compiler} -O2 {METADATA} {flags} input.c -o split"
        ));
        workshop.run("strip --strip-all split -o stripped");
        let (image, metadata) = load(&workshop, "split");
        let labels = image.labels().unwrap();
        let cold = labels
            .iter()
            .find(|label| label.name == "work.cold")
            .unwrap();
        for metadata in [&metadata, &load(&workshop, "stripped").1] {
            assert_eq!(lost_atomics(metadata), 0, "{compiler}");
            assert_eq!(metadata.fragment_count(), 1, "{compiler}");
            let found = metadata.function_at(cold.address).unwrap();
            assert_eq!((found.start, found.size()), (cold.address, cold.size));
        }
    }
}

/// Check that a part with a frame, and what jumps back, are known in a stripped program; that what is left out there
/// is no more than what nothing proves; and that a block map alone tells all.
#[test]
fn stripped_programs() {
    let workshop = workshop();
    let flags = "-fbasic-block-sections=all -fbasic-block-address-map";
    workshop.run(&format!("clang-22 -O2 {METADATA} {flags} input.c -o split"));
    let (_, whole) = load(&workshop, "split");
    workshop.run("llvm-objcopy-22 --remove-section=.llvm_bb_addr_map split named");
    workshop.run("strip --strip-all named -o stripped");
    workshop.run("llvm-objcopy-22 --strip-all --keep-section=.llvm_bb_addr_map split mapped");
    let covered = |file| covered_bytes(&load(&workshop, file).1);
    assert_eq!(covered("named"), covered_bytes(&whole));
    assert_eq!(covered("mapped"), covered_bytes(&whole));
    let (_, stripped) = load(&workshop, "stripped");
    assert!(stripped.fragment_count() > 0);
    assert!(covered_bytes(&stripped) < covered_bytes(&whole));
    // All that is known is the same as with symbols.
    for function in stripped.functions() {
        let known = whole.function_at(function.start).unwrap();
        assert_eq!(known, function);
        assert_eq!(
            whole.whole_of(function.start),
            stripped.whole_of(function.start)
        );
    }
}

/// Check that no code of others is taken in: a function without metadata that is called like a part, one to which a
/// covered function jumps at its end, and the parts of split functions without metadata.
#[test]
fn others_are_left_out() {
    let workshop = workshop();
    workshop.write(
        "other.c",
        "long hits_of_other; long tail(long x);\n\
         __attribute__((noinline)) long plain(long x) { if (__builtin_expect(x == 7, 0)) { hits_of_other++; x *= 3; } return x; }\n\
         long named(long x) __asm__(\"caller.cold\"); long named(long x) { return hits_of_other += x; }\n\
         __attribute__((noinline)) long tail(long x) { hits_of_other += x; return plain(x); }\n",
    );
    workshop.write(
        "caller.c",
        "extern long tail(long), named(long) __asm__(\"caller.cold\"); long counted;\n\
         long caller(long x) { counted += x; if (x & 1) return named(x); return tail(x); }\n\
         int main(int argc, char **argv) { (void)argv; return (int)caller(argc); }\n",
    );
    for split in ["", "-fbasic-block-sections=all"] {
        workshop.run(&format!("clang-22 -O2 {split} -c other.c -o other.o"));
        workshop.run(&format!(
            "clang-22 -O2 {METADATA} {split} -c caller.c -o caller.o"
        ));
        workshop.run("clang-22 caller.o other.o -o mixed");
        let (image, metadata) = load(&workshop, "mixed");
        for symbol in image.functions() {
            let of_others = ["tail", "plain", "caller.cold"];
            if of_others.iter().any(|name| symbol.name.starts_with(name)) {
                assert_eq!(
                    metadata.function_at(symbol.address),
                    None,
                    "{} {split}",
                    symbol.name
                );
            }
        }
        workshop.run("strip --strip-all mixed -o mixed.stripped");
        let (_, stripped) = load(&workshop, "mixed.stripped");
        for function in stripped.functions() {
            assert!(metadata.function_at(function.start).is_some(), "{split}");
        }
    }
    // Without anything split there is nothing to add.
    workshop.run(&format!("clang-22 -O2 {METADATA} input.c -o whole"));
    assert_eq!(load(&workshop, "whole").1.fragment_count(), 0);
}
