//! x86-64 instructions (Intel SDM volumes 1 and 2; decoded by iced-x86).
//!
//! ```
//! use gwp_race::insn::{AccessKind, Regs, x86_64};
//!
//! // add dword ptr [rdi + 4*rcx], eax
//! let code = [0x01, 0x04, 0x8f];
//! let regs = Regs { rdi: 0x1000, rcx: 2, ..Regs::default() };
//! let accesses = x86_64::accesses_before(&code, &regs).unwrap();
//! assert_eq!(accesses[0].address, 0x1008);
//! assert_eq!(accesses[0].kind, AccessKind::ReadWrite);
//! ```

mod accesses;
mod attribute;
mod byte_use;
mod call;
#[cfg(test)]
mod differential;
mod fingerprint;
mod flow;
#[cfg(test)]
mod forms;
mod frame;
mod function;
mod lookahead;
mod merged;
mod operands;
mod pointers;
mod points;
mod read_use;
mod registers;
mod sites;
#[cfg(test)]
mod stepping;
#[cfg(test)]
mod testing;
mod upcoming;

pub use accesses::{accesses_before, address_form, extent, length, member, variable};
pub use attribute::attribute;
pub use byte_use::{ReadOnly, byte_use, copied_to};
pub use call::{CALL_LENGTHS, call_before, is_call};
pub use fingerprint::fingerprint;
pub use flow::{
    direct_transfers, ends_program, exits, keeps_stack, leads_to, length_of_function, padding, stub,
};
pub use lookahead::{Candidate, Lookahead, lookahead};
pub use merged::may_be_merged;
pub use operands::{AddressForm, Member, Variable};
pub use pointers::{Pointer, pointers};
pub use points::{Approaches, MOST_DEREFERENCES, Point, Points, Recipe, may_be_probed};
pub use read_use::read_use;
pub use sites::{SITE_CODE, StaticSite, static_sites};
pub use upcoming::{Upcoming, upcoming};

/// The longest instruction in bytes; decoding never needs more.
pub const MAX_INSTRUCTION_LEN: usize = 15;
