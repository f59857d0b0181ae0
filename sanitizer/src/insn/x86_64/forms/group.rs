//! What a form of an instruction accesses when the processor executes it, and what has to be
//! recovered from that.

use crate::insn::{AccessKind, Regs, Undetermined};

/// Where an access lies: at the value that a register has before the form's set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Rbx,
    Rsi,
    Rdi,
    Rdx,
    Rsp,
}

impl Place {
    pub(super) const fn of(self, regs: &Regs) -> u64 {
        match self {
            Self::Rbx => regs.rbx,
            Self::Rsi => regs.rsi,
            Self::Rdi => regs.rdi,
            Self::Rdx => regs.rdx,
            Self::Rsp => regs.rsp,
        }
    }
}

/// An access that the processor makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truth {
    pub(super) place: Place,
    pub(super) offset: i64,
    pub(super) size: u32,
    pub(super) kind: AccessKind,
    /// Pushed or popped, not named by the instruction.
    pub(super) implicit: bool,
}

/// What has to come out of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// PC, kind, size and address.
    Exact,
    /// PC, kind and size; the address is gone with its register, and the answer says so.
    Overwritten,
    /// PC and kind; bytes around the watch, all of which the repetition accesses.
    Repeated,
    /// The same, where the end of the repetition depends on the data.
    RepeatedUntil,
    /// No answer, for this reason; what it accesses is known before it.
    Counted(Undetermined),
    /// No answer, neither before nor after it.
    Unknown {
        before: Undetermined,
        after: Undetermined,
    },
}

/// Forms that access the same bytes in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Intel syntax, an instruction each.
    pub(super) sources: &'static [&'static str],
    /// Instructions before it, which may use rax and what the form itself does not.
    pub(super) setup: &'static str,
    /// Flags in /proc/cpuinfo that it takes, separated by spaces.
    pub(super) needs: &'static str,
    /// None at all where the form only names an address.
    pub(super) truths: [Option<Truth>; 2],
    pub(super) outcome: Outcome,
    /// Atomic, whatever the metadata says.
    pub(super) locked: bool,
    pub(super) thread_local: bool,
    /// Whether the bytes next to the accesses are left alone.
    edges: bool,
    /// Whether the upper half may be.
    pub(super) halved: bool,
}

const fn group(size: u32, kind: AccessKind, sources: &'static [&'static str]) -> Group {
    Group {
        sources,
        setup: "",
        needs: "",
        truths: [
            Some(Truth {
                place: Place::Rbx,
                offset: 0,
                size,
                kind,
                implicit: false,
            }),
            None,
        ],
        outcome: Outcome::Exact,
        locked: false,
        thread_local: false,
        edges: true,
        halved: false,
    }
}

/// Forms that load so many bytes at rbx.
pub(super) const fn reads(size: u32, sources: &'static [&'static str]) -> Group {
    group(size, AccessKind::Read, sources)
}

/// Forms that store so many bytes at rbx.
pub(super) const fn writes(size: u32, sources: &'static [&'static str]) -> Group {
    group(size, AccessKind::Write, sources)
}

/// Forms that load and store so many bytes at rbx.
pub(super) const fn updates(size: u32, sources: &'static [&'static str]) -> Group {
    group(size, AccessKind::ReadWrite, sources)
}

/// Forms that name an address, rbx, and access nothing.
pub(super) const fn touches_nothing(sources: &'static [&'static str]) -> Group {
    Group {
        truths: [None, None],
        ..group(0, AccessKind::Read, sources)
    }
}

/// By a vector mask. What it leaves out hits a watchpoint on an EPYC, and not on a Xeon.
pub(super) const fn masked(group: Group) -> Group {
    group.unknown(Undetermined::MaskUnknown).open_ended()
}

impl Group {
    pub(super) const fn needs(self, needs: &'static str) -> Self {
        Self { needs, ..self }
    }

    pub(super) const fn setup(self, setup: &'static str) -> Self {
        Self { setup, ..self }
    }

    pub(super) const fn outcome(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    /// No answer, for this reason.
    pub(super) const fn unknown(self, reason: Undetermined) -> Self {
        self.refused(reason, reason)
    }

    /// No answer, for one reason before it and another one after it.
    pub(super) const fn refused(self, before: Undetermined, after: Undetermined) -> Self {
        self.outcome(Outcome::Unknown { before, after })
    }

    pub(super) const fn locked(self) -> Self {
        Self {
            locked: true,
            ..self
        }
    }

    pub(super) const fn thread_local(self) -> Self {
        Self {
            thread_local: true,
            ..self
        }
    }

    /// It touches bytes beyond the accesses given, or some processors say that it does: then the
    /// reason must be the same, and none where no access is given.
    pub(super) const fn open_ended(self) -> Self {
        Self {
            edges: false,
            ..self
        }
    }

    /// Some processors leave the upper half alone, of which the result does not depend: an EPYC does.
    pub(super) const fn halved(self) -> Self {
        Self {
            halved: true,
            ..self
        }
    }

    /// The first access is elsewhere.
    pub(super) const fn at(self, place: Place, offset: i64) -> Self {
        let first = match self.truths[0] {
            Some(truth) => Some(Truth {
                place,
                offset,
                ..truth
            }),
            None => None,
        };
        Self {
            truths: [first, self.truths[1]],
            ..self
        }
    }

    /// The first access is a push or a pop.
    pub(super) const fn on_stack(self, offset: i64) -> Self {
        let first = match self.truths[0] {
            Some(truth) => Some(Truth {
                place: Place::Rsp,
                offset,
                implicit: true,
                ..truth
            }),
            None => None,
        };
        Self {
            truths: [first, self.truths[1]],
            ..self
        }
    }

    /// What may be said of the bytes next to the accesses.
    pub(super) const fn beside(&self) -> &'static str {
        if self.edges { "left alone" } else { "hit" }
    }

    /// A second access.
    pub(super) const fn and(
        self,
        place: Place,
        offset: i64,
        size: u32,
        kind: AccessKind,
        implicit: bool,
    ) -> Self {
        Self {
            truths: [
                self.truths[0],
                Some(Truth {
                    place,
                    offset,
                    size,
                    kind,
                    implicit,
                }),
            ],
            ..self
        }
    }
}
