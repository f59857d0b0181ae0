//! What `inspect --list --json` says of tables, against what LLVM's own tools print of the same files:
//! entry by entry, for every version and feature that those tools can write.

mod machines;

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{InspectArgs, inspect, schema};
use crate::pcmeta::testing::Workshop;

impl Workshop {
    /// Where the sections of an object file are put; of other files nothing.
    fn layout(&self, name: &str) -> Vec<(u64, u64)> {
        let modules = self.lines(name, &["module"]);
        let sections = modules[0]["layout"].as_array().cloned().unwrap_or_default();
        let number = |section: &Value, name: &str| section[name].as_u64().unwrap();
        (sections.iter())
            .map(|section| (number(section, "address"), number(section, "size")))
            .collect()
    }

    /// The lines of `inspect --list --json` that are of one of these types.
    fn lines(&self, name: &str, types: &[&str]) -> Vec<Value> {
        let mut out = Vec::new();
        let args = InspectArgs {
            targets: vec![self.path(name).to_str().unwrap().to_owned()],
            list: true,
            json: true,
            pc_section: Vec::new(),
            pc_sections: None,
            debug_files: crate::cli::debug_files::DebugDirArgs::default(),
        };
        inspect(&args, &mut out).unwrap();
        (String::from_utf8(out).unwrap().lines())
            .map(schema::parsed)
            .filter(|line: &Value| types.contains(&line["type"].as_str().unwrap()))
            .collect()
    }
}

/// An address as LLVM's tools print it: in object files a distance from the section's start.
fn within_section(layout: &[(u64, u64)], address: &Value) -> u64 {
    let address = address.as_u64().unwrap();
    let section = (layout.iter()).find(|(start, size)| (*start..start + size).contains(&address));
    assert!(layout.is_empty() || section.is_some(), "{address:#x}");
    address - section.map_or(0, |(start, _)| *start)
}

/// A function of a block map, in the words of llvm-readobj.
fn as_readobj_prints_blocks(function: &Value, layout: &[(u64, u64)]) -> Value {
    let features = function["features"].as_array().unwrap();
    let has = |name: &str| features.iter().any(|feature| feature == name);
    let array = |value: &Value| value.as_array().unwrap().clone();
    let ranges = array(&function["ranges"]).into_iter().map(|range| {
        let blocks = array(&range["blocks"]).into_iter().map(|block| {
            let flags = array(&block["flags"]);
            let is = |name: &str| flags.iter().any(|flag| flag == name);
            let mut printed = json!({
                "ID": block["id"],
                "Offset": block["offset"],
                "Size": block["size"],
                "HasReturn": is("return"),
                "HasTailCall": is("tail-call"),
                "IsEHPad": is("exception-pad"),
                "CanFallThrough": is("fall-through"),
                "HasIndirectBranch": is("indirect-branch"),
            });
            if !array(&block["callsite_ends"]).is_empty() {
                printed["Callsite End Offsets"] = block["callsite_ends"].clone();
            }
            if has("block-hash") {
                printed["Hash"] = block["hash"].clone();
            }
            printed
        });
        let base = within_section(layout, &range["address"]);
        json!({"Base Address": base, "BB Entries": blocks.collect::<Vec<_>>()})
    });
    let at = within_section(layout, &function["address"]);
    let mut printed = json!({"At": at, "BB Ranges": ranges.collect::<Vec<_>>()});
    let mut analyses = json!({});
    if has("function-entry-count") {
        analyses["FuncEntryCount"] = function["entry_count"].clone();
    }
    if has("block-frequency") || has("branch-probability") {
        let blocks = array(&function["profile"]).into_iter().map(|block| {
            let mut printed = json!({});
            if has("block-frequency") {
                printed["Frequency"] = block["frequency"].clone();
                // Without the other the tool reads this one, but does not print it.
                if has("post-link-profile") {
                    printed["PostLink Frequency"] = block["post_link_frequency"].clone();
                }
            }
            if has("branch-probability") {
                let successors = array(&block["successors"]).into_iter().map(|successor| {
                    let mut printed =
                        json!({"ID": successor["id"], "Probability": successor["probability"]});
                    if has("post-link-profile") {
                        printed["PostLink Probability"] = successor["post_link_frequency"].clone();
                    }
                    printed
                });
                printed["Successors"] = successors.collect();
            }
            printed
        });
        analyses["PGO BB entries"] = blocks.collect();
    }
    if analyses != json!({}) {
        printed["PGO analyses"] = analyses;
    }
    printed
}

/// Checks the block map of a file, and says how many functions and blocks it has.
fn check_block_map(shop: &Workshop, name: &str) -> (usize, usize) {
    let printed = shop.run(&format!(
        "llvm-readobj-22 --elf-output-style=JSON --bb-addr-map {name}"
    ));
    // Each section has a list, all under the same name, of which a reader would keep the last.
    let mut lists = printed.split("\"BBAddrMap\":");
    let mut renamed = lists.next().unwrap().to_owned();
    let mut count = 0;
    for list in lists {
        write!(renamed, "\"{count}\":{list}").unwrap();
        count += 1;
    }
    let printed: Value = serde_json::from_str(&renamed).unwrap();
    let printed: Vec<&Value> = (0..count)
        .flat_map(|list| printed[0][list.to_string()].as_array().unwrap())
        .collect();
    let lines = shop.lines(name, &["block-map-function"]);
    let layout = shop.layout(name);
    assert_eq!(lines.len(), printed.len());
    let mut blocks = 0;
    for (line, printed) in lines.iter().zip(printed) {
        let mut printed = printed["Function"].clone();
        let function = printed.as_object_mut().unwrap().remove("Name").unwrap();
        if function != "<?>" {
            assert_eq!(line["symbol"], function);
        }
        assert_eq!(
            as_readobj_prints_blocks(line, &layout),
            printed,
            "{function}"
        );
        let ranges = line["ranges"].as_array().unwrap().iter();
        blocks += ranges
            .map(|range| range["blocks"].as_array().unwrap().len())
            .sum::<usize>();
    }
    (lines.len(), blocks)
}

const BRANCHES: &str = "int puts(const char *); int putchar(int);
    __attribute__((noinline)) int branches(int a, int b) {
        int sum = 0;
        for (int i = 0; i < a; i++) { if (i % 3 == b) puts(\"x\"); else sum += i * b; }
        switch (b) { case 1: return sum; case 2: return a; case 9: putchar(a); break; default: sum--; }
        return sum + a; }
    __attribute__((noinline, cold)) int rare(int (*f)(int, int)) { return f(1, 2) + puts(\"y\"); }
    int main(int n, char **v) { if (n > 5) return rare(branches); return branches(n, 1); }";

/// Check the block maps that the compilers write.
#[test]
fn block_maps_of_compilers() {
    let shop = Workshop::new();
    shop.write("a.c", BRANCHES);
    for flags in [
        "-O0",
        "-O2",
        "-Os -fuse-ld=lld-22",
        "-O2 -ffunction-sections -static",
    ] {
        shop.run(&format!(
            "clang-22 -fbasic-block-address-map {flags} a.c -o a"
        ));
        let (functions, blocks) = check_block_map(&shop, "a");
        assert!(
            functions == 3 && blocks > 10,
            "{flags}: {functions}, {blocks}"
        );
    }
    shop.run("clang-22 -O2 -S -emit-llvm a.c -o a.ll");
    for flags in [
        "-pgo-analysis-map=all",
        "-pgo-analysis-map=func-entry-count -basic-block-address-map-skip-bb-entries",
        "-pgo-analysis-map=bb-freq",
        "-pgo-analysis-map=br-prob -emit-bb-hash",
        "-emit-bb-hash",
        "-basic-block-sections=all",
        "-basic-block-sections=all -pgo-analysis-map=all -emit-bb-hash",
    ] {
        shop.run(&format!(
            "llc-22 -O2 -filetype=obj -relocation-model=pic -basic-block-address-map {flags} a.ll -o a.o"
        ));
        shop.run("clang-22 a.o -o a");
        let (functions, blocks) = check_block_map(&shop, "a");
        let is_listed = !flags.contains("skip");
        assert!(
            functions == 3 && (blocks > 10) == is_listed,
            "{flags}: {functions}, {blocks}"
        );
    }
}

/// Check the block maps of object files, which have a section for each of code, on both machines.
#[test]
fn block_maps_of_object_files() {
    let shop = Workshop::new();
    shop.write("a.c", BRANCHES);
    for target in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        shop.run(&format!(
            "clang-22 --target={target} -O2 -S -emit-llvm a.c -o a.ll"
        ));
        for flags in [
            "",
            "-pgo-analysis-map=all -emit-bb-hash",
            "-basic-block-sections=all",
        ] {
            shop.run(&format!(
                "llc-22 -O2 -filetype=obj -basic-block-address-map {flags} a.ll -o a.o"
            ));
            // The cold function has a section of its own, and so there are two maps.
            let (functions, blocks) = check_block_map(&shop, "a.o");
            assert!(
                functions == 3 && blocks > 10,
                "{target} {flags}: {functions} {blocks}"
            );
        }
    }
}

/// Check every version that llvm-readobj 22 reads, with every set of features that the version has.
#[test]
fn block_maps_of_all_versions_and_features() {
    let mut entries = String::new();
    let mut analyses = String::new();
    let mut count = 0;
    for (version, known) in [(2, 0x1f), (3, 0x3f), (4, 0x7f), (5, 0xff)] {
        for features in 0..=known {
            count += 1;
            let has = |bit: u32| features & (1 << bit) != 0;
            let (is_omitted, ranges) = (has(4), if has(3) { 3 } else { 1 });
            writeln!(
                entries,
                "      - Version: {version}\n        Feature: {features:#x}"
            )
            .unwrap();
            entries += "        BBRanges:\n";
            let mut blocks = 0;
            for range in 0..ranges {
                let base = 0x1000 + 64 * count + 16 * range;
                writeln!(entries, "          - BaseAddress: {base:#x}").unwrap();
                if is_omitted {
                    writeln!(entries, "            NumBlocks: {}", 3 + range).unwrap();
                    continue;
                }
                entries += "            BBEntries:\n";
                for block in 0..=range {
                    blocks += 1;
                    writeln!(
                        entries,
                        "              - ID: {}\n                AddressOffset: {:#x}\n                \
                         Size: {:#x}\n                Metadata: {:#x}",
                        block * 200,
                        block * 3,
                        block * 150 + 1,
                        (count + block) % 32,
                    )
                    .unwrap();
                    if has(5) {
                        let ends = ["[]", "[ 0x1 ]", "[ 0x1, 0x2, 0x80 ]"];
                        let ends = ends[(count + block) % 3];
                        writeln!(entries, "                CallsiteEndOffsets: {ends}").unwrap();
                    }
                    if has(6) {
                        let hash = u64::MAX / (count + block) as u64;
                        writeln!(entries, "                Hash: {hash:#x}").unwrap();
                    }
                }
            }
            // Entries and analyses belong together by their places.
            let mut analysis = String::new();
            if has(0) {
                writeln!(
                    analysis,
                    "        FuncEntryCount: {}",
                    u64::MAX / count as u64
                )
                .unwrap();
            }
            if (has(1) || has(2)) && blocks > 0 {
                analysis += "        PGOBBEntries:\n";
                for block in 0..blocks {
                    let mut fields = Vec::new();
                    if has(1) {
                        fields.push(format!("BBFreq: {}", u64::MAX / (block + 1)));
                    }
                    if has(7) {
                        fields.push(format!("PostLinkBBFreq: {}", block * 1000));
                    }
                    if has(2) {
                        let mut successor =
                            format!("ID: {block}, BrProb: {:#x}", 0x8000_0000u64 / (block + 1));
                        if has(7) {
                            write!(successor, ", PostLinkBrFreq: {}", block * 70).unwrap();
                        }
                        let list = vec![format!("{{ {successor} }}"); block as usize % 3];
                        fields.push(format!("Successors: [ {} ]", list.join(", ")));
                    }
                    writeln!(analysis, "          - {{ {} }}", fields.join(", ")).unwrap();
                }
            }
            if analysis.is_empty() {
                analyses += "      - {}\n";
            } else {
                analyses += &analysis.replacen("        ", "      - ", 1);
            }
        }
    }
    let shop = Workshop::new();
    shop.write(
        "a.yaml",
        &format!(
            "--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_EXEC, Machine: EM_X86_64 }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x1000, Size: 0x100000 }}
  - Name: .llvm_bb_addr_map
    Type: SHT_LLVM_BB_ADDR_MAP
    Link: .text
    Entries:
{entries}    PGOAnalyses:
{analyses}"
        ),
    );
    shop.run("yaml2obj-22 a.yaml -o a");
    let (functions, blocks) = check_block_map(&shop, "a");
    assert_eq!(functions, 32 + 64 + 128 + 256);
    // Half of them list their blocks, and half of those have three ranges, of 1, 2 and 3 blocks.
    assert_eq!(blocks, functions / 4 + functions / 4 * 6);
}

const STACK_MAPS: &str = r#"
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
declare void @sink(ptr)
define i64 @all_kinds(i64 %a, i64 %b, ptr %p) {
  %slot = alloca [4 x i64]
  call void @sink(ptr %slot)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 8, i64 %a, i64 %b, ptr %slot,
    i32 -5, i64 81985529216486895, i64 65536, double 1.0, i1 true)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(
    i64 78, i32 20, ptr null, i32 1, ptr %p, i64 %a)
  %s = add i64 %r, %b
  ret i64 %s
}
define void @spilled(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f, i64 %g, i64 %h) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 5, i32 0, i64 %a, i64 %b, i64 %c,
    i64 %d, i64 %e, i64 %f, i64 %g, i64 %h)
  ret void
}
define void @grows(i64 %n) {
  %slot = alloca i64, i64 %n
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 18446744073709551615, i32 0, ptr %slot,
    i64 12297829382473034410)
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 9, i32 0)
  call void @sink(ptr %slot)
  ret void
}
"#;

/// A stack map with its records, in the words of llvm-readobj.
fn as_readobj_prints_stack_maps(map: &Value, records: &[Value]) -> String {
    let array = |value: &Value| value.as_array().unwrap().clone();
    let mut printed = format!("LLVM StackMap Version: {}\n", map["version"]);
    let functions = array(&map["functions"]);
    writeln!(printed, "Num Functions: {}", functions.len()).unwrap();
    for function in functions {
        writeln!(
            printed,
            "  Function address: {}, stack size: {}, callsite record count: {}",
            function["address"],
            function["stack_size"].as_u64().unwrap_or(u64::MAX),
            function["record_count"]
        )
        .unwrap();
    }
    let constants = array(&map["constants"]);
    writeln!(printed, "Num Constants: {}", constants.len()).unwrap();
    for (number, constant) in (1..).zip(constants) {
        writeln!(printed, "  #{number}: {constant}").unwrap();
    }
    writeln!(printed, "Num Records: {}", records.len()).unwrap();
    for record in records {
        let (locations, live_outs) = (array(&record["locations"]), array(&record["live_outs"]));
        writeln!(
            printed,
            "  Record ID: {}, instruction offset: {}\n    {} locations:",
            record["id"],
            record["offset"],
            locations.len()
        )
        .unwrap();
        for (number, location) in (1..).zip(locations) {
            let (register, offset) = (&location["register"], &location["offset"]);
            let value = &location["value"];
            let described = match location["kind"].as_str().unwrap() {
                "register" => format!("Register R#{register}"),
                "direct" => format!("Direct R#{register} + {offset}"),
                "indirect" => format!("Indirect [R#{register} + {offset}]"),
                // The tool prints the sign-extended constant without its sign.
                "constant" => format!("Constant {}", value.as_i64().unwrap() as u32),
                "constant-index" => format!("ConstantIndex #{} ({value})", location["index"]),
                other => panic!("{other}"),
            };
            writeln!(
                printed,
                "      #{number}: {described}, size: {}",
                location["size"]
            )
            .unwrap();
        }
        write!(printed, "    {} live-outs: [ ", live_outs.len()).unwrap();
        for live_out in live_outs {
            write!(
                printed,
                "R#{} ({}-bytes) ",
                live_out["register"], live_out["size"]
            )
            .unwrap();
        }
        printed += "]\n";
    }
    printed
}

/// Check the stack maps that llc writes, linked into programs of each kind.
#[test]
fn stack_maps_of_compilers() {
    let shop = Workshop::new();
    shop.write("a.ll", STACK_MAPS);
    shop.write("b.c", "void sink(void *p) {} int main(void) { return 0; }");
    shop.run("clang-22 -O1 -fPIC -c b.c");
    for flags in ["", "-O0", "-enable-patchpoint-liveness=false"] {
        shop.run(&format!(
            "llc-22 -mtriple=x86_64-linux-gnu -filetype=obj -relocation-model=pic {flags} a.ll -o a.o"
        ));
        for linking in [
            "-pie",
            "-no-pie",
            "-static",
            "-shared -Wl,-Bsymbolic",
            "-no-pie -fuse-ld=lld-22",
        ] {
            shop.run(&format!("clang-22 {linking} a.o b.o -o a -Wl,-z,notext"));
            let printed = shop.run("llvm-readobj-22 --stackmap a");
            let (_, printed) = printed.split_once("<Not found>\n").unwrap();
            let lines = shop.lines("a", &["stack-map", "stack-map-record"]);
            let what = format!("{flags} {linking}");
            let ours = as_readobj_prints_stack_maps(&lines[0], &lines[1..]);
            assert_eq!(ours.trim_end(), printed.trim_end(), "{what}");
            let kinds: Vec<&str> = (lines.iter().skip(1))
                .flat_map(|record| record["locations"].as_array().unwrap())
                .map(|location| location["kind"].as_str().unwrap())
                .collect();
            for kind in [
                "register",
                "direct",
                "indirect",
                "constant",
                "constant-index",
            ] {
                // Without optimization everything is moved into registers first.
                let is_there = kind != "indirect" || flags != "-O0";
                assert!(kinds.contains(&kind) || !is_there, "{what}: {kind}");
            }
            let live_outs = |record: &Value| !record["live_outs"].as_array().unwrap().is_empty();
            assert_eq!(
                lines[1..].iter().any(live_outs),
                !flags.contains("liveness"),
                "{what}"
            );
        }
    }
}

/// Check that the maps of several objects, which a linker lays one behind the other, are all
/// found, where LLVM's tool sees the first alone; and that the functions' addresses are there also
/// where the linker leaves them to the dynamic linker.
#[test]
fn stack_maps_of_several_objects_and_without_the_dynamic_linker() {
    let shop = Workshop::new();
    shop.write("a.ll", STACK_MAPS);
    let other = "@all_kinds";
    let renamed = (STACK_MAPS.replace(other, "@other_kinds"))
        .replace("@spilled", "@other_spilled")
        .replace("@grows", "@other_grows");
    shop.write("b.ll", &renamed);
    shop.write("c.c", "void sink(void *p) {} int main(void) { return 0; }");
    shop.run("clang-22 -O1 -fPIC -c c.c");
    for name in ["a", "b"] {
        shop.run(&format!(
            "llc-22 -mtriple=x86_64-linux-gnu -filetype=obj -relocation-model=pic {name}.ll -o {name}.o"
        ));
    }
    for linking in ["-pie", "-shared", "-no-pie"] {
        for linker in ["bfd", "lld-22"] {
            shop.run(&format!(
                "clang-22 {linking} -fuse-ld={linker} a.o b.o c.o -o a -Wl,-z,notext"
            ));
            let maps = shop.lines("a", &["stack-map"]);
            let functions: Vec<Vec<&str>> = (maps.iter())
                .map(|map| {
                    let functions = map["functions"].as_array().unwrap().iter();
                    functions
                        .filter_map(|function| function["symbol"].as_str())
                        .collect()
                })
                .collect();
            let expected = [
                ["all_kinds", "spilled", "grows"],
                ["other_kinds", "other_spilled", "other_grows"],
            ];
            assert_eq!(functions, expected, "{linking} {linker}");
            let records = shop.lines("a", &["stack-map-record"]);
            assert_eq!(records.len(), 10);
            for record in records {
                let symbol = record["symbol"].as_str().unwrap();
                let offset = record["offset"].as_u64().unwrap();
                let end = if offset == 0 {
                    String::new()
                } else {
                    format!("+{offset:#x}")
                };
                assert!(symbol.ends_with(&end), "{symbol} {offset}");
            }
        }
    }
}

/// Check the stack sizes that the compilers write.
#[test]
fn stack_sizes_of_compilers() {
    let shop = Workshop::new();
    shop.write("a.c", BRANCHES);
    for compiler in ["clang-22", "clang-16"] {
        for flags in [
            "-O0",
            "-O2 -static",
            "-Os -ffunction-sections -fuse-ld=lld-22 -pie",
        ] {
            shop.run(&format!("{compiler} -fstack-size-section {flags} a.c -o a"));
            let printed = shop.run("llvm-readobj-22 --elf-output-style=JSON --stack-sizes a");
            let printed: Value = serde_json::from_str(&printed).unwrap();
            let mut expected: Vec<(String, u64)> =
                (printed[0]["StackSizes"].as_array().unwrap().iter())
                    .map(|entry| {
                        let entry = &entry["Entry"];
                        let function = entry["Functions"][0].as_str().unwrap();
                        (function.to_owned(), entry["Size"].as_u64().unwrap())
                    })
                    .collect();
            expected.sort();
            let mut found: Vec<(String, u64)> = (shop.lines("a", &["stack-size"]).iter())
                .map(|line| {
                    let symbol = line["symbol"].as_str().unwrap();
                    (symbol.to_owned(), line["size"].as_u64().unwrap())
                })
                .collect();
            found.sort();
            assert_eq!(found, expected, "{compiler} {flags}");
            assert!(found.len() == 3 && found.iter().any(|(_, size)| *size > 0));
        }
    }
}

const IMPLICIT_NULL_CHECKS: &str = "
define i32 @load(ptr %x) {
entry:
  %c = icmp eq ptr %x, null
  br i1 %c, label %is_null, label %not_null, !make.implicit !0
is_null:
  ret i32 42
not_null:
  %t = load atomic i32, ptr %x unordered, align 4
  ret i32 %t
}
define void @store(ptr %x) {
entry:
  %c = icmp eq ptr %x, null
  br i1 %c, label %is_null, label %not_null, !make.implicit !0
is_null:
  ret void
not_null:
  store atomic i32 1, ptr %x unordered, align 4
  ret void
}
define i32 @main() { ret i32 0 }
!0 = !{}
";

/// Check the fault maps that llc writes, by the words of llvm-objdump.
#[test]
fn fault_maps_of_compilers() {
    let shop = Workshop::new();
    shop.write("a.ll", IMPLICIT_NULL_CHECKS);
    shop.run(
        "llc-22 -mtriple=x86_64-linux-gnu -O2 -filetype=obj -relocation-model=pic \
         -enable-implicit-null-checks a.ll -o a.o",
    );
    for linking in ["-pie", "-no-pie", "-static"] {
        shop.run(&format!("clang-22 {linking} a.o -o a -Wl,-z,notext"));
        let printed = shop.run("llvm-objdump-22 --fault-map-section a");
        let mut expected: Vec<(u64, String, u64, u64)> = Vec::new();
        let mut function = 0;
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        for line in printed.lines() {
            let words: Vec<&str> = line
                .split([' ', ',', ':'])
                .filter(|word| !word.is_empty())
                .collect();
            match words[..] {
                ["FunctionAddress", address, ..] => function = number(address),
                [
                    "Fault",
                    "kind",
                    kind,
                    "faulting",
                    "PC",
                    "offset",
                    pc,
                    "handling",
                    "PC",
                    "offset",
                    handler,
                ] => {
                    let offset = |text: &str| function + text.parse::<u64>().unwrap();
                    expected.push((function, kind.to_owned(), offset(pc), offset(handler)));
                }
                _ => {}
            }
        }
        expected.sort_by_key(|fault| fault.2);
        let found: Vec<(u64, String, u64, u64)> = (shop.lines("a", &["fault"]).iter())
            .map(|line| {
                let number = |name: &str| line[name].as_u64().unwrap();
                let kind = match line["kind"].as_str().unwrap() {
                    "load" => "FaultingLoad",
                    "store" => "FaultingStore",
                    other => other,
                };
                (
                    number("function"),
                    kind.to_owned(),
                    number("address"),
                    number("handler"),
                )
            })
            .collect();
        assert_eq!(found, expected, "{linking}: {printed}");
        assert!(
            found.iter().any(|fault| fault.1 == "FaultingLoad"),
            "{printed}"
        );
        assert!(
            found.iter().any(|fault| fault.1 == "FaultingStore"),
            "{printed}"
        );
    }
}

const INLINING: &str = "int puts(const char *); int putchar(int);
    static int inner(int a) { if (a > 3) return puts(\"x\"); return a; }
    static int middle(int a, int (*f)(int)) { int s = inner(a); if (s) s += f(a); return s; }
    __attribute__((noinline)) int outer(int a, int (*f)(int)) {
        int s = 0; for (int i = 0; i < a; i++) s += middle(i, f); return s; }
    int main(int n, char **v) { return outer(n, putchar) + inner(n); }";

/// Check the pseudo probes that the compilers write, by the words of llvm-profgen.
#[test]
fn pseudo_probes_of_compilers() {
    let shop = Workshop::new();
    shop.write("a.c", INLINING);
    for (compiler, flags) in [
        ("clang-22", "-O2 -g1"),
        ("clang-22", "-O2"),
        ("clang-22", "-O1 -g1 -static -ffunction-sections"),
        ("clang-16", "-O2 -g1 -no-pie"),
    ] {
        shop.run(&format!(
            "{compiler} -fpseudo-probe-for-profiling {flags} a.c -o a"
        ));
        let printed = shop.run(
            "llvm-profgen-22 --binary=a --show-disassembly-only --show-pseudo-probe --output=unused",
        );
        // Probes are printed before the instruction that they are at.
        let mut expected: Vec<String> = Vec::new();
        let mut waiting: Vec<String> = Vec::new();
        for line in printed.lines() {
            if let Some((_, probe)) = line.split_once("[Probe]:\tFUNC: ") {
                waiting.push(probe.split_whitespace().collect::<Vec<_>>().join(" "));
            } else if let Some((address, _)) = line.split_once(':')
                && let Ok(address) = u64::from_str_radix(address.trim(), 16)
            {
                expected.extend(
                    waiting
                        .drain(..)
                        .map(|probe| format!("{address:#x} {probe}")),
                );
            }
        }
        expected.sort();
        let mut inlined = 0;
        let mut found: Vec<String> = (shop.lines("a", &["pseudo-probe"]).iter())
            .map(|line| {
                let kind = match line["kind"].as_str().unwrap() {
                    "block" => "Block",
                    "direct-call" => "DirectCall",
                    _ => "IndirectCall",
                };
                let mut probe = format!(
                    "{:#x} {} Index: {} ",
                    line["address"].as_u64().unwrap(),
                    line["function_name"].as_str().unwrap(),
                    line["index"],
                );
                if line["discriminator"] != 0 {
                    write!(probe, "Discriminator: {} ", line["discriminator"]).unwrap();
                }
                write!(probe, "Type: {kind}").unwrap();
                for (place, site) in line["inlined"].as_array().unwrap().iter().enumerate() {
                    inlined += 1;
                    let lead = if place == 0 { " Inlined: @" } else { " @" };
                    let caller = site["caller_name"].as_str().unwrap();
                    write!(probe, "{lead} {caller}:{}", site["index"]).unwrap();
                }
                probe
            })
            .collect();
        found.sort();
        assert_eq!(found, expected, "{compiler} {flags}");
        assert!(found.len() > 15, "{}", found.len());
        assert_eq!(inlined > 0, flags.contains("-g1"), "{compiler} {flags}");
    }
}

/// Everything that the lines say, but for addresses.
fn without_addresses(lines: &[Value]) -> Vec<String> {
    let mut without: Vec<String> = (lines.iter())
        .map(|line| {
            let mut line = line.clone();
            let fields = line.as_object_mut().unwrap();
            let addresses = ["file", "address", "function", "handler", "index", "map"];
            fields.retain(|name, _| !addresses.contains(&name.as_str()));
            for list in ["ranges", "functions"] {
                for entry in fields
                    .get_mut(list)
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .flatten()
                {
                    entry.as_object_mut().unwrap().remove("address");
                }
            }
            line.to_string()
        })
        .collect();
    without.sort();
    without
}

/// Check, for both machines, that every kind of table says the same of an object file as of the
/// program that is linked from it: with the same symbols, and so at the right addresses.
#[test]
fn object_files_say_the_same_as_programs() {
    let shop = Workshop::new();
    let types = [
        ("block-map-function", 5),
        ("stack-size", 5),
        ("coverage-point", 10),
        ("pseudo-probe", 10),
        ("stack-map", 1),
        ("stack-map-record", 5),
        ("fault", 1),
    ];
    let cov = "void __sanitizer_cov_pcs_init(const void *a, const void *b) {}
        void __sanitizer_cov_8bit_counters_init(char *a, char *b) {}";
    shop.write("b.c", &format!("{BRANCHES}{cov}"));
    shop.write("stack.ll", STACK_MAPS);
    shop.write(
        "faults.ll",
        &IMPLICIT_NULL_CHECKS.replace("define i32 @main() { ret i32 0 }", ""),
    );
    for target in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        shop.run(&format!(
            "clang-22 --target={target} -O1 -ffunction-sections -fbasic-block-address-map \
             -fstack-size-section -fpseudo-probe-for-profiling -fno-sanitize-link-runtime \
             -fsanitize-coverage=bb,inline-8bit-counters,pc-table -c b.c -o b.o"
        ));
        for (name, flags) in [("stack", ""), ("faults", "-enable-implicit-null-checks")] {
            shop.run(&format!(
                "llc-22 -mtriple={target} -O2 -filetype=obj {flags} {name}.ll -o {name}.o"
            ));
        }
        for (name, kinds) in [
            ("b", &types[..4]),
            ("stack", &types[4..6]),
            ("faults", &types[6..]),
        ] {
            let link = "ld.lld-22 --unresolved-symbols=ignore-all -e 0";
            shop.run(&format!("{link} {name}.o -o {name}"));
            shop.run(&format!("{link} -pie -z notext {name}.o -o {name}.pie"));
            for (kind, least) in kinds {
                let object = without_addresses(&shop.lines(&format!("{name}.o"), &[kind]));
                for program in [name.to_owned(), format!("{name}.pie")] {
                    let program_lines = without_addresses(&shop.lines(&program, &[kind]));
                    assert_eq!(object, program_lines, "{target} {program}");
                }
                assert!(object.len() >= *least, "{target} {kind}: {object:?}");
            }
        }
    }
}
