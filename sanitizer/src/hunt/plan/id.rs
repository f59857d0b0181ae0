//! How a planner and whoever asks it call things.

use serde::{Deserialize, Serialize};

/// An access site: an instruction that accesses memory, or calls a routine that does. In the engine its run-time address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteId(pub u64);

/// A variable that code names by its address. In the engine that address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VariableId(pub u64);

/// The first of the bytes that an access is about. In the engine their run-time address; that of a variable is the number of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AddressId(pub u64);

impl From<VariableId> for AddressId {
    fn from(variable: VariableId) -> Self {
        Self(variable.0)
    }
}

/// A function. In the engine its run-time start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FunctionId(pub u64);

/// A member of a structure: the distance from a register at which it is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId(pub u32);

/// Names one action among those of its planner: what comes of it is told under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActionId(pub u64);

impl ActionId {
    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
