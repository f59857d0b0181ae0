//! What memory a race is about.

use serde::{Deserialize, Serialize};

use crate::report::hex::Hex;

/// What kind of memory an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LocationKind {
    /// A variable with static storage, named by the symbol table.
    Global,
    /// A block that an allocator has given.
    #[serde(rename = "heap-block")]
    HeapBlock,
    /// The program break's mapping, `[heap]`.
    Heap,
    /// A thread's stack.
    Stack,
    /// A mapping with a name: a file, shared memory, `[anon:...]`.
    Mapping,
    /// Memory without a name: what large allocations and further malloc arenas are made of.
    Anonymous,
    /// No mapping was found.
    Unknown,
}

/// What is at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Location {
    /// The kind of memory.
    pub kind: LocationKind,
    /// The variable, the thread, or the mapping's name.
    pub name: Option<String>,
    /// The way from a variable to the bytes that both sides access, by the names of the source: `.last[].hits`. Elements of arrays are not
    /// told from each other.
    #[serde(default)]
    pub member: Option<String>,
    /// Bytes from the start of the variable, the block or the mapping; on a stack, bytes above the
    /// thread's stack pointer where the thread's is known.
    pub offset: Option<i64>,
    /// The variable's or mapping's size in bytes; of a block, how many may be used of it.
    pub size: Option<u64>,
    /// A variable's module.
    pub module: Option<String>,
    /// A variable's link-time address in its module.
    pub module_offset: Option<Hex>,
    /// A stack's thread.
    pub tid: Option<u32>,
    /// On a stack: the variable, with the way from it to the bytes that both sides access: `total.value`.
    #[serde(default)]
    pub variable: Option<String>,
    /// The function in whose frame that variable is.
    #[serde(default)]
    pub function: Option<String>,
    /// Of memory without a name: the object to which a variable of one side points.
    #[serde(default)]
    pub object: Option<Object>,
}

/// An object by its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Object {
    /// What its type is called.
    #[serde(rename = "type")]
    pub name: String,
    /// The way from it to the bytes that both sides access: `.last[].hits`. Empty where they are all of it, or more than one member.
    pub member: String,
}
