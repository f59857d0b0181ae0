//! From stack snapshots and addresses to call stacks, functions and lines.
//!
//! Works on copies and files only, never on the live process: the hunt hands over registers
//! and stack bytes and lets the threads go on; everything here may take its time.
//!
//! A [`Symbolizer`] stands for one address space. Files are opened when a module is added, so
//! that the process may exit or unload the library before its races are explained; clones
//! (one after each fork) share them.
//!
//! ```no_run
//! use gwp_race::insn::Regs;
//! use gwp_race::symbols::{ModuleInfo, StackSnapshot, Symbolizer};
//!
//! # fn example(module: ModuleInfo, regs: &Regs, snapshot: &StackSnapshot) {
//! let mut symbolizer = Symbolizer::new();
//! symbolizer.add_module(&module);
//! for pc in symbolizer.unwind(regs, snapshot).pcs {
//!     for frame in symbolizer.frames(pc) {
//!         println!("{:?} {:?}:{:?}", frame.function, frame.file, frame.line);
//!     }
//! }
//! # }
//! ```

mod abbreviations;
mod beside;
mod call_frames;
mod carries;
mod cfi;
mod debug_dirs;
mod debug_file;
mod debug_info;
mod demangle;
mod effort;
mod eh_frame_hdr;
mod elf_file;
mod elf_headers;
mod entries;
mod facts;
mod file_tables;
mod fragments;
mod frame;
mod functions;
mod inflate;
mod layout;
mod line_table;
mod lines;
mod mini_debug_info;
mod module;
mod module_file;
mod outline;
mod pages;
mod question;
mod read_at;
mod reader;
mod shelf;
mod source;
mod split_dwarf;
mod stack_end;
mod strict;
mod symbolizer;
mod symtab;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod too_much;
mod types;
mod unit;
mod unit_index;
mod unwind;
mod unwind_rules;
mod walked_code;

pub use beside::{Beside, FileIdentity, Looked, Opened, Wanted};
pub use call_frames::CallFrames;
pub use carries::Carried;
pub use debug_dirs::{
    DebugDirs, build_id_of_digits, hexadecimal, is_build_id, served_file, within_ours,
};
pub use debug_file::debug_image;
pub use facts::Facts;
pub use file_tables::{CodeFacts, FileTables};
pub use fragments::load_metadata;
#[cfg(test)]
pub use fragments::names_function;
pub use frame::{Frame, GlobalSymbol};
pub use layout::{Held, Named, Pointee, Stopped};
pub use module::{ModuleInfo, StackSnapshot};
#[cfg(test)]
#[cfg(test)]
pub use outline::OutlinedHere;
pub use outline::{Declared, Frames, Functions, NamedFunction, Outline, Outlined};
pub use question::{Answer, Files, Lack, Question};
pub use read_at::ReadAt;
pub use shelf::Shelf;
pub use source::{Known, Source, Sources};
pub use symbolizer::Symbolizer;
pub use types::FunctionResult;
pub use unwind::{Span, Stack};
pub use unwind_rules::Registers;
