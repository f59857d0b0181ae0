//! String instructions, once and repeated, up and down.

use super::super::group::{Group, Outcome, Place, reads, writes};
use crate::insn::AccessKind::{Read, Write};

const DOWN: &str = "std";
const TWENTY: &str = "mov ecx, 20";
const TWENTY_DOWN: &str = "mov ecx, 20\nstd";

const fn moves(size: u32, offset: i64, sources: &'static [&'static str]) -> Group {
    reads(size, sources)
        .at(Place::Rsi, offset)
        .and(Place::Rdi, offset, size, Write, false)
}

const fn compares(size: u32, sources: &'static [&'static str]) -> Group {
    reads(size, sources)
        .at(Place::Rsi, 0)
        .and(Place::Rdi, 0, size, Read, false)
}

pub(super) const GROUPS: &[Group] = &[
    moves(1, 0, &["movsb", "addr32 movsb"]),
    moves(2, 0, &["movsw"]),
    moves(4, 0, &["movsd"]),
    moves(8, 0, &["movsq"]),
    moves(1, 0, &["movsb"]).setup(DOWN),
    moves(8, 0, &["movsq"]).setup(DOWN),
    compares(1, &["cmpsb"]),
    compares(2, &["cmpsw"]),
    compares(4, &["cmpsd"]),
    compares(8, &["cmpsq"]),
    compares(4, &["cmpsd"]).setup(DOWN),
    writes(1, &["stosb"]).at(Place::Rdi, 0),
    writes(2, &["stosw"]).at(Place::Rdi, 0),
    writes(4, &["stosd", "addr32 stosd"]).at(Place::Rdi, 0),
    writes(8, &["stosq"]).at(Place::Rdi, 0),
    writes(8, &["stosq"]).at(Place::Rdi, 0).setup(DOWN),
    reads(1, &["lodsb"]).at(Place::Rsi, 0),
    reads(2, &["lodsw"]).at(Place::Rsi, 0),
    reads(4, &["lodsd"]).at(Place::Rsi, 0),
    reads(8, &["lodsq"]).at(Place::Rsi, 0),
    reads(4, &["lodsd"]).at(Place::Rsi, 0).setup(DOWN),
    reads(1, &["scasb"]).at(Place::Rdi, 0),
    reads(2, &["scasw"]).at(Place::Rdi, 0),
    reads(4, &["scasd"]).at(Place::Rdi, 0),
    reads(8, &["scasq"]).at(Place::Rdi, 0),
    moves(20, 0, &["rep movsb", "addr32 rep movsb"])
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    moves(40, 0, &["rep movsw"])
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    moves(80, 0, &["rep movsd"])
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    moves(160, 0, &["rep movsq"])
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    moves(20, -19, &["rep movsb"])
        .setup(TWENTY_DOWN)
        .outcome(Outcome::Repeated),
    moves(160, -152, &["rep movsq"])
        .setup(TWENTY_DOWN)
        .outcome(Outcome::Repeated),
    // Long enough for the fast form.
    moves(0x300, 0, &["rep movsb"])
        .setup("mov ecx, 0x300")
        .outcome(Outcome::Repeated),
    writes(0x300, &["rep stosb"])
        .at(Place::Rdi, 0)
        .setup("mov ecx, 0x300")
        .outcome(Outcome::Repeated),
    writes(20, &["rep stosb", "addr32 rep stosb"])
        .at(Place::Rdi, 0)
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    writes(40, &["rep stosw"])
        .at(Place::Rdi, 0)
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    writes(80, &["rep stosd"])
        .at(Place::Rdi, 0)
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    writes(160, &["rep stosq"])
        .at(Place::Rdi, 0)
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    writes(80, &["rep stosd"])
        .at(Place::Rdi, -76)
        .setup(TWENTY_DOWN)
        .outcome(Outcome::Repeated),
    reads(20, &["rep lodsb"])
        .at(Place::Rsi, 0)
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    reads(160, &["rep lodsq"])
        .at(Place::Rsi, 0)
        .setup(TWENTY)
        .outcome(Outcome::Repeated),
    compares(20, &["repe cmpsb"])
        .setup(TWENTY)
        .outcome(Outcome::RepeatedUntil),
    compares(160, &["repe cmpsq"])
        .setup(TWENTY)
        .outcome(Outcome::RepeatedUntil),
    // They stop at once: all bytes are equal.
    compares(4, &["repne cmpsd"])
        .setup(TWENTY)
        .outcome(Outcome::RepeatedUntil),
    reads(20, &["repne scasb"])
        .at(Place::Rdi, 0)
        .setup("mov ecx, 20\nxor eax, eax")
        .outcome(Outcome::RepeatedUntil),
    reads(80, &["repne scasd"])
        .at(Place::Rdi, 0)
        .setup("mov ecx, 20\nxor eax, eax")
        .outcome(Outcome::RepeatedUntil),
    reads(1, &["repe scasb"])
        .at(Place::Rdi, 0)
        .setup("mov ecx, 20\nxor eax, eax")
        .outcome(Outcome::RepeatedUntil),
    reads(64, &["movdir64b rdx, [rbx]"])
        .and(Place::Rdx, 0, 64, Write, false)
        .needs("movdir64b"),
];
