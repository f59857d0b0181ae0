//! AVX and AVX2: 32 bytes, masks and gathers by vector registers.

use super::super::group::{Group, Place, masked, reads, touches_nothing, writes};

/// Only the second element is enabled.
const DWORD_1: &str = "vmovdqu ymm1, [rip + element_1_dword]";
const QWORD_1: &str = "vmovdqu ymm1, [rip + element_1_qword]";
/// Its index is 5.
const GATHER_DWORD: &str =
    "vmovdqu ymm1, [rip + indices_dword]\nvmovdqu ymm2, [rip + element_1_dword]";
const GATHER_QWORD: &str =
    "vmovdqu ymm1, [rip + indices_qword]\nvmovdqu ymm2, [rip + element_1_qword]";
const NO_ELEMENT: &str = "vpxor ymm1, ymm1, ymm1\nvpxor ymm2, ymm2, ymm2";

pub(super) const GROUPS: &[Group] = &[
    reads(
        4,
        &[
            "vmovd xmm0, dword ptr [rbx]",
            "vmovss xmm0, dword ptr [rbx]",
            "vaddss xmm0, xmm1, dword ptr [rbx]",
            "vcvtsi2ss xmm0, xmm1, dword ptr [rbx]",
            "vbroadcastss ymm0, dword ptr [rbx]",
            "vinsertps xmm0, xmm1, dword ptr [rbx], 16",
        ],
    )
    .needs("avx"),
    reads(
        8,
        &[
            "vmovq xmm0, qword ptr [rbx]",
            "vmovsd xmm0, qword ptr [rbx]",
            "vmovhps xmm0, xmm1, qword ptr [rbx]",
            "vmovddup xmm0, qword ptr [rbx]",
            "vbroadcastsd ymm0, qword ptr [rbx]",
            "vcvtps2pd xmm0, qword ptr [rbx]",
        ],
    )
    .needs("avx"),
    reads(
        16,
        &[
            "vmovaps xmm0, [rbx]",
            "vpaddb xmm0, xmm1, [rbx]",
            "vbroadcastf128 ymm0, [rbx]",
            "vinsertf128 ymm0, ymm1, [rbx], 1",
            "vcvtps2pd ymm0, xmmword ptr [rbx]",
            "vcvtdq2pd ymm0, xmmword ptr [rbx]",
        ],
    )
    .needs("avx"),
    reads(
        32,
        &[
            "vmovaps ymm0, [rbx]",
            "vmovups ymm8, [rbx]",
            "vmovdqa ymm0, [rbx]",
            "vmovdqu ymm0, [rbx]",
            "vlddqu ymm0, [rbx]",
            "vaddps ymm0, ymm1, [rbx]",
            "vunpcklpd ymm0, ymm1, [rbx]",
            "vmovddup ymm0, [rbx]",
            "vperm2f128 ymm0, ymm1, [rbx], 1",
            "vptest ymm0, [rbx]",
            "vcvtpd2ps xmm0, ymmword ptr [rbx]",
        ],
    )
    .needs("avx"),
    writes(4, &["vmovss dword ptr [rbx], xmm0"]).needs("avx"),
    writes(
        8,
        &[
            "vmovhps qword ptr [rbx], xmm0",
            "vmovq qword ptr [rbx], xmm0",
        ],
    )
    .needs("avx"),
    writes(16, &["vmovups [rbx], xmm0", "vextractf128 [rbx], ymm0, 1"]).needs("avx"),
    writes(
        32,
        &[
            "vmovaps [rbx], ymm0",
            "vmovups [rbx], ymm0",
            "vmovdqu [rbx], ymm15",
            "vmovntps [rbx], ymm0",
            "vmovntdq [rbx], ymm0",
        ],
    )
    .needs("avx"),
    writes(32, &["vmovups [rbx - 5], ymm0"])
        .at(Place::Rbx, -5)
        .needs("avx"),
    reads(8, &["vcvtph2ps xmm0, qword ptr [rbx]"]).needs("f16c"),
    writes(16, &["vcvtps2ph [rbx], ymm0, 0"]).needs("f16c"),
    reads(32, &["vfmadd231ps ymm0, ymm1, [rbx]"]).needs("fma"),
    reads(8, &["vfmadd231sd xmm0, xmm1, qword ptr [rbx]"]).needs("fma"),
    reads(1, &["vpbroadcastb ymm0, byte ptr [rbx]"]).needs("avx2"),
    reads(2, &["vpbroadcastw xmm0, word ptr [rbx]"]).needs("avx2"),
    reads(4, &["vpmovzxbq ymm0, dword ptr [rbx]"]).needs("avx2"),
    reads(
        8,
        &[
            "vpbroadcastq ymm0, qword ptr [rbx]",
            "vpmovsxwq ymm0, qword ptr [rbx]",
        ],
    )
    .needs("avx2"),
    reads(
        16,
        &[
            "vbroadcasti128 ymm0, [rbx]",
            "vinserti128 ymm0, ymm1, [rbx], 1",
            "vpmovzxwd ymm0, xmmword ptr [rbx]",
            "vpsllw ymm0, ymm1, xmmword ptr [rbx]",
        ],
    )
    .needs("avx2"),
    reads(
        32,
        &[
            "vpaddq ymm0, ymm1, [rbx]",
            "vpshufb ymm0, ymm1, [rbx]",
            "vpermq ymm0, [rbx], 1",
            "vpsrlvd ymm0, ymm1, [rbx]",
            "vmovntdqa ymm0, [rbx]",
            "vpcmpeqb ymm0, ymm1, [rbx]",
        ],
    )
    .needs("avx2"),
    writes(16, &["vextracti128 [rbx], ymm0, 1"]).needs("avx2"),
    masked(reads(
        4,
        &[
            "vmaskmovps ymm0, ymm1, [rbx]",
            "vmaskmovps xmm0, xmm1, [rbx]",
        ],
    ))
    .at(Place::Rbx, 4)
    .setup(DWORD_1)
    .needs("avx"),
    masked(reads(8, &["vmaskmovpd ymm0, ymm1, [rbx]"]))
        .at(Place::Rbx, 8)
        .setup(QWORD_1)
        .needs("avx"),
    masked(writes(
        4,
        &[
            "vmaskmovps [rbx], ymm1, ymm0",
            "vmaskmovps [rbx], xmm1, xmm0",
        ],
    ))
    .at(Place::Rbx, 4)
    .setup(DWORD_1)
    .needs("avx"),
    masked(writes(8, &["vmaskmovpd [rbx], ymm1, ymm0"]))
        .at(Place::Rbx, 8)
        .setup(QWORD_1)
        .needs("avx"),
    masked(reads(4, &["vpmaskmovd ymm0, ymm1, [rbx]"]))
        .at(Place::Rbx, 4)
        .setup(DWORD_1)
        .needs("avx2"),
    masked(writes(4, &["vpmaskmovd [rbx], ymm1, ymm0"]))
        .at(Place::Rbx, 4)
        .setup(DWORD_1)
        .needs("avx2"),
    masked(writes(8, &["vpmaskmovq [rbx], ymm1, ymm0"]))
        .at(Place::Rbx, 8)
        .setup(QWORD_1)
        .needs("avx2"),
    masked(writes(1, &["vmaskmovdqu xmm0, xmm1"]))
        .at(Place::Rdi, 1)
        .setup("vmovdqu xmm1, [rip + element_1_byte]")
        .open_ended()
        .needs("avx"),
    masked(reads(
        4,
        &[
            "vpgatherdd ymm0, [rbx + 4*ymm1], ymm2",
            "vgatherdps xmm0, [rbx + 4*xmm1], xmm2",
        ],
    ))
    .at(Place::Rbx, 20)
    .setup(GATHER_DWORD)
    .needs("avx2"),
    masked(reads(
        8,
        &[
            "vpgatherqq ymm0, [rbx + 8*ymm1], ymm2",
            "vgatherqpd xmm0, [rbx + 8*xmm1], xmm2",
        ],
    ))
    .at(Place::Rbx, 40)
    .setup(GATHER_QWORD)
    .needs("avx2"),
    // Nothing is enabled.
    masked(touches_nothing(&[
        "vmaskmovps [rbx], ymm1, ymm0",
        "vmaskmovps ymm0, ymm1, [rbx]",
        "vpmaskmovd [rbx], ymm1, ymm0",
        "vpgatherdd ymm0, [rbx + 4*ymm1], ymm2",
    ]))
    .setup(NO_ELEMENT)
    .needs("avx2"),
];
