//! What a session tells its user, once.

use tracing::{debug, warn};

use super::Session;
use crate::{cli::descendants::Descendants, kernel::settings::mend_gates};

impl Session {
    /// Said once, where it is so.
    pub(super) fn warn_of_no_metadata(&mut self) {
        let first = self.first;
        if self.first_was_watched
            && !self.has_analyzed
            && !self.no_metadata_is_told
            && self.summary().metadata_seen == Some(false)
        {
            self.no_metadata_is_told = true;
            let all = if self.descendants.is_some() {
                ", and of what it started until now"
            } else {
                ""
            };
            warn!(
                "nothing in process {first}{all} carries metadata, so no race can be found unless it loads something that does; compile it with \
                 clang -fexperimental-sanitize-metadata=atomics (see `gwp-race doctor {first}`)"
            );
        }
    }

    /// Said once: the tracers of children have the same rights.
    pub(super) fn warn_of_missing_gates(&mut self, refusal: &str) {
        debug!("{refusal}");
        if !std::mem::replace(&mut self.gates_are_missing, true) {
            warn!(
                "eBPF is not permitted here: gwp-race does in user space what its gates would do in \
                 the kernel, by the clock strategy alone, and finds less at the same cost; for the gates, {}",
                mend_gates()
            );
        }
    }

    /// Said once, where nobody may follow children in the kernel.
    pub(super) fn warn_of_search(&mut self) {
        let descendants = self.descendants.as_ref();
        let refusal = descendants
            .and_then(Descendants::refusal)
            .map(str::to_owned);
        if let Some(refusal) = refusal
            && !std::mem::replace(&mut self.search_is_told, true)
        {
            warn!(
                "what this program starts is looked for in /proc ten times a second, since eBPF cannot follow it here: children that \
                 live more shortly, and what they start, may be missed and are not counted ({refusal})"
            );
        }
    }
}
