//! Processor state in memory.

use super::super::group::{Group, Place, reads, updates, writes};
use crate::insn::Undetermined::SizeUnknown;

/// Zeros the header of an xsave area, and asks for x87 and SSE.
const ZEROED: &str =
    "lea rdi, [rbx + 512]\nxor eax, eax\nmov ecx, 64\nrep stosb\nmov eax, 3\nxor edx, edx";
const SAVED: &str =
    "lea rdi, [rbx + 512]\nxor eax, eax\nmov ecx, 64\nrep stosb\nmov eax, 3\nxor edx, edx
    xsave [rbx]";

pub(super) const GROUPS: &[Group] = &[
    writes(4, &["stmxcsr dword ptr [rbx]"]),
    reads(4, &["ldmxcsr dword ptr [rbx]"]).setup("stmxcsr dword ptr [rbx]"),
    writes(4, &["vstmxcsr dword ptr [rbx]"]).needs("avx"),
    reads(4, &["vldmxcsr dword ptr [rbx]"])
        .setup("stmxcsr dword ptr [rbx]")
        .needs("avx"),
    writes(28, &["fnstenv [rbx]"]).setup("fninit"),
    reads(28, &["fldenv [rbx]"]).setup("fninit\nfnstenv [rbx]"),
    writes(108, &["fnsave [rbx]"]).setup("fninit"),
    reads(108, &["frstor [rbx]"]).setup("fninit\nfnsave [rbx]"),
    // The last bytes of the area are the program's own.
    writes(416, &["fxsave [rbx]", "fxsave64 [rbx]"])
        .open_ended()
        .unknown(SizeUnknown),
    reads(416, &["fxrstor [rbx]", "fxrstor64 [rbx]"])
        .setup("fxsave [rbx]")
        .open_ended()
        .unknown(SizeUnknown),
    // XSTATE_BV, the first word of the header.
    updates(8, &["xsave [rbx]", "xsave64 [rbx]"])
        .at(Place::Rbx, 512)
        .setup(ZEROED)
        .needs("xsave")
        .unknown(SizeUnknown),
    updates(8, &["xsaveopt [rbx]"])
        .at(Place::Rbx, 512)
        .setup(ZEROED)
        .needs("xsaveopt")
        .unknown(SizeUnknown),
    updates(16, &["xsavec [rbx]"])
        .at(Place::Rbx, 512)
        .setup(ZEROED)
        .needs("xsavec")
        .open_ended()
        .unknown(SizeUnknown),
    reads(24, &["xrstor [rbx]", "xrstor64 [rbx]"])
        .at(Place::Rbx, 512)
        .setup(SAVED)
        .needs("xsave")
        .open_ended()
        .unknown(SizeUnknown),
];
