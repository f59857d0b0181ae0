//! The forms of lists.

/// In which form a command lists what it has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ListForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
