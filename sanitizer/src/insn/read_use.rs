//! Whether a load is one that the source asks for, as a fact about the code that follows it.

use serde::{Deserialize, Serialize};

/// Whether the code proves that the source itself reads what an instruction loads.
///
/// Compilers add loads: they make conditional ones unconditional and select afterwards, hoist
/// them out of loops and merge neighbours into one wide load. They never add stores, calls or
/// branches on a value that the source does not branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadUse {
    /// The source uses all of the bytes, whenever the instruction executes.
    Proven,
    /// The source uses some of the bytes whenever the instruction executes; the others may be
    /// neighbours that a wide load merged in.
    ProvenInPart,
    /// Nothing is proven: the load may be the compiler's.
    Unproven,
}
