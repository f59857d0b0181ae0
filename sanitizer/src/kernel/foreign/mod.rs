//! Files whose names watched programs choose: what they have mapped or execute, and the debug files, packages and interpreters
//! that such files name.
//!
//! Whoever may name a file must not have this process do anything for him: open a device (which may start a watchdog, or make a
//! terminal ours), a FIFO, an interface of the kernel (`/proc/self/mem`, `trace_pipe`), a file of ours that only has the same name,
//! or wait for a file system that he serves himself. So
//!
//! - a name is looked up in the [root](Root) of the process that chose it, one part after the other, each by a descriptor that only
//!   marks a place (`O_PATH`); links, absolute ones and `..` included, never lead out of it. There is no second try in ours;
//! - at each step the mount is known before anything in it is asked, and the step is the last one where its file
//!   system (`mounts`) is not one that holds plain files. (openat2(2) with `RESOLVE_IN_ROOT` keeps to the root as well, but
//!   walks through all mounts there are and waits for their answers, and filters of system calls often forbid it);
//! - only a regular file is then opened for reading, through its descriptor, so that it is the one which was looked at, and
//!   without waiting (`O_NONBLOCK`: another process may hold a lease) or becoming anybody's terminal (`O_NOCTTY`).

mod about;
mod error;
mod file;
mod mounts;
mod root;
#[cfg(test)]
pub(crate) mod testing;
mod via;

pub use about::{About, FileIdentity};
pub use error::ForeignError;
pub use file::{ForeignFile, Purpose};
pub use root::Root;
pub use via::Via;
