//! What is learned beside the strategy: of memory and of locks, from whoever stands still.

mod lines;
mod quiet;
mod waited_for;

pub use lines::Lines;
pub use quiet::Quiet;
pub use waited_for::WaitedFor;

/// See the module.
#[derive(Debug, Default)]
pub struct Learned {
    /// Which lines of memory two threads were seen to use.
    pub lines: Lines,
    /// Where nobody came.
    pub quiet: Quiet,
    /// Locks for which threads have waited.
    pub locks: WaitedFor,
}

impl Learned {
    /// Programs change what they do, and memory is used for something else.
    pub fn decay(&mut self) {
        self.lines.decay();
        self.quiet.clear();
        self.locks.decay();
    }
}
