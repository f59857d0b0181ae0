//! Each rule of a proof, and each way to lose one, on the shortest code that shows it; then the
//! forms that real compilers make of race-free sources.

use super::super::testing::{assemble, compile, functions};
use super::read_use;
use crate::insn::ReadUse::{self, Proven, ProvenInPart, Unproven};

const START: u64 = 0x40_0000;

/// What is proven of the first instruction of a function.
fn first(source: &str) -> ReadUse {
    read_use(START, &assemble(source), START, &|_| true)
}

/// Check what proves a load.
#[test]
fn proofs() {
    for (source, expected) in [
        // Stored, as it is or after arithmetic.
        ("mov eax, [rdi]\nmov [rsi], eax\nret", Proven),
        ("mov eax, [rdi]\nadd eax, 3\nmov [rsi], eax\nret", Proven),
        ("mov eax, [rdi]\nadd [rsi], eax\nret", Proven),
        ("xor eax, [rdi]\nmov [rsi], eax\nret", Proven),
        ("movups xmm0, [rdi]\nmovups [rsi], xmm0\nret", Proven),
        (
            "movsd xmm0, [rdi]\naddsd xmm0, xmm1\nmovsd [rsi], xmm0\nret",
            Proven,
        ),
        ("mov eax, [rdi]\nmov [rsi], al\nret", ProvenInPart),
        ("mov rax, [rdi]\nmov [rsi], eax\nret", ProvenInPart),
        (
            "mov rax, [rdi]\nshr rax, 32\nmov [rsi], eax\nret",
            ProvenInPart,
        ),
        (
            "mov eax, [rdi]\nand eax, 7\nmov [rsi], eax\nret",
            ProvenInPart,
        ),
        // An address.
        ("mov rax, [rdi]\nmov dword ptr [rax + 8], 1\nret", Proven),
        (
            "mov rax, [rdi]\nmov eax, [rax]\nmov [rsi], eax\nret",
            Proven,
        ),
        // Handed over.
        ("mov eax, [rdi]\nret", Proven),
        ("movsd xmm0, [rdi]\nret", Proven),
        ("mov edi, [rdi]\ncall rbp\nret", Proven),
        ("mov edi, [rdi]\n.byte 0xe9, 0, 0, 1, 0\nret", Proven),
        ("mov rax, [rdi]\ncall rax\nret", Proven),
        ("call qword ptr [rdi]\nret", Proven),
        ("cmp dword ptr [rdi], 3\nsete al\nret", ProvenInPart),
        // After a jump that is always taken, and after a call that preserves it.
        (
            "mov eax, [rdi]\njmp 1f\nud2\n1: mov [rsi], eax\nret",
            Proven,
        ),
        ("mov ebx, [rdi]\ncall rbp\nmov [rsi], ebx\nret", Proven),
        // Decides between doing and not doing.
        (
            "cmp dword ptr [rdi], 3\njne 1f\nmov [rsi], eax\n1: ret",
            ProvenInPart,
        ),
        (
            "mov eax, [rdi]\ntest eax, eax\nje 1f\ncall rbp\n1: ret",
            ProvenInPart,
        ),
        (
            "cmp dword ptr [rdi], 3\njne 1f\ncmp dword ptr [rdx], 4\njne 1f\nmov [rsi], eax\n1: ret",
            ProvenInPart,
        ),
        // Before a loop.
        (
            "cmp dword ptr [rdi], 3\njne 1f\nmov [rsi], eax\n1: cmp dword ptr [rdx], 0\njne 1b\nret",
            ProvenInPart,
        ),
        // Used on both sides of a branch, and behind a loop that keeps it.
        (
            "mov ecx, [rdi]\ntest eax, eax\nje 1f\nmov [rsi], ecx\nret\n1: mov [rdx], ecx\nret",
            Proven,
        ),
        (
            "1: add ebx, [rdi]\ndec esi\njne 1b\nmov eax, ebx\nret",
            Proven,
        ),
        (
            "1: add ebx, [rdi]\ndec esi\njne 1b\nmov [rdx], bl\nret",
            ProvenInPart,
        ),
        // Stores too, or does not load.
        ("add [rdi], eax\nret", Proven),
        ("mov [rdi], eax\nret", Proven),
        ("rep movsb\nret", Proven),
        ("nop\nret", Proven),
    ] {
        assert_eq!(first(source), expected, "{source}");
    }
}

/// Check what proves nothing.
#[test]
fn no_proof() {
    for source in [
        // Selected.
        "mov eax, [rdi]\ntest ecx, ecx\ncmove eax, edx\nret",
        "mov eax, [rdi]\nand eax, ecx\nxor [rsi], eax\nret",
        "and eax, [rdi]\nxor [rsi], eax\nret",
        "cmove eax, [rdi]\nret",
        "mov eax, [rdi]\nxor eax, 3\nor eax, ecx\nsete al\nret",
        "cmp dword ptr [rdi], 3\ncmovne eax, ecx\nret",
        "cmp dword ptr [rdi], 3\nsete al\nand al, cl\nret",
        "movd xmm0, dword ptr [rdi]\npand xmm0, xmm1\nmovd [rsi], xmm0\nret",
        "movsd xmm0, [rdi]\nminsd xmm0, xmm1\nret",
        "vmovdqu ymm0, [rdi]\nvpblendvb ymm0, ymm0, ymm1, ymm2\nvmovdqu [rsi], ymm0\nret",
        "vmovdqu32 zmm0, [rdi]\nvmovdqu32 [rsi]{k1}, zmm0\nret",
        "vmovdqu32 zmm0{k1}, [rdi]\nvmovdqu32 [rsi], zmm0\nret",
        "mov rcx, [rdi]\ntest eax, eax\ncmove rcx, r15\nmov [rsi], rcx\nret",
        // Dead on one side of a branch, in a register that could hand it over.
        "mov edx, [rdi]\ntest eax, eax\nje 1f\nmov [rsi], edx\n1: ret",
        "movsd xmm0, [rdi]\ntest eax, eax\nje 1f\nmovsd [rsi], xmm0\nret\n1: call rbp\nret",
        // Not used before the straight line ends.
        "mov ecx, [rdi]\ntest eax, eax\nje 1f\nmov [rsi], ecx\n1: ret",
        "mov ecx, [rdi]\nret",
        "mov ecx, [rdi]\n1: test eax, eax\nje 2f\nadd ebx, ecx\n2: dec esi\njne 1b\nmov eax, ebx\nret",
        "1: add ebx, [rdi]\ndec esi\njne 1b\nxor ebx, ebx\nmov [rsi], ebx\nret",
        "1: add ebx, [rdi]\njmp 1b",
        "mov ecx, [rdi]\nsyscall\nmov [rsi], ecx\nret",
        // Dead in the argument register, alive elsewhere.
        "mov ecx, [rdi]\nlea ebx, [rcx + 1]\ncall rbp\ntest al, al\ncmovne ebx, r12d\nmov eax, ebx\nret",
        // Spilled by a function that keeps values in registers.
        "mov ecx, [rdi]\nmov [rsp + 8], ecx\nmov rbx, rax\ncall rbp\nret",
        // A branch around a selection.
        "cmp dword ptr [rdi], 3\njae 1f\nmov eax, [rdx]\n1: test cl, 1\ncmove eax, esi\nret",
        // A branch before another that may have guarded it.
        "cmp dword ptr [rdi], 3\njne 1f\ntest ecx, ecx\nje 1f\nmov [rsi], eax\n1: ret",
        "cmp dword ptr [rdi], 3\njne 1f\ntest ecx, ecx\nje 1f\nmov [rsi], eax\nret\n1: call rbp\nret",
        // Both sides do the same.
        "cmp dword ptr [rdi], 3\njne 1f\nmov dword ptr [rsi], 1\nret\n1: mov dword ptr [rsi], 2\nret",
        // A test taken out of a loop.
        "cmp dword ptr [rdi], 3\njne 2f\n1: mov [rsi], eax\ndec ecx\njne 1b\n2: ret",
        "cmp dword ptr [rdi], 3\njne 2f\njmp 1f\n1: mov [rsi], eax\ncmp dword ptr [rdx], 0\njne 1b\n2: ret",
        // What both sides do in the end, by other registers.
        "cmp dword ptr [rdi], 3\nje 2f\n1: cmp dword ptr [rdx], 0\njne 1b\nmov [rbx], eax\nret\n2: mov [rsi], eax\nret",
        // Not code.
        "ud2",
    ] {
        let expected = if source == "ud2" { Proven } else { Unproven };
        assert_eq!(first(source), expected, "{source}");
    }
    assert_eq!(read_use(START, &[], START, &|_| true), Unproven);
    assert_eq!(
        read_use(START, &assemble("mov eax, [rdi]"), START, &|_| true),
        Unproven
    );
    assert_eq!(
        read_use(START, &assemble("mov eax, [rdi]"), START - 1, &|_| true),
        Unproven
    );
}

/// The proofs of all loads from objects whose name starts with `G`, function by function.
fn compiled(compiler: &str, flags: &[&str], source: &str, name: &str) -> Vec<ReadUse> {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut all = vec!["-static", "-fno-pie", "-no-pie", "-w"];
    all.extend_from_slice(flags);
    let program = compile(compiler, &all, source, dir.path());
    let objects = super::super::testing::objects(&program);
    let functions = functions(&program);
    let function = functions
        .iter()
        .find(|f| f.name == name)
        .expect("it was compiled");
    let function_view = super::Function {
        start: function.start,
        code: &function.code,
    };
    function_view
        .instructions()
        .filter(|instruction| {
            let address = instruction.memory_displacement64();
            instruction.is_ip_rel_memory_operand()
                || instruction.memory_base() == iced_x86::Register::None && address != 0
        })
        .filter(|instruction| {
            let address = instruction.memory_displacement64();
            objects.iter().any(|(name, start, size)| {
                name.starts_with('G') && (*start..start + size).contains(&address)
            })
        })
        .filter(|i| {
            !matches!(
                i.mnemonic(),
                iced_x86::Mnemonic::Lea | iced_x86::Mnemonic::Nop
            )
        })
        .map(|instruction| read_use(function.start, &function.code, instruction.ip(), &|_| true))
        .collect()
}

const FORMS: &str = r#"
#include <stdatomic.h>
_Atomic unsigned flag = 1;
unsigned G = 1, x = 1;
struct { unsigned a, b; } GS = { 1 }, GT = { 1 };
#define FLAG atomic_load_explicit(&flag, memory_order_relaxed)
__attribute__((noinline)) void k(unsigned v) { __asm__ volatile("" : : "r"(v) : "memory"); }
void speculated(void) { if (FLAG & 1) x ^= G; }
unsigned joined(void) { return FLAG == 5 && G == 3; }
unsigned hoisted(unsigned n) { unsigned s = 0; for (unsigned i = 0; i < n; i++) if (FLAG & 1) s += G; return s; }
unsigned merged(void) { return GS.a == GT.a && GS.b == GT.b; }
void passed(void) { k(G); }
void copied(void) { x = G; }
void counted(void) { G++; }
unsigned returned(void) { return G; }
void tested(void) { if (G == 3) k(1); }
unsigned guarded(void) { if (FLAG) { k(G); return 1; } return 2; }
void local(void) { unsigned v = G; unsigned w = v + 1; k(v); k(w); }
int main(void) { return 0; }
"#;

/// Check the reads that optimizers introduce: never proven in whole, and the merged ones not
/// beyond the part that the source asks for.
#[test]
fn introduced_by_compilers() {
    for compiler in ["clang-22", "clang-16"] {
        for flags in [&["-O2"][..], &["-O3"], &["-O3", "-march=native"]] {
            for name in ["joined", "hoisted", "merged"] {
                let uses = compiled(compiler, flags, FORMS, name);
                assert!(!uses.is_empty(), "{compiler} {flags:?} {name}");
                // `joined` reads G always, `hoisted` before its loop, `merged` reads b always.
                assert!(
                    uses.iter().all(|&found| found == Unproven),
                    "{compiler} {flags:?} {name} {uses:?}"
                );
            }
        }
    }
}

/// Check that plain uses are recognized at every level.
#[test]
fn the_source_s_own() {
    for compiler in ["clang-22", "clang-16"] {
        for flags in ["-O0", "-O1", "-O2", "-O3"] {
            for name in [
                "passed", "copied", "counted", "returned", "tested", "guarded", "local",
            ] {
                let uses = compiled(compiler, &[flags], FORMS, name);
                assert!(!uses.is_empty(), "{compiler} {flags} {name}");
                let known = uses.iter().all(|&found| found != Unproven);
                assert!(known, "{compiler} {flags} {name}: {uses:?}");
            }
        }
    }
}
