//! The ways to name an address.

use super::super::group::{Group, Outcome, Place, reads, updates, writes};

pub(super) const GROUPS: &[Group] = &[
    // rcx is 2, r8 is -1.
    reads(
        4,
        &[
            "mov eax, [rbx + 8*rcx]",
            "mov eax, [rbx + rcx + 14]",
            "mov eax, [rbx + 4*rcx + 8]",
            "mov eax, [ebx + 16]",
            "mov eax, [ebx + r8d + 17]",
            "mov eax, [ebx + 2*r8d + 18]",
            "mov eax, [rbx + 8*r8 + 24]",
            "mov eax, dword ptr [rip + at_rbx + 16]",
            "mov eax, dword ptr [8*rcx + at_rbx]",
            "mov eax, dword ptr [ecx + at_rbx + 14]",
        ],
    )
    .at(Place::Rbx, 16),
    writes(
        2,
        &[
            "mov [rbx + 2*rcx - 6], ax",
            "mov [rbx + r8 - 1], ax",
            "mov word ptr [rip + at_rbx - 2], 7",
            "mov word ptr [ebx - 2], ax",
        ],
    )
    .at(Place::Rbx, -2),
    updates(
        8,
        &[
            "add qword ptr [rip + at_rbx + 3], 1",
            "sub [rbx + 3], rax",
            "inc qword ptr [rbx + rcx + 1]",
        ],
    )
    .at(Place::Rbx, 3),
    reads(1, &["movabs al, [at_rbx]"]),
    reads(2, &["movabs ax, [at_rbx]"]),
    reads(4, &["movabs eax, [at_rbx]"]),
    reads(8, &["movabs rax, [at_rbx]"]),
    writes(1, &["movabs [at_rbx], al"]),
    writes(4, &["movabs [at_rbx], eax"]),
    writes(8, &["movabs [at_rbx], rax"]),
    // The stack pointer as any other register.
    reads(8, &["mov rax, [rsp + 8]", "cmp qword ptr [rsp + 4*rcx], 0"]).at(Place::Rsp, 8),
    writes(8, &["mov [rsp - 8], rax"]).at(Place::Rsp, -8),
    // fs and gs have rbx's value as their base.
    reads(
        8,
        &[
            "mov rax, fs:[8]",
            "mov rax, gs:[rcx + 6]",
            "add rax, fs:[rcx + 6]",
        ],
    )
    .at(Place::Rbx, 8)
    .thread_local(),
    writes(
        4,
        &["mov dword ptr fs:[rcx + 6], 1", "mov gs:[r8d + 9], eax"],
    )
    .at(Place::Rbx, 8)
    .thread_local(),
    updates(4, &["lock inc dword ptr gs:[8]"])
        .at(Place::Rbx, 8)
        .thread_local()
        .locked(),
    // xlat: al is both an index and what is loaded.
    reads(1, &["xlatb"])
        .at(Place::Rbx, 1)
        .outcome(Outcome::Overwritten),
];
