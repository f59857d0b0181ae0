//! x87 and MMX.

use super::super::group::{Group, Place, reads, writes};
use crate::insn::Undetermined::MaskUnknown;

const EMPTY: &str = "fninit";
const ONE: &str = "fninit\nfld1";

pub(super) const GROUPS: &[Group] = &[
    reads(2, &["fild word ptr [rbx]"]).setup(EMPTY),
    reads(4, &["fld dword ptr [rbx]", "fild dword ptr [rbx]"]).setup(EMPTY),
    reads(8, &["fld qword ptr [rbx]", "fild qword ptr [rbx]"]).setup(EMPTY),
    reads(10, &["fld xword ptr [rbx]", "fbld [rbx]"]).setup(EMPTY),
    reads(2, &["fiadd word ptr [rbx]", "ficomp word ptr [rbx]"]).setup(ONE),
    reads(
        4,
        &[
            "fadd dword ptr [rbx]",
            "fsubr dword ptr [rbx]",
            "fmul dword ptr [rbx]",
            "fdiv dword ptr [rbx]",
            "fcom dword ptr [rbx]",
            "fimul dword ptr [rbx]",
        ],
    )
    .setup(ONE),
    reads(
        8,
        &[
            "fadd qword ptr [rbx]",
            "fsub qword ptr [rbx]",
            "fcomp qword ptr [rbx]",
        ],
    )
    .setup(ONE),
    writes(
        2,
        &[
            "fist word ptr [rbx]",
            "fistp word ptr [rbx]",
            "fisttp word ptr [rbx]",
        ],
    )
    .setup(ONE),
    writes(
        4,
        &[
            "fst dword ptr [rbx]",
            "fstp dword ptr [rbx]",
            "fist dword ptr [rbx]",
            "fisttp dword ptr [rbx]",
        ],
    )
    .setup(ONE),
    writes(
        8,
        &[
            "fst qword ptr [rbx]",
            "fstp qword ptr [rbx]",
            "fistp qword ptr [rbx]",
            "fisttp qword ptr [rbx]",
        ],
    )
    .setup(ONE),
    writes(10, &["fstp xword ptr [rbx]", "fbstp [rbx]"]).setup(ONE),
    writes(2, &["fnstcw word ptr [rbx]", "fnstsw word ptr [rbx]"]),
    reads(2, &["fldcw word ptr [rbx]"]).setup("mov word ptr [rbx], 0x37f"),
    reads(
        4,
        &[
            "movd mm0, dword ptr [rbx]",
            "punpcklbw mm0, dword ptr [rbx]",
        ],
    ),
    reads(
        8,
        &[
            "movq mm0, qword ptr [rbx]",
            "paddb mm0, qword ptr [rbx]",
            "punpckhbw mm0, qword ptr [rbx]",
            "psllw mm0, qword ptr [rbx]",
            "pshufw mm0, qword ptr [rbx], 0",
            "cvtpi2ps xmm0, qword ptr [rbx]",
        ],
    ),
    reads(2, &["pinsrw mm0, word ptr [rbx], 1"]),
    writes(4, &["movd dword ptr [rbx], mm0"]),
    writes(
        8,
        &["movq qword ptr [rbx], mm0", "movntq qword ptr [rbx], mm0"],
    ),
    // Bytes whose mask has its highest bit set: the second. For some processors the others hit, too.
    writes(1, &["maskmovq mm0, mm1"])
        .at(Place::Rdi, 1)
        .setup("movq mm1, qword ptr [rip + element_1_byte]")
        .open_ended()
        .unknown(MaskUnknown),
];
