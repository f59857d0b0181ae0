//! The copier: a process that asks file systems which other processes serve, so that nobody else does. Such a file system may fall
//! silent for ever, and whoever waits for it then, for a name, an open file, its bytes, or its closing, cannot be killed.
//!
//! The daemon's [`Copier`] starts it when first needed ([`serve()`]), and waits for each answer until a deadline. It asks whether
//! files carry metadata, or for copies of files, whose descriptors come over the socket: no descriptor of a served file is ever
//! open in the daemon. Headers of those files are told by a [reader](super::HeaderReader) of the copier's, which gets their bytes, and no
//! descriptor: it waits for nobody. A copier that does not answer is killed and left to the kernel, and its file system not asked again for a while.

mod client;
mod serve;
mod silent;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{Copier, CopierError};
pub use serve::serve;
pub use wire::Question;
