//! General registers: moves, arithmetic, bits, and what is atomic.

use super::super::group::{Group, Outcome, Place, reads, touches_nothing, updates, writes};
use crate::insn::Undetermined::NoMatch;

pub(super) const GROUPS: &[Group] = &[
    reads(
        1,
        &[
            "mov al, [rbx]",
            "mov ch, [rbx]",
            "mov r15b, [rbx]",
            "movzx ax, byte ptr [rbx]",
            "movzx eax, byte ptr [rbx]",
            "movzx rax, byte ptr [rbx]",
            "movsx ax, byte ptr [rbx]",
            "movsx eax, byte ptr [rbx]",
            "movsx rax, byte ptr [rbx]",
            "add al, [rbx]",
            "sub al, [rbx]",
            "adc al, [rbx]",
            "sbb al, [rbx]",
            "and al, [rbx]",
            "or al, [rbx]",
            "xor al, [rbx]",
            "cmp al, [rbx]",
            "cmp [rbx], al",
            "cmp byte ptr [rbx], 5",
            "test [rbx], al",
            "test byte ptr [rbx], 5",
            "mul byte ptr [rbx]",
            "imul byte ptr [rbx]",
            "div byte ptr [rbx]",
            "idiv byte ptr [rbx]",
        ],
    ),
    reads(
        2,
        &[
            "mov ax, [rbx]",
            "movzx eax, word ptr [rbx]",
            "movzx rax, word ptr [rbx]",
            "movsx eax, word ptr [rbx]",
            "movsx rax, word ptr [rbx]",
            "add ax, [rbx]",
            "cmp word ptr [rbx], 5",
            "test [rbx], ax",
            "imul ax, [rbx]",
            "imul ax, [rbx], 3",
            "cmove ax, [rbx]",
            "mov es, word ptr [rbx]",
            "verr word ptr [rbx]",
            "verw word ptr [rbx]",
            "lar eax, word ptr [rbx]",
            "lsl eax, word ptr [rbx]",
        ],
    )
    .setup("mov word ptr [rbx], 0"),
    // Holds back what is pending until the next instruction is through.
    reads(2, &["mov ss, word ptr [rbx]"])
        .setup("mov word ptr [rbx], ss")
        .outcome(Outcome::Counted(NoMatch)),
    reads(
        4,
        &[
            "mov eax, [rbx]",
            "mov r12d, [rbx]",
            "movsxd rax, dword ptr [rbx]",
            "add eax, [rbx]",
            "adc eax, [rbx]",
            "and eax, [rbx]",
            "cmp eax, [rbx]",
            "cmp [rbx], eax",
            "cmp dword ptr [rbx], 5",
            "test dword ptr [rbx], 5",
            "imul eax, [rbx]",
            "imul eax, [rbx], 3",
            "imul eax, [rbx], 300",
            "mul dword ptr [rbx]",
            "bsf eax, [rbx]",
            "bsr eax, [rbx]",
            "bt dword ptr [rbx], 31",
        ],
    ),
    reads(
        8,
        &[
            "mov rax, [rbx]",
            "mov r15, [rbx]",
            "sub rax, [rbx]",
            "sbb rax, [rbx]",
            "or rax, [rbx]",
            "xor rax, [rbx]",
            "cmp rax, [rbx]",
            "cmp qword ptr [rbx], 5",
            "test [rbx], rax",
            "test qword ptr [rbx], 5",
            "imul rax, [rbx]",
            "mul qword ptr [rbx]",
            "imul qword ptr [rbx]",
            "bsf rax, [rbx]",
            "bt qword ptr [rbx], 63",
        ],
    ),
    reads(4, &["div dword ptr [rbx]", "idiv dword ptr [rbx]"]).setup("xor edx, edx"),
    reads(8, &["div qword ptr [rbx]", "idiv qword ptr [rbx]"]).setup("xor edx, edx"),
    // Loads whatever the condition says.
    reads(4, &["cmove eax, [rbx]", "cmovne eax, [rbx]"]).setup("cmp rsp, rsp"),
    reads(8, &["cmovl rax, [rbx]", "cmovge rax, [rbx]"]).setup("cmp rsp, rsp"),
    reads(1, &["crc32 eax, byte ptr [rbx]"]).needs("sse4_2"),
    reads(2, &["crc32 eax, word ptr [rbx]"]).needs("sse4_2"),
    reads(8, &["crc32 rax, qword ptr [rbx]"]).needs("sse4_2"),
    reads(4, &["popcnt eax, [rbx]"]).needs("popcnt"),
    reads(8, &["popcnt rax, [rbx]"]).needs("popcnt"),
    reads(4, &["lzcnt eax, [rbx]"]).needs("abm"),
    reads(2, &["movbe ax, [rbx]"]).needs("movbe"),
    reads(8, &["movbe rax, [rbx]"]).needs("movbe"),
    writes(4, &["movbe [rbx], eax"]).needs("movbe"),
    reads(
        4,
        &[
            "andn eax, ecx, [rbx]",
            "bextr eax, [rbx], ecx",
            "blsi eax, [rbx]",
            "tzcnt eax, [rbx]",
        ],
    )
    .needs("bmi1"),
    reads(
        8,
        &[
            "bzhi rax, [rbx], rcx",
            "mulx rax, rcx, [rbx]",
            "pdep rax, rcx, [rbx]",
            "pext rax, rcx, [rbx]",
            "rorx rax, [rbx], 3",
            "shlx rax, [rbx], rcx",
            "sarx rax, [rbx], rcx",
        ],
    )
    .needs("bmi2"),
    reads(8, &["adcx rax, [rbx]", "adox rax, [rbx]"]).needs("adx"),
    writes(
        1,
        &[
            "mov [rbx], al",
            "mov [rbx], dh",
            "mov [rbx], r9b",
            "mov byte ptr [rbx], 5",
            "sete byte ptr [rbx]",
            "setne byte ptr [rbx]",
        ],
    ),
    writes(
        2,
        &[
            "mov [rbx], ax",
            "mov word ptr [rbx], 5",
            "mov word ptr [rbx], ds",
        ],
    ),
    writes(4, &["mov [rbx], eax", "mov dword ptr [rbx], 5"]),
    writes(8, &["mov [rbx], rax", "mov qword ptr [rbx], 5"]),
    writes(4, &["movnti [rbx], eax"]),
    writes(8, &["movnti [rbx], rax"]),
    writes(4, &["movdiri [rbx], eax"]).needs("movdiri"),
    writes(8, &["movdiri [rbx], rax"]).needs("movdiri"),
    updates(
        1,
        &[
            "add [rbx], al",
            "add byte ptr [rbx], 5",
            "and byte ptr [rbx], 5",
            "or [rbx], al",
            "inc byte ptr [rbx]",
            "not byte ptr [rbx]",
            "shl byte ptr [rbx], 1",
            "ror byte ptr [rbx], cl",
            "xadd [rbx], al",
            "cmpxchg [rbx], cl",
        ],
    ),
    updates(
        2,
        &[
            "add [rbx], ax",
            "sub word ptr [rbx], 5",
            "dec word ptr [rbx]",
            "sar word ptr [rbx], cl",
            "bts word ptr [rbx], 3",
            "cmpxchg [rbx], cx",
        ],
    ),
    updates(
        4,
        &[
            "add [rbx], eax",
            "adc dword ptr [rbx], 5",
            "sbb [rbx], eax",
            "xor dword ptr [rbx], 500",
            "neg dword ptr [rbx]",
            "rcl dword ptr [rbx], 1",
            "rol dword ptr [rbx], 7",
            "shr dword ptr [rbx], cl",
            "shld [rbx], eax, 3",
            "btr dword ptr [rbx], 3",
            "xadd [rbx], eax",
        ],
    ),
    updates(
        8,
        &[
            "add [rbx], rax",
            "or qword ptr [rbx], 5",
            "inc qword ptr [rbx]",
            "rcr qword ptr [rbx], cl",
            "shrd [rbx], rax, cl",
            "btc qword ptr [rbx], 3",
            "xadd [rbx], rax",
        ],
    ),
    // Succeeds, and fails: it stores in both cases.
    updates(4, &["cmpxchg [rbx], ecx"]).setup("mov eax, [rbx]"),
    updates(8, &["cmpxchg [rbx], rcx"]).setup("xor eax, eax"),
    updates(8, &["cmpxchg8b [rbx]"]).setup("xor eax, eax"),
    updates(16, &["cmpxchg16b [rbx]"])
        .setup("xor eax, eax")
        .needs("cx16"),
    updates(
        1,
        &[
            "xchg [rbx], al",
            "lock add [rbx], al",
            "lock not byte ptr [rbx]",
        ],
    )
    .locked(),
    updates(
        2,
        &[
            "xchg [rbx], ax",
            "lock inc word ptr [rbx]",
            "lock xadd [rbx], ax",
        ],
    )
    .locked(),
    updates(
        4,
        &[
            "xchg [rbx], eax",
            "xchg eax, [rbx]",
            "lock xchg [rbx], eax",
            "lock add [rbx], eax",
            "lock add dword ptr [rbx], 5",
            "lock sub dword ptr [rbx], 500",
            "lock adc [rbx], eax",
            "lock and [rbx], eax",
            "lock or dword ptr [rbx], 5",
            "lock neg dword ptr [rbx]",
            "lock bts dword ptr [rbx], 3",
            "lock cmpxchg [rbx], ecx",
        ],
    )
    .locked(),
    updates(
        8,
        &[
            "xchg [rbx], rax",
            "lock sbb [rbx], rax",
            "lock xor [rbx], rax",
            "lock dec qword ptr [rbx]",
            "lock xadd [rbx], rax",
            "lock btr qword ptr [rbx], 63",
            "lock btc qword ptr [rbx], 63",
            "lock cmpxchg [rbx], rcx",
            "lock cmpxchg8b [rbx]",
        ],
    )
    .locked(),
    updates(16, &["lock cmpxchg16b [rbx]"])
        .locked()
        .needs("cx16"),
    // A bit index in a register reaches beyond the operand: r9 is 33, r8 is -1.
    reads(2, &["bt word ptr [rbx], r9w"]).at(Place::Rbx, 4),
    reads(4, &["bt dword ptr [rbx], r9d"]).at(Place::Rbx, 4),
    reads(8, &["bt qword ptr [rbx], r9"]),
    updates(4, &["bts dword ptr [rbx], r9d"]).at(Place::Rbx, 4),
    updates(8, &["btr qword ptr [rbx], r8"]).at(Place::Rbx, -8),
    updates(4, &["lock btc dword ptr [rbx], r8d"])
        .at(Place::Rbx, -4)
        .locked(),
    // The address is gone.
    reads(8, &["mov rax, [rax]", "add rax, [rax]", "movbe rax, [rax]"])
        .setup("mov rax, rbx")
        .needs("movbe")
        .outcome(Outcome::Overwritten),
    reads(
        1,
        &[
            "mov al, [rax]",
            "movzx eax, byte ptr [rax]",
            "imul byte ptr [rax]",
        ],
    )
    .setup("mov rax, rbx")
    .outcome(Outcome::Overwritten),
    reads(4, &["mov ebx, [rbx]", "mov ecx, [rbx + 8*rcx - 16]"]).outcome(Outcome::Overwritten),
    reads(8, &["cmovne rbx, [rbx]", "mul qword ptr [rax + rdx]"])
        .setup("mov rax, rbx\nxor edx, edx\nor ecx, ecx")
        .outcome(Outcome::Overwritten),
    updates(8, &["xadd [rbx], rbx", "cmpxchg [rax], rcx"])
        .setup("mov rax, rbx")
        .outcome(Outcome::Overwritten),
    updates(8, &["xchg [rbx], rbx", "lock xadd [rbx], rbx"])
        .locked()
        .outcome(Outcome::Overwritten),
    touches_nothing(&[
        "lea rax, [rbx]",
        "nop dword ptr [rbx]",
        "prefetcht0 [rbx]",
        "prefetchnta [rbx]",
    ]),
    touches_nothing(&["prefetchw [rbx]"]).needs("3dnowprefetch"),
    // For the processor, these hit; but they leave the bytes as they are and hand them to nobody.
    touches_nothing(&["clflush [rbx]"]).open_ended(),
    touches_nothing(&["clflushopt [rbx]"])
        .needs("clflushopt")
        .open_ended(),
    touches_nothing(&["clwb [rbx]"]).needs("clwb").open_ended(),
    touches_nothing(&["cldemote [rbx]"])
        .needs("cldemote")
        .open_ended(),
];
