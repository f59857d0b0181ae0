//! A live process, read from the outside through `/proc`: maps, modules, threads, memory.
//! Nothing here stops or changes the target. The formats are proc_pid_*(5)'s.

pub mod called;
pub mod container;
pub mod descendants;
pub mod error;
mod file_rights;
mod kept;
mod mapped_file;
pub mod maps;
pub mod memory;
pub mod memory_use;
pub mod modules;
pub mod process;
pub(crate) mod procfs;
pub mod signals;
pub mod status;
pub mod threads;
pub mod traced;

pub use error::TargetError;
pub use file_rights::file_rights;
pub use kept::KeptFiles;
pub use mapped_file::{CodeFile, CodeFiles, MappedFileError, ServedFile, code_files};
pub use maps::{Mapping, Maps};
pub use modules::{Module, Modules};

#[cfg(test)]
pub(crate) mod testing;
