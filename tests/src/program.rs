//! A program to build: sources of `tests/fixtures`, libraries, flags.

/// What the compiler records about a program's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metadata {
    /// Nothing: gcc builds it.
    None,
    /// Atomic accesses and covered functions.
    Atomics,
    /// The same, with the flags under which the compiler reads nothing that the source does not.
    Strict,
}

/// A program, or a library where `library` says so.
#[derive(Clone, Debug)]
pub struct Program {
    /// The source, below `tests/fixtures`; its suffix is the language.
    pub source: &'static str,
    /// Whether the broken twin is meant.
    pub broken: bool,
    /// What the compiler records.
    pub metadata: Metadata,
    /// A shared library to link with.
    pub library: Option<Box<Program>>,
    /// Whether it must have the dynamic loader.
    pub dynamic: bool,
    /// Further flags of the compiler.
    pub flags: &'static [&'static str],
}

impl Program {
    /// A program with metadata.
    #[must_use]
    pub const fn new(source: &'static str) -> Self {
        Self {
            source,
            broken: false,
            metadata: Metadata::Atomics,
            library: None,
            dynamic: false,
            flags: &[],
        }
    }

    /// The twin without what orders its accesses.
    #[must_use]
    pub const fn broken(mut self) -> Self {
        self.broken = true;
        self
    }

    /// With other metadata.
    #[must_use]
    pub const fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Linked with a shared library.
    #[must_use]
    pub fn library(mut self, library: Self) -> Self {
        self.library = Some(Box::new(library));
        self.dynamic = true;
        self
    }

    /// Compiled with further flags.
    #[must_use]
    pub const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    /// Never linked statically.
    #[must_use]
    pub const fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    /// The source's name without directories and suffix.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let file = self.source.rsplit('/').next().unwrap_or(self.source);
        file.split('.').next().unwrap_or(file)
    }
}
