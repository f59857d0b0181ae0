#!/bin/sh
# Writes the seeds of the fuzz targets: small programs by each compiler and code model, whole for
# `image`, and their metadata sections, behind the byte that names them, for `pcmeta`.
set -eu

fuzz=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$fuzz/corpus/image" "$fuzz/corpus/pcmeta"

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
