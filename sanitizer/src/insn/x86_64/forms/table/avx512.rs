//! AVX-512: 64 bytes, mask registers, broadcasts, truncation, scatters.

use super::super::group::{Group, Place, masked, reads, touches_nothing, writes};

/// Only the second element is enabled.
const ELEMENT_1: &str = "mov eax, 2\nkmovw k1, eax";
const NO_ELEMENT: &str = "kxorw k1, k1, k1";
/// Only the second element is enabled; its index is 5.
const INDEX_DWORD: &str = "mov eax, 2\nkmovw k1, eax\nvmovdqu64 zmm1, [rip + indices_dword]";
const INDEX_QWORD: &str = "mov eax, 2\nkmovw k1, eax\nvmovdqu64 zmm1, [rip + indices_qword]";

pub(super) const GROUPS: &[Group] = &[
    reads(
        4,
        &[
            "vaddss xmm16, xmm1, dword ptr [rbx]",
            "vpaddd zmm0, zmm1, dword ptr [rbx]{1to16}",
            "vbroadcastss zmm0, dword ptr [rbx]",
            "vmovss xmm17, dword ptr [rbx]",
        ],
    )
    .needs("avx512f"),
    reads(
        8,
        &[
            "vpaddq zmm0, zmm1, qword ptr [rbx]{1to8}",
            "vpbroadcastq zmm0, qword ptr [rbx]",
            "vpmovzxbq zmm0, qword ptr [rbx]",
            "vmovq xmm16, qword ptr [rbx]",
        ],
    )
    .needs("avx512f"),
    reads(
        16,
        &[
            "vbroadcasti32x4 zmm0, xmmword ptr [rbx]",
            "vinserti32x4 zmm0, zmm1, xmmword ptr [rbx], 1",
            "vpmovsxbd zmm0, xmmword ptr [rbx]",
            "vpslld zmm0, zmm1, xmmword ptr [rbx]",
        ],
    )
    .needs("avx512f"),
    reads(
        32,
        &[
            "vbroadcasti64x4 zmm0, ymmword ptr [rbx]",
            "vinserti64x4 zmm0, zmm1, ymmword ptr [rbx], 1",
            "vcvtps2pd zmm0, ymmword ptr [rbx]",
            "vpmovzxwd zmm0, ymmword ptr [rbx]",
        ],
    )
    .needs("avx512f"),
    reads(
        64,
        &[
            "vmovups zmm0, [rbx]",
            "vmovaps zmm31, [rbx]",
            "vmovdqa32 zmm0, [rbx]",
            "vmovdqu64 zmm0, [rbx]",
            "vmovntdqa zmm0, [rbx]",
            "vpaddd zmm0, zmm1, [rbx]",
            "vpternlogd zmm0, zmm1, [rbx], 1",
            "vpermt2d zmm0, zmm1, [rbx]",
            "vcvtpd2ps ymm0, zmmword ptr [rbx]",
            "vpcmpd k1, zmm0, [rbx], 1",
            "vptestmd k1, zmm0, [rbx]",
            "vpexpandd zmm0, [rbx]",
            "vexpandps zmm0, [rbx]",
        ],
    )
    .needs("avx512f"),
    writes(
        64,
        &[
            "vmovups [rbx], zmm0",
            "vmovaps [rbx], zmm31",
            "vmovdqa64 [rbx], zmm0",
            "vmovdqu32 [rbx], zmm0",
            "vmovntdq [rbx], zmm0",
            "vmovntps [rbx], zmm0",
            "vpcompressd [rbx], zmm0",
            "vcompresspd [rbx], zmm0",
        ],
    )
    .needs("avx512f"),
    writes(
        64,
        &[
            "vmovdqu64 [rbx + 64*1], zmm0",
            "vmovdqu64 [rbx + 8*rcx + 48], zmm0",
        ],
    )
    .at(Place::Rbx, 64)
    .needs("avx512f"),
    writes(64, &["vmovdqu64 [rbx + 1], zmm0"])
        .at(Place::Rbx, 1)
        .needs("avx512f"),
    writes(8, &["vpmovqb [rbx], zmm0"]).needs("avx512f"),
    writes(16, &["vpmovdb [rbx], zmm0", "vextractf32x4 [rbx], zmm0, 1"]).needs("avx512f"),
    writes(
        32,
        &[
            "vpmovqd [rbx], zmm0",
            "vextracti64x4 [rbx], zmm0, 1",
            "vcvtps2ph [rbx], zmm0, 0",
        ],
    )
    .needs("avx512f"),
    writes(2, &["kmovw [rbx], k1"]).needs("avx512f"),
    reads(2, &["kmovw k1, [rbx]"]).needs("avx512f"),
    reads(1, &["kmovb k1, [rbx]"]).needs("avx512dq"),
    writes(1, &["kmovb [rbx], k1"]).needs("avx512dq"),
    reads(8, &["kmovq k1, [rbx]"]).needs("avx512bw"),
    writes(8, &["kmovq [rbx], k1"]).needs("avx512bw"),
    reads(4, &["kmovd k1, [rbx]"]).needs("avx512bw"),
    writes(32, &["vpmovwb [rbx], zmm0"]).needs("avx512bw"),
    reads(64, &["vmovdqu8 zmm0, [rbx]", "vpshufb zmm0, zmm1, [rbx]"]).needs("avx512bw"),
    writes(64, &["vmovdqu8 [rbx], zmm0", "vmovdqu16 [rbx], zmm0"]).needs("avx512bw"),
    reads(32, &["vmovdqu64 ymm16, [rbx]", "vpaddd ymm0, ymm17, [rbx]"]).needs("avx512vl"),
    writes(32, &["vmovdqu64 [rbx], ymm16", "vmovdqa32 [rbx], ymm16"]).needs("avx512vl"),
    reads(16, &["vmovdqu32 xmm16, [rbx]"]).needs("avx512vl"),
    writes(16, &["vmovdqu32 [rbx], xmm16"]).needs("avx512vl"),
    writes(2, &["vpmovqb [rbx], xmm0"]).needs("avx512vl"),
    writes(4, &["vpmovqw [rbx], xmm0", "vpmovdb [rbx], xmm0"]).needs("avx512vl"),
    writes(8, &["vpmovqb [rbx], zmm16", "vpmovqw [rbx], ymm0"]).needs("avx512vl"),
    reads(16, &["vaesenc xmm16, xmm1, [rbx]"]).needs("avx512vl vaes"),
    reads(64, &["vpclmulqdq zmm0, zmm1, [rbx], 1"]).needs("avx512f vpclmulqdq"),
    reads(64, &["vpdpbusd zmm0, zmm1, [rbx]"]).needs("avx512_vnni"),
    reads(64, &["vpopcntq zmm0, [rbx]"]).needs("avx512_vpopcntdq"),
    writes(64, &["vpcompressb [rbx], zmm0"]).needs("avx512_vbmi2"),
    reads(
        2,
        &[
            "vmovsh xmm0, word ptr [rbx]",
            "vaddsh xmm0, xmm1, word ptr [rbx]",
        ],
    )
    .needs("avx512_fp16"),
    reads(64, &["vaddph zmm0, zmm1, [rbx]"]).needs("avx512_fp16"),
    writes(2, &["vmovsh word ptr [rbx], xmm0"]).needs("avx512_fp16"),
    masked(writes(
        4,
        &[
            "vmovdqu32 [rbx]{k1}, zmm0",
            "vmovaps [rbx]{k1}, zmm0",
            "vmovups [rbx]{k1}, zmm0",
        ],
    ))
    .at(Place::Rbx, 4)
    .setup(ELEMENT_1)
    .needs("avx512f"),
    masked(writes(
        8,
        &["vmovdqu64 [rbx]{k1}, zmm0", "vmovapd [rbx]{k1}, zmm0"],
    ))
    .at(Place::Rbx, 8)
    .setup(ELEMENT_1)
    .needs("avx512f"),
    masked(writes(
        1,
        &["vmovdqu8 [rbx]{k1}, zmm0", "vmovdqu8 [rbx]{k1}, ymm0"],
    ))
    .at(Place::Rbx, 1)
    .setup(ELEMENT_1)
    .needs("avx512bw avx512vl"),
    masked(reads(
        4,
        &["vmovdqu32 zmm0{k1}, [rbx]", "vmovups zmm0{k1}{z}, [rbx]"],
    ))
    .at(Place::Rbx, 4)
    .setup(ELEMENT_1)
    .needs("avx512f"),
    masked(reads(1, &["vmovdqu8 zmm0{k1}{z}, [rbx]"]))
        .at(Place::Rbx, 1)
        .setup(ELEMENT_1)
        .needs("avx512bw"),
    masked(reads(8, &["vaddpd zmm0{k1}, zmm1, [rbx]"]))
        .at(Place::Rbx, 8)
        .setup(ELEMENT_1)
        .open_ended()
        .needs("avx512f"),
    // One element is enabled, and stands at the beginning.
    masked(writes(4, &["vpcompressd [rbx]{k1}, zmm0"]))
        .setup(ELEMENT_1)
        .open_ended()
        .needs("avx512f"),
    masked(reads(4, &["vpexpandd zmm0{k1}, [rbx]"]))
        .setup(ELEMENT_1)
        .open_ended()
        .needs("avx512f"),
    masked(writes(1, &["vpmovqb [rbx]{k1}, zmm0"]))
        .at(Place::Rbx, 1)
        .setup(ELEMENT_1)
        .needs("avx512f"),
    masked(reads(4, &["vpgatherdd zmm0{k1}, [rbx + 4*zmm1]"]))
        .at(Place::Rbx, 20)
        .setup(INDEX_DWORD)
        .needs("avx512f"),
    masked(reads(8, &["vgatherqpd zmm0{k1}, [rbx + 8*zmm1]"]))
        .at(Place::Rbx, 40)
        .setup(INDEX_QWORD)
        .needs("avx512f"),
    masked(writes(
        4,
        &[
            "vpscatterdd [rbx + 4*zmm1]{k1}, zmm0",
            "vscatterdps [rbx + 4*zmm1]{k1}, zmm0",
        ],
    ))
    .at(Place::Rbx, 20)
    .setup(INDEX_DWORD)
    .needs("avx512f"),
    masked(writes(8, &["vpscatterqq [rbx + 8*zmm1]{k1}, zmm0"]))
        .at(Place::Rbx, 40)
        .setup(INDEX_QWORD)
        .needs("avx512f"),
    masked(touches_nothing(&[
        "vmovdqu32 [rbx]{k1}, zmm0",
        "vmovups zmm0{k1}, [rbx]",
        "vpscatterdd [rbx + 4*zmm1]{k1}, zmm0",
    ]))
    .setup(NO_ELEMENT)
    .needs("avx512f"),
];
