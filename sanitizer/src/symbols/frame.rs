//! What symbolization answers: a frame of a call stack, a global variable.

/// One function activation, possibly an inlined one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The run-time address that was looked up.
    pub pc: u64,
    /// The module's path as the target sees it; `None` outside all known modules.
    pub module: Option<String>,
    /// The link-time address: `pc` less the module's load bias. What `addr2line -e` takes.
    pub offset: u64,
    /// The module's GNU build id; empty where unknown.
    pub build_id: Vec<u8>,
    /// The function's demangled name.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// The line in which the function is declared, from 1.
    pub declared: Option<u32>,
    /// The function was inlined into the next frame of the list, at the same address.
    pub inlined: bool,
}

/// A variable with static storage, by the symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalSymbol {
    /// The variable's demangled name.
    pub name: String,
    /// Bytes from the start of the variable to the address that was asked for.
    pub offset: u64,
    /// The variable's size in bytes.
    pub size: u64,
    /// The path of its module as the target sees it.
    pub module: String,
    /// The variable's link-time address.
    pub module_offset: u64,
}
