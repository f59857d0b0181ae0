//! The table, a file a family.

mod addressing;
mod avx;
mod avx512;
mod general;
mod sse;
mod stack;
mod state;
mod strings;
mod x87;

use super::group::Group;

pub(super) fn groups() -> impl Iterator<Item = &'static Group> {
    [
        general::GROUPS,
        addressing::GROUPS,
        stack::GROUPS,
        strings::GROUPS,
        x87::GROUPS,
        state::GROUPS,
        sse::GROUPS,
        avx::GROUPS,
        avx512::GROUPS,
    ]
    .into_iter()
    .flatten()
}
