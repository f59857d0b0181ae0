//! What is known of a file once it was looked at: plain data, of which whoever asks it further keeps a copy.

use serde::{Deserialize, Serialize};

/// What is known of a file once it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
    /// The lowest and the first-past-highest address of its segments.
    pub range: Option<(u64, u64)>,
    /// The first and the first-past-last address of segments that may be executed.
    pub code: Vec<(u64, u64)>,
}

impl Facts {
    /// Whether an address is in a segment that may be executed.
    pub(super) fn is_code(&self, addr: u64) -> bool {
        let mut code = self.code.iter();
        code.any(|&(start, end)| start <= addr && addr < end)
    }
}
