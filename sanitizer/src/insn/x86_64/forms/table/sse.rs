//! SSE to SSE4.2 and their companions (AES, SHA, GFNI): 16 bytes, and less.

use super::super::group::{Group, Place, reads, touches_nothing, writes};
use crate::insn::Undetermined::MaskUnknown;

pub(super) const GROUPS: &[Group] = &[
    reads(2, &["pinsrw xmm0, word ptr [rbx], 1"]),
    reads(
        4,
        &[
            "movd xmm0, dword ptr [rbx]",
            "movss xmm0, dword ptr [rbx]",
            "addss xmm0, dword ptr [rbx]",
            "sqrtss xmm0, dword ptr [rbx]",
            "cmpltss xmm0, dword ptr [rbx]",
            "ucomiss xmm0, dword ptr [rbx]",
            "cvtss2sd xmm0, dword ptr [rbx]",
            "cvtsi2sd xmm0, dword ptr [rbx]",
            "cvttss2si eax, dword ptr [rbx]",
        ],
    ),
    reads(
        8,
        &[
            "movq xmm0, qword ptr [rbx]",
            "movsd xmm0, qword ptr [rbx]",
            "movhps xmm0, qword ptr [rbx]",
            "movlpd xmm0, qword ptr [rbx]",
            "addsd xmm0, qword ptr [rbx]",
            "comisd xmm0, qword ptr [rbx]",
            "cvtps2pd xmm0, qword ptr [rbx]",
            "cvtdq2pd xmm0, qword ptr [rbx]",
            "cvtsd2ss xmm0, qword ptr [rbx]",
            "cvtsi2ss xmm0, qword ptr [rbx]",
            "cvtsd2si rax, qword ptr [rbx]",
            "cvtps2pi mm0, qword ptr [rbx]",
        ],
    ),
    reads(
        16,
        &[
            "movaps xmm0, [rbx]",
            "movups xmm0, [rbx]",
            "movdqa xmm9, [rbx]",
            "movdqu xmm0, [rbx]",
            "addps xmm0, [rbx]",
            "mulpd xmm0, [rbx]",
            "andnps xmm0, [rbx]",
            "unpckhpd xmm0, [rbx]",
            "shufps xmm0, [rbx], 1",
            "pshufd xmm0, [rbx], 1",
            "paddd xmm0, [rbx]",
            "pcmpeqb xmm0, [rbx]",
            "cvtps2dq xmm0, [rbx]",
            "cvtpd2ps xmm0, [rbx]",
            "cvtpd2pi mm0, [rbx]",
            "rcpps xmm0, [rbx]",
        ],
    ),
    reads(
        16,
        &[
            "unpcklps xmm0, [rbx]",
            "punpcklbw xmm0, [rbx]",
            "psllw xmm0, [rbx]",
            "psrlq xmm0, [rbx]",
        ],
    )
    .halved(),
    // A REX prefix that is not about the size.
    reads(4, &["movd xmm2, dword ptr [r15]", "bt dword ptr [r15], 9"]).setup("mov r15, rbx"),
    writes(
        4,
        &["movd dword ptr [rbx], xmm0", "movss dword ptr [rbx], xmm0"],
    ),
    writes(
        8,
        &[
            "movq qword ptr [rbx], xmm0",
            "movsd qword ptr [rbx], xmm0",
            "movlps qword ptr [rbx], xmm0",
            "movhps qword ptr [rbx], xmm0",
            "movhpd qword ptr [rbx], xmm0",
        ],
    ),
    writes(
        16,
        &[
            "movaps [rbx], xmm0",
            "movups [rbx], xmm15",
            "movdqa [rbx], xmm0",
            "movdqu [rbx], xmm0",
            "movntps [rbx], xmm0",
            "movntpd [rbx], xmm0",
            "movntdq [rbx], xmm0",
        ],
    ),
    writes(16, &["movups [rbx + 3], xmm0"]).at(Place::Rbx, 3),
    writes(1, &["maskmovdqu xmm0, xmm1"])
        .at(Place::Rdi, 1)
        .setup("movdqu xmm1, [rip + element_1_byte]")
        .open_ended()
        .unknown(MaskUnknown),
    reads(8, &["movddup xmm0, qword ptr [rbx]"]).needs("pni"),
    reads(
        16,
        &[
            "lddqu xmm0, [rbx]",
            "haddps xmm0, [rbx]",
            "movshdup xmm0, [rbx]",
            "addsubpd xmm0, [rbx]",
        ],
    )
    .needs("pni"),
    reads(
        16,
        &[
            "pshufb xmm0, [rbx]",
            "palignr xmm0, [rbx], 3",
            "pabsd xmm0, [rbx]",
        ],
    )
    .needs("ssse3"),
    reads(1, &["pinsrb xmm0, byte ptr [rbx], 1"]).needs("sse4_1"),
    reads(2, &["pmovsxbq xmm0, word ptr [rbx]"]).needs("sse4_1"),
    reads(
        4,
        &[
            "pinsrd xmm0, dword ptr [rbx], 1",
            "insertps xmm0, dword ptr [rbx], 16",
            "pmovzxbd xmm0, dword ptr [rbx]",
            "pmovsxwq xmm0, dword ptr [rbx]",
            "roundss xmm0, dword ptr [rbx], 1",
        ],
    )
    .needs("sse4_1"),
    reads(
        8,
        &[
            "pinsrq xmm0, qword ptr [rbx], 1",
            "pmovsxdq xmm0, qword ptr [rbx]",
            "roundsd xmm0, qword ptr [rbx], 1",
        ],
    )
    .needs("sse4_1"),
    reads(
        16,
        &[
            "movntdqa xmm0, [rbx]",
            "ptest xmm0, [rbx]",
            "blendps xmm0, [rbx], 1",
            "blendvps xmm1, [rbx], xmm0",
            "mpsadbw xmm0, [rbx], 1",
            "dpps xmm0, [rbx], 255",
        ],
    )
    .needs("sse4_1"),
    writes(1, &["pextrb byte ptr [rbx], xmm0, 1"]).needs("sse4_1"),
    writes(2, &["pextrw word ptr [rbx], xmm0, 1"]).needs("sse4_1"),
    writes(
        4,
        &[
            "pextrd dword ptr [rbx], xmm0, 1",
            "extractps dword ptr [rbx], xmm0, 1",
        ],
    )
    .needs("sse4_1"),
    writes(8, &["pextrq qword ptr [rbx], xmm0, 1"]).needs("sse4_1"),
    reads(
        16,
        &[
            "pcmpgtq xmm0, [rbx]",
            "pcmpistri xmm0, [rbx], 0",
            "pcmpestrm xmm0, [rbx], 0",
        ],
    )
    .needs("sse4_2"),
    reads(16, &["aesenc xmm0, [rbx]", "aesimc xmm0, [rbx]"]).needs("aes"),
    reads(16, &["pclmulqdq xmm0, [rbx], 1"]).needs("pclmulqdq"),
    reads(16, &["sha1msg1 xmm0, [rbx]", "sha256rnds2 xmm1, [rbx]"]).needs("sha_ni"),
    reads(16, &["gf2p8mulb xmm0, [rbx]"]).needs("gfni"),
    touches_nothing(&["prefetcht2 [rbx]"]),
];
