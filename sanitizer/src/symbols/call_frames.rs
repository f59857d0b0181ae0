//! The unwind tables of a live module's file, for questions that cannot wait until a race is
//! explained: how far does the code around an address reach, and who called it.

use std::ops::Range;

use super::cfi::Cfi;
use super::effort;
use crate::addr::LinkAddr;
use crate::image::Image;

/// See the module.
#[derive(Debug)]
pub struct CallFrames(Cfi);

impl CallFrames {
    /// Takes `.eh_frame` of a file that is mapped.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        Self(Cfi::of_image(image))
    }

    /// The code of each entry of the tables, sorted. The parts of a function that was split have one each.
    pub(super) fn entries(&self) -> Vec<Range<LinkAddr>> {
        effort::begin();
        let entries = self.0.entries();
        (entries.map(|range| LinkAddr(range.start)..LinkAddr(range.end))).collect()
    }

    /// Whether an entry of the tables begins at an address and says that something of a frame is set up there
    /// already, as it never is where a function begins.
    pub(super) fn is_within_frame(&self, start: LinkAddr) -> bool {
        effort::begin();
        self.0.begins_within_frame(start.0) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use gimli::{Register, X86_64};

    use crate::insn::Regs;
    use crate::symbols::StackSnapshot;
    use crate::symbols::unwind_rules::{Registers, Step};

    impl CallFrames {
        /// The code that one entry of the tables describes (a function, as a rule), around an
        /// address.
        #[must_use]
        pub fn extent(&self, address: LinkAddr) -> Option<Range<LinkAddr>> {
            effort::begin();
            let range = self.0.extent(address.0)?;
            Some(LinkAddr(range.start)..LinkAddr(range.end))
        }

        /// The registers of the caller of a thread that stands at link-time address `pc`: its return
        /// address, its stack pointer, and what a call preserves; the others are 0. Nothing where
        /// the tables do not tell all of these.
        #[must_use]
        pub fn caller(&self, pc: LinkAddr, regs: &Regs, stack: &StackSnapshot) -> Option<Regs> {
            effort::begin();
            let step = self.0.step(pc.0, &Registers::new(regs), stack)?;
            let Step::Caller {
                registers,
                interrupted: false,
            } = step
            else {
                return None;
            };
            let value = |register: Register| registers.get(register);
            Some(Regs {
                rip: registers.pc()?,
                rsp: registers.sp()?,
                rbx: value(X86_64::RBX)?,
                rbp: value(X86_64::RBP)?,
                r12: value(X86_64::R12)?,
                r13: value(X86_64::R13)?,
                r14: value(X86_64::R14)?,
                r15: value(X86_64::R15)?,
                ..Regs::default()
            })
        }
    }

    fn build(flags: &[&str], dir: &Path) -> Image {
        let source = dir.join("input.c");
        let output = dir.join("output");
        let text = "int g; __attribute__((noinline)) int f(int n) { return g += n; }\n\
            int main(int n, char **v) { return f(n) + f(n + 1); }\n";
        std::fs::write(&source, text).expect("the source can be written");
        let status = Command::new("clang-22")
            .args(["-O1", "-fno-omit-frame-pointer"])
            .args(flags)
            .args([&source, Path::new("-o"), &output])
            .status()
            .expect("clang-22 is installed");
        assert!(status.success());
        Image::open(&output).expect("it is a program")
    }

    /// Check, with the linker's search table and without, that extents are those of the symbol
    /// table, and that the caller of a function is found at its entry and behind its prologue.
    #[test]
    fn extents_and_callers() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        for flags in [&[][..], &["-Wl,--no-eh-frame-hdr"]] {
            let image = build(flags, dir.path());
            let frames = CallFrames::of(&image);
            let functions = image.functions();
            let f = functions.iter().find(|f| f.name == "f").expect("it is f");
            let end = f.address.offset(f.size.cast_signed());
            for at in [f.address, end.offset(-1)] {
                assert_eq!(frames.extent(at), Some(f.address..end), "{flags:?}");
            }
            assert_eq!(frames.extent(LinkAddr(1)), None);

            let stack = StackSnapshot {
                base: 0x7000,
                bytes: [0xb0u64, 0xabc, 0xdef].map(u64::to_le_bytes).concat(),
            };
            let regs = Regs {
                rsp: 0x7000,
                rbp: 0x7000,
                rbx: 5,
                ..Regs::default()
            };
            // push rbp; mov rbp, rsp
            for (offset, expected) in [(0, (0xb0, 0x7008, 0x7000)), (4, (0xabc, 0x7010, 0xb0))] {
                let caller = frames.caller(f.address.offset(offset), &regs, &stack);
                let caller = caller.expect("the tables cover it");
                assert_eq!((caller.rip, caller.rsp, caller.rbp), expected);
                assert_eq!(caller.rbx, 5);
            }
            let short = StackSnapshot {
                base: 0x7000,
                bytes: vec![0; 4],
            };
            assert_eq!(frames.caller(f.address, &regs, &short), None);
        }
    }
}
