#!/bin/sh
# Writes the seeds of the fuzz targets: small programs by each compiler and code model, whole for
# `image`, and their sections for the other targets, behind the bytes that say what they are.
set -eu

fuzz=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in debug_info headers hints image message outline pcmeta block_map stack_map pc_section stack_sizes coverage fault_map pseudo_probe; do
    mkdir -p "$fuzz/corpus/$target"
done

cat > "$work/seed.c" <<'C'
_Atomic int atomic; int plain; char *escape(char *);
int load(void) { return atomic; }
void publish(int a) { plain = a; atomic = a; }
int many(int a, int b, int c, int d, int e, int f, int g, long h) {
    char buffer[8]; return *escape(buffer) + g + h; }
C

# The order of the names in fuzz_targets/pcmeta.rs.
names="sanmd_covered sanmd_atomics sanmd_covered2 sanmd_atomics2 sanmd_covered65538 sanmd_atomics65538"

for compiler in clang-16 clang-22; do
    for model in small large; do
        for features in atomics all; do
            seed=$compiler-$model-$features
            # One page for everything keeps the file small.
            "$compiler" -O1 -g0 -fPIC -shared -nostdlib -fuse-ld=lld-22 -Wl,-z,noseparate-code,-N \
                -Wl,--unresolved-symbols=ignore-all -mcmodel=$model \
                -fexperimental-sanitize-metadata=$features "$work/seed.c" -o "$work/$seed"
            cp "$work/$seed" "$fuzz/corpus/image/$seed"
            cp "$work/$seed" "$fuzz/corpus/headers/$seed"
            { printf '\1'; cat "$work/$seed"; } > "$fuzz/corpus/outline/$seed"
            index=0
            for name in $names; do
                rm -f "$work/section"
                llvm-objcopy-22 --dump-section="$name=$work/section" "$work/$seed" "$work/rest" 2>"$work/missing" || true
                if [ -s "$work/section" ]; then
                    { printf "\\$(printf %03o "$index")"; cat "$work/section"; } \
                        > "$fuzz/corpus/pcmeta/$seed-$name"
                fi
                index=$((index + 1))
            done
        done
    done
done

# Object files of other byte orders, widths and machines, and relocations in each form.
for target in i386 armv7 s390x powerpc64 mips64el mips riscv64; do
    clang-22 --target=$target-linux-gnu -O1 -g0 -fexperimental-sanitize-metadata=atomics \
        -fbasic-block-address-map -c "$work/seed.c" -o "$fuzz/corpus/image/object-$target" 2>/dev/null ||
        clang-22 --target=$target-linux-gnu -O1 -g0 -fexperimental-sanitize-metadata=atomics -c "$work/seed.c" \
            -o "$fuzz/corpus/image/object-$target"
done
clang-22 -O1 -g0 -fexperimental-sanitize-metadata=atomics -Wa,--crel,--allow-experimental-crel -c "$work/seed.c" \
    -o "$fuzz/corpus/image/object-crel"
echo 'int load(void); void publish(int); void *table[40] = { load, publish, [9 ... 30] = load };' > "$work/pointers.c"
for form in android relr; do
    clang-22 -O1 -g0 -fPIC -shared -nostdlib -fuse-ld=lld-22 -Wl,-z,noseparate-code,-Bsymbolic,-N \
        -Wl,--unresolved-symbols=ignore-all,--pack-dyn-relocs=$form "$work/seed.c" "$work/pointers.c" \
        -o "$fuzz/corpus/image/packed-$form"
done

# A section of a file as a seed: the target, the seed's name, the file, the section, and the bytes before it, in
# octal.
section_seed() {
    rm -f "$work/section"
    llvm-objcopy-22 --dump-section="$4=$work/section" "$3" "$work/rest" 2>"$work/missing" || true
    if [ -s "$work/section" ]; then
        { printf "$5"; cat "$work/section"; } > "$fuzz/corpus/$1/$2"
    fi
}

cat > "$work/tables.c" <<'C'
int puts(const char *); int putchar(int);
void __sanitizer_cov_pcs_init(const void *a, const void *b) {}
void __sanitizer_cov_8bit_counters_init(char *a, char *b) {}
static int inner(int a) { if (a > 3) return puts("x"); return a; }
int branches(int a, int b) {
    int sum = 0;
    for (int i = 0; i < a; i++) { if (i % 3 == b) sum += inner(i); else sum += i * b; }
    switch (b) { case 1: return sum; case 2: return a; case 9: putchar(a); break; default: sum--; }
    return sum + a; }
C
cat > "$work/stack.ll" <<'LL'
declare void @llvm.experimental.stackmap(i64, i32, ...)
declare i64 @llvm.experimental.patchpoint.i64(i64, i32, ptr, i32, ...)
define i64 @all_kinds(i64 %a, i64 %b, ptr %p) {
  %slot = alloca [4 x i64]
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 8, i64 %a, i64 %b, ptr %slot, i32 -5, i64 81985529216486895)
  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 78, i32 20, ptr null, i32 1, ptr %p, i64 %a)
  ret i64 %r
}
LL
cat > "$work/faults.ll" <<'LL'
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
!0 = !{}
LL
cat > "$work/pcs.ll" <<'LL'
define void @f(ptr %p) !pcsections !0 {
  store atomic i64 7, ptr %p monotonic, align 8, !pcsections !1
  ret void
}
!0 = !{!"functions", !2, !"packed_functions!C", !2}
!1 = !{!"plain", !2, !"packed!C", !2}
!2 = !{i8 1, i16 300, i32 -1, i64 70000}
LL

# What a program is linked with so that it stays small.
link="ld.lld-22 --unresolved-symbols=ignore-all -e 0 -N"

clang-22 -O1 -g1 -fbasic-block-address-map -fstack-size-section -fpseudo-probe-for-profiling \
    -fno-sanitize-link-runtime -fsanitize-coverage=bb,inline-8bit-counters,pc-table -c "$work/tables.c" -o "$work/tables.o"
llvm-strip-22 --strip-debug "$work/tables.o"
$link "$work/tables.o" -o "$work/tables"
cp "$work/tables.o" "$fuzz/corpus/image/tables-object"
section_seed stack_sizes linked "$work/tables" .stack_sizes ''
section_seed coverage linked "$work/tables" __sancov_pcs ''
section_seed pseudo_probe linked "$work/tables" .pseudo_probe ''
section_seed block_map newest "$work/tables" .llvm_bb_addr_map '\0'

clang-16 -O1 -fbasic-block-sections=labels -c "$work/tables.c" -o "$work/old.o"
$link "$work/old.o" -o "$work/old"
section_seed block_map version-1 "$work/old" .llvm_bb_addr_map '\0'
# Version 0 is version 1 without its first two bytes, as far as a function of one block goes.
{ printf '\1'; tail -c +3 "$work/section"; } > "$fuzz/corpus/block_map/version-0"

clang-22 -O1 -S -emit-llvm "$work/tables.c" -o "$work/tables.ll"
# A seed of the block map that llc writes with these flags.
map_seed() {
    name=$1
    shift
    llc-22 -filetype=obj -basic-block-address-map "$@" "$work/tables.ll" -o "$work/map.o"
    $link "$work/map.o" -o "$work/map"
    section_seed block_map "$name" "$work/map" .llvm_bb_addr_map '\0'
}
map_seed profile -pgo-analysis-map=all -emit-bb-hash
map_seed ranges -basic-block-sections=all
map_seed omitted -pgo-analysis-map=func-entry-count -basic-block-address-map-skip-bb-entries

llc-22 -mtriple=x86_64-linux-gnu -filetype=obj "$work/stack.ll" -o "$work/stack.o"
cp "$work/stack.o" "$fuzz/corpus/image/stack-object"
section_seed stack_map object "$work/stack.o" .llvm_stackmaps ''
$link "$work/stack.o" "$work/stack.o" -z muldefs -o "$work/stack"
section_seed stack_map linked "$work/stack" .llvm_stackmaps ''

llc-22 -mtriple=x86_64-linux-gnu -O2 -enable-implicit-null-checks -filetype=obj "$work/faults.ll" -o "$work/faults.o"
$link "$work/faults.o" -o "$work/faults"
section_seed fault_map linked "$work/faults" .llvm_faultmaps ''

# The first byte: a function or not, ULEB128 or not, four constants; the second: their sizes.
llc-22 -mtriple=x86_64-linux-gnu -filetype=obj "$work/pcs.ll" -o "$work/pcs.o"
$link "$work/pcs.o" -o "$work/pcs"
section_seed pc_section instructions "$work/pcs" plain '\40\344'
section_seed pc_section functions "$work/pcs" functions '\41\344'
section_seed pc_section packed "$work/pcs" packed '\44\344'
section_seed pc_section packed-functions "$work/pcs" packed_functions '\45\344'

# Messages of a host: in JSON behind a byte that says so, and as zstd has it that packs nothing (RFC 8878: magic, no
# options, a window of 128 KiB, one block).
name=00112233445566778899aabbccddeeff
access='"atomic": false, "size": 4, "address": "0x5000", "pc": "0x1000", "tid": 1, "thread_name": "t", "module": "/bin/app",
    "offset": "0x1000", "introduced_read": false, "stack_truncated": false, "stack": [{ "pc": "0x1000", "module": "/bin/app",
    "offset": "0x1000", "build_id": "aa11", "function": "main", "file": "a.c", "line": 1, "column": 2, "inlined": false }]'
cat > "$work/message" <<JSON
{ "schema": 1, "sender": "$name", "sequence": 7, "lost": { "evidence": 1, "repeats": 2, "sightings": 0 }, "batch": {
  "caught": [{ "place": { "host": "web1", "cgroup": "/a", "container": "" }, "times": 3, "last": 1767225600000, "race": {
    "schema": 1, "fingerprint": "00", "verdict": "plain-plain", "pid": 1, "exe": "/bin/app", "build_id": "aa11",
    "identity": { "pair": "p3:$name", "race": "r3:$name", "issue": "i3:$name" }, "time": "2026-01-01T00:00:00Z",
    "address": "0x5000", "size": 4, "watch_address": "0x5000", "watch_size": 4, "value_before": null, "value_after": null,
    "location": { "kind": "unknown", "name": null, "offset": null, "size": null, "module": null, "module_offset": null, "tid": null },
    "accesses": [{ "role": "stalled", "kind": "write", $access }, { "role": "racing", "kind": "read", $access }], "notes": [] } }],
  "counted": [{ "race": "r3:$name", "build": "aa11", "exe": "/bin/app", "place": {}, "times": 2, "last": 1767225600000 }],
  "builds": [{ "build": "aa11", "exe": "/bin/app", "at": 1767225600000 }] },
  "learned": [{ "name": "app", "build": "aa11", "at": 1767225600000, "functions": [
    { "at": 16, "fingerprint": 7, "sites": [[4, [[0, 3.0], [2, 0.25]]]], "raced": [{ "at": 4, "with": [7, 8] }] },
    { "at": 32, "fingerprint": 9, "sites": [[0, [[1, 1.5]]], [8, [[0, 1.0]]]], "raced": [] }] }] }
JSON
{ printf '\1'; cat "$work/message"; } > "$fuzz/corpus/message/json"
size=$(($(wc -c < "$work/message") * 8 + 1))
block=$(printf '\\%03o\\%03o\\%03o' $((size % 256)) $((size / 256 % 256)) $((size / 65536)))
{ printf "\0\050\265\057\375\0\070$block"; cat "$work/message"; } > "$fuzz/corpus/message/packed"

# A file of hints in the same two forms: the words that begin it, the module, and two functions behind their lengths
# (their places, fingerprints, sites with counts in 32 bits of IEEE 754, races).
{
    printf 'gwp-race hints 1\n\003app\004aa11'
    printf '\023\0\0\0\020\007\001\004\002\0\0\0\100\100\002\0\0\200\076\001\004\007\010'
    printf '\022\0\0\0\040\011\002\0\001\001\0\0\300\077\010\001\0\0\0\200\077\0'
} > "$work/hints"
{ printf '\1'; cat "$work/hints"; } > "$fuzz/corpus/hints/bytes"
size=$(($(wc -c < "$work/hints") * 8 + 1))
block=$(printf '\\%03o\\%03o\\%03o' $((size % 256)) $((size / 256 % 256)) $((size / 65536)))
{ printf "\0\050\265\057\375\0\070$block"; cat "$work/hints"; } > "$fuzz/corpus/hints/packed"

# What is told of a file: a segment, an identity, a stub, two functions with an atomic instruction and a part, a cell and
# a function for memcpy, a symbol, and unwind tables of two functions with a rule of each form.
{
    printf '\0\001\0\0\200\200\004\200\200\004\001\0\001\001\002\012\013\001\020\040\001\0'
    printf '\0\0\002\100\020\024\100\020\025\001\104\001\220\001\100'
    printf '\001\200\001\006memcpy\0\001\200\002\006memcpy\001\200\003'
    printf '\0\001\200\002\040\040\0\001\001'
    printf '\0\002\100\020\001\100\020\0\003\100\001\004\002\074\003\003'
    printf '\0\007\020\001\017\0\0\0\0\0\0\001\006\017\001\017\002\020\003\006\004\006\020\0\0\0'
    printf '\002\020\013\001\017\0\0\0\0\0\0'
} > "$fuzz/corpus/outline/told"

# Debug information in each version and form that compilers write: of C and C++, with and without inlined calls, in lists and types of their own, with sections that are compressed.
cat > "$work/debug.c" <<'C'
struct inner { unsigned bits : 5, more : 7; short pair[3][2]; };
struct node { struct node *next; union { long whole; struct inner part; } of; void (*call)(struct node *); };
struct node first; static _Thread_local int own; char *escape(char *);
static inline int within(struct node *at, int by) { int sum = by; for (; at; at = at->next) sum += at->of.part.more + by; return sum; }
int walk(struct node *at, int by) { char room[24]; struct node copy = *at; int got = within(&copy, by); *escape(room) = got; own = got; return got + within(&first, 2); }
C
cat > "$work/debug.cc" <<'C'
namespace outer { namespace { struct base { virtual int f(int) = 0; int field; }; }
template <class T, int N> struct list : base { T of[N]; int f(int a) override { auto add = [&](int b) { return b + of[a]; }; return add(N) + field; } }; }
int use(int a) { outer::list<long, 4> l{}; l.of[a] = a; outer::base *b = &l; return b->f(a) + l.f(2); }
C
# A seed of debug information: its name, then the compiler, its flags and the source.
debug_seed() {
    name=$1
    shift
    "$@" -fPIC -shared -nostdlib -fuse-ld=lld-22 -Wl,-z,noseparate-code,-N -Wl,--unresolved-symbols=ignore-all -Wl,--build-id \
        -o "$fuzz/corpus/debug_info/$name"
}
for level in 0 2; do
    for version in 4 5; do
        debug_seed clang-$version-O$level clang-22 -O$level -g -gdwarf-$version "$work/debug.c"
        debug_seed cxx-$version-O$level clang++-22 -O$level -g -gdwarf-$version -fno-exceptions -fno-rtti "$work/debug.cc"
    done
done
debug_seed old clang-16 -O1 -g "$work/debug.c"
debug_seed wide clang-22 -O1 -g -gdwarf64 "$work/debug.c"
debug_seed types clang++-22 -O1 -g -fdebug-types-section -fno-exceptions -fno-rtti "$work/debug.cc"
debug_seed packed clang-22 -O1 -g -gz=zlib "$work/debug.c"
debug_seed split clang-22 -O1 -g -gsplit-dwarf=single "$work/debug.c"
debug_seed lines clang-22 -O1 -g1 "$work/tables.c"
debug_seed metadata clang-22 -O1 -g -fexperimental-sanitize-metadata=all -fbasic-block-address-map "$work/debug.c"
