//! The stack pointer, and where execution goes by memory.

use super::super::group::{Group, Outcome, Place, reads, writes};
use crate::insn::AccessKind::{Read, Write};
use crate::insn::Undetermined::{ControlTransfer, NoMatch, SizeUnknown};

const TO_LANDING: &str = "lea rax, [rip + landing]\nmov [rbx], rax\nmov [rsp], rax";
const INSIDE_LANDING: &str = "lea rax, [rip + inside_landing]\nmov [rbx], rax\nmov [rsp], rax";
const TO_AFTER: &str = "lea rax, [rip + {after}]\nmov [rbx], rax\nmov [rsp], rax";
/// 4 bytes of address and a selector.
const FAR_TO_LANDING: &str =
    "lea rax, [rip + landing]\nmov [rbx], eax\nmov eax, cs\nmov [rbx + 4], ax
    mov eax, [rbx]\nmov [rsp], eax\nmov eax, cs\nmov [rsp + 4], eax";
const FRAME_OF_IRET: &str =
    "lea rax, [rip + landing]\nmov [rsp], rax\nmov eax, cs\nmov [rsp + 8], rax
    pushfq\npop rax\nmov [rsp + 16], rax\nlea rax, [rsp + 64]\nmov [rsp + 24], rax
    mov eax, ss\nmov [rsp + 32], rax";

pub(super) const GROUPS: &[Group] = &[
    writes(
        8,
        &[
            "push rax", "push r12", "push rsp", "push 5", "push 500", "pushfq",
        ],
    )
    .on_stack(-8),
    writes(2, &["push ax"]).on_stack(-2),
    reads(8, &["pop rax", "pop r12", "pop rbx"]).on_stack(0),
    reads(2, &["pop ax"]).on_stack(0),
    reads(8, &["popfq"])
        .setup("pushfq\npop rax\nmov [rsp], rax")
        .on_stack(0),
    // How many bytes, is the processor's choice; the encodings without prefix move rsp by 8.
    writes(2, &["push fs"])
        .on_stack(-2)
        .open_ended()
        .unknown(SizeUnknown),
    writes(2, &[".byte 0x0f, 0xa0 # push fs"])
        .on_stack(-8)
        .open_ended()
        .unknown(SizeUnknown),
    reads(2, &["pop gs", ".byte 0x0f, 0xa9 # pop gs"])
        .setup("mov qword ptr [rsp], 0")
        .on_stack(0)
        .open_ended()
        .unknown(SizeUnknown),
    reads(8, &["pop rsp"])
        .on_stack(0)
        .outcome(Outcome::Overwritten),
    reads(8, &["mov rsp, [rsp]", "add rsp, [rsp]"])
        .at(Place::Rsp, 0)
        .outcome(Outcome::Overwritten),
    reads(8, &["push qword ptr [rbx]"]).and(Place::Rsp, -8, 8, Write, true),
    reads(2, &["push word ptr [rbx]"]).and(Place::Rsp, -2, 2, Write, true),
    reads(8, &["push qword ptr [rsp]"])
        .at(Place::Rsp, 0)
        .and(Place::Rsp, -8, 8, Write, true),
    reads(8, &["push qword ptr [rsp + 8]"])
        .at(Place::Rsp, 8)
        .and(Place::Rsp, -8, 8, Write, true),
    writes(8, &["pop qword ptr [rbx]"]).and(Place::Rsp, 0, 8, Read, true),
    // The address is computed after the pop.
    writes(8, &["pop qword ptr [rsp]"])
        .at(Place::Rsp, 8)
        .and(Place::Rsp, 0, 8, Read, true),
    writes(8, &["pop qword ptr [rsp + 8]"])
        .at(Place::Rsp, 16)
        .and(Place::Rsp, 0, 8, Read, true),
    reads(8, &["leave"])
        .setup("lea rbp, [rsp + 16]")
        .on_stack(16),
    writes(8, &["enter 32, 0", "enter 0, 0"]).on_stack(-8),
    writes(8, &["call landing"])
        .on_stack(-8)
        .outcome(Outcome::Counted(ControlTransfer)),
    writes(8, &["call inside_landing"])
        .on_stack(-8)
        .outcome(Outcome::Counted(NoMatch)),
    reads(8, &["call [rbx]"])
        .setup(TO_LANDING)
        .and(Place::Rsp, -8, 8, Write, true)
        .outcome(Outcome::Counted(ControlTransfer)),
    reads(8, &["jmp [rbx]"])
        .setup(TO_LANDING)
        .outcome(Outcome::Counted(ControlTransfer)),
    // Behind an instruction that falls through but has no such operand.
    reads(8, &["jmp [rbx]"])
        .setup(INSIDE_LANDING)
        .outcome(Outcome::Counted(NoMatch)),
    // Behind itself.
    reads(8, &["jmp [rbx]"])
        .setup(TO_AFTER)
        .outcome(Outcome::Counted(ControlTransfer)),
    reads(8, &["ret"])
        .setup(TO_LANDING)
        .on_stack(0)
        .outcome(Outcome::Counted(ControlTransfer)),
    reads(8, &["ret", "rep ret"])
        .setup(INSIDE_LANDING)
        .on_stack(0)
        .outcome(Outcome::Counted(ControlTransfer)),
    reads(8, &["ret 16"])
        .setup(INSIDE_LANDING)
        .on_stack(0)
        .outcome(Outcome::Counted(NoMatch)),
    reads(6, &["jmp fword ptr [rbx]"])
        .setup(FAR_TO_LANDING)
        .outcome(Outcome::Counted(ControlTransfer)),
    // Of the selectors' words, as little as with push and pop.
    reads(4, &["retf"])
        .setup(FAR_TO_LANDING)
        .on_stack(0)
        .open_ended()
        .refused(SizeUnknown, ControlTransfer),
    reads(32, &["iretq"])
        .setup(FRAME_OF_IRET)
        .on_stack(0)
        .open_ended()
        .refused(SizeUnknown, ControlTransfer),
];
