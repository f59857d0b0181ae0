//! Tables of machines of either byte order and either width of addresses, against what LLVM's own tools print of
//! the same files.

use super::{STACK_MAPS, as_readobj_prints_stack_maps, check_block_map};
use crate::pcmeta::testing::Workshop;

/// The machines that LLVM writes block maps for, of both byte orders and both widths of addresses.
const MACHINES: [&str; 18] = [
    "x86_64",
    "x86_64-linux-gnux32",
    "i386",
    "aarch64",
    "aarch64_be",
    "armv7",
    "armebv7",
    "thumbv7",
    "s390x",
    "powerpc64",
    "powerpc64le",
    "powerpc",
    "mips",
    "mips64el",
    "mips64",
    "mipsel",
    "sparcv9",
    "loongarch64",
];

/// Check the block maps of object files of other machines.
#[test]
fn block_maps_of_other_machines() {
    let shop = Workshop::new();
    shop.write("a.ll", BLOCKS);
    for machine in MACHINES {
        let target = match machine.contains("-linux") {
            true => machine.to_owned(),
            false => format!("{machine}-linux-gnu"),
        };
        // LLVM's tool takes no addends out of the places, and takes labels for the start of their section.
        let is_linked = [
            "i386",
            "armv7",
            "armebv7",
            "thumbv7",
            "mips",
            "mipsel",
            "loongarch64",
        ]
        .contains(&machine);
        for flags in ["", "-pgo-analysis-map=all -emit-bb-hash"] {
            shop.run(&format!(
                "llc-22 -mtriple={target} -filetype=obj -basic-block-address-map {flags} a.ll -o a.o"
            ));
            let mut file = "a.o";
            if is_linked {
                shop.run("ld.lld-22 --unresolved-symbols=ignore-all -e first a.o -o a");
                let object = shop.lines("a.o", &["block-map-function"]);
                let symbols: Vec<_> = object.iter().map(|line| &line["symbol"]).collect();
                assert_eq!(symbols, ["first", "second"], "{machine} {flags}");
                file = "a";
            }
            let (functions, blocks) = check_block_map(&shop, file);
            assert!(
                functions == 2 && blocks >= 3,
                "{machine} {flags}: {functions} {blocks}"
            );
        }
    }
}

const BLOCKS: &str = "
declare i32 @other(i32)
define i32 @first(i32 %x) {
entry:
  %c = icmp sgt i32 %x, 3
  br i1 %c, label %more, label %less
more:
  %r = call i32 @other(i32 %x)
  ret i32 %r
less:
  %s = add i32 %x, 7
  ret i32 %s
}
define i32 @second(i32 %x) {
  %s = call i32 @first(i32 %x)
  %t = add i32 %s, 9
  ret i32 %t
}
";

/// Check the stack maps and stack sizes of object files and of programs of other machines that LLVM writes them for.
#[test]
fn stack_maps_of_other_machines() {
    let shop = Workshop::new();
    let (head, tail) = STACK_MAPS.split_once("  %r = call anyregcc").unwrap();
    let (_, tail) = tail.split_once("ptr %p, i64 %a)\n").unwrap();
    // Patch points need a calling convention that not all have.
    shop.write("a.ll", &format!("{head}  %r = add i64 %a, 1\n{tail}"));
    let tool = "llvm-readobj-22 --stackmap";
    for machine in [
        "x86_64",
        "aarch64",
        "aarch64_be",
        "s390x",
        "powerpc64",
        "powerpc64le",
        "riscv64",
    ] {
        shop.run(&format!(
            "llc-22 -mtriple={machine}-linux-gnu -filetype=obj -relocation-model=pic a.ll -o a.o"
        ));
        let mut files = vec!["a.o"];
        // The linker knows one of the ABIs of big-endian PowerPC alone, and LLVM writes the other.
        if machine != "powerpc64" {
            shop.run("ld.lld-22 -shared -z notext -Bsymbolic a.o -o a.so");
            files.push("a.so");
        }
        for file in files {
            let printed = shop.run(&format!("{tool} {file}"));
            let (_, printed) = printed.split_once("LLVM StackMap").unwrap();
            let printed = format!("LLVM StackMap{printed}");
            let mut lines = shop.lines(file, &["stack-map", "stack-map-record"]);
            let functions = lines[0]["functions"].as_array_mut().unwrap();
            let symbols: Vec<_> = functions.iter().map(|f| f["symbol"].clone()).collect();
            assert_eq!(
                symbols,
                ["all_kinds", "spilled", "grows"],
                "{machine} {file}"
            );
            for function in functions {
                // The tool does not apply relocations.
                function["address"] = 0.into();
            }
            let ours = as_readobj_prints_stack_maps(&lines[0], &lines[1..]);
            assert_eq!(
                without_places(&ours),
                without_places(&printed),
                "{machine} {file}"
            );
            assert_eq!(lines.len(), 5);
        }
    }
}

/// The words of llvm-readobj without the addresses of functions.
fn without_places(printed: &str) -> String {
    let lines = printed
        .trim_end()
        .lines()
        .map(|line| match line.split_once("address: ") {
            Some((before, after)) => format!("{before}{}", after.split_once(',').unwrap().1),
            None => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// Check that tables whose relocations were stripped are named, and that nothing is told of addresses near zero.
#[test]
fn missing_relocations_are_told() {
    let shop = Workshop::new();
    shop.write("a.ll", STACK_MAPS);
    shop.write("b.ll", BLOCKS);
    shop.write("c.c", "_Atomic int a; int f(void) { return a; }");
    shop.run("llc-22 -mtriple=x86_64-linux-gnu -filetype=obj -relocation-model=pic a.ll -o a.o");
    shop.run("llc-22 -mtriple=x86_64-linux-gnu -filetype=obj -basic-block-address-map -stack-size-section b.ll -o b.o");
    shop.run("clang-22 -fexperimental-sanitize-metadata=atomics -fsanitize-coverage=trace-pc-guard,pc-table -c c.c");
    shop.run("ld.lld-22 -shared -z notext -Bsymbolic a.o -o a.so");
    for (file, sections) in [
        ("a.o", &[".llvm_stackmaps"][..]),
        ("b.o", &[".llvm_bb_addr_map", ".stack_sizes"]),
        ("c.o", &["__sancov_pcs", "sanmd_covered2", "sanmd_atomics2"]),
        ("a.so", &[".llvm_stackmaps"]),
    ] {
        let whole = shop.lines(file, &["module"]);
        assert!(
            whole[0]["errors"].is_null(),
            "{file}: {}",
            whole[0]["errors"]
        );
        for section in sections {
            let table = if file.ends_with(".so") {
                ".rela.dyn".to_owned()
            } else {
                format!(".rela{section}")
            };
            shop.run(&format!(
                "llvm-objcopy-22 --remove-section={table} {file} stripped"
            ));
            let lines = shop.lines("stripped", &["module"]);
            let errors = lines[0]["errors"].as_array().unwrap();
            let [error] = &errors[..] else {
                panic!("{file} {section}: {errors:?}")
            };
            let error = error.as_str().unwrap();
            assert!(error.contains(section), "{file} {section}: {error}");
            assert!(error.contains("relocations were stripped"), "{error}");
        }
    }
}
