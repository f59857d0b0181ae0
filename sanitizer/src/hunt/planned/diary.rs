//! What has happened since the planner was asked last, in the engine's terms, and the same in the planner's.

use std::time::Duration;

use crate::hunt::{
    plan::event::{AddressId, LetGo, Partner, SiteId, StallEnd, VariableId, What},
    strategy::{CodeView, Conflict, Outcome},
};

use super::code::Code;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Diary {
    entries: Vec<Entry>,
    /// How long the stall has lasted whose outcome comes next.
    lasted: Duration,
    /// For how long it was waited in vain, if not until the time was over.
    waited: Option<Duration>,
}

#[derive(Debug)]
enum Entry {
    Came {
        site: SiteId,
        waited: Duration,
    },
    Passed {
        site: SiteId,
    },
    About {
        site: SiteId,
        address: AddressId,
    },
    Outcome {
        site: SiteId,
        outcome: Outcome,
        lasted: Duration,
        waited: Option<Duration>,
        /// Of those who have used the bytes: the ones that are told of later.
        others: Vec<Conflict>,
    },
    Ahead {
        site: SiteId,
        address: AddressId,
        lasted: Duration,
        users: Vec<Conflict>,
    },
    Watched {
        variable: u64,
        lasted: Duration,
        writers: Vec<Conflict>,
    },
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The site that was waited at, if one was, and for how long.
    pub(super) wait: Option<(SiteId, Duration)>,
    /// How long bytes were to be watched.
    pub(super) look: Duration,
}

impl Diary {
    pub(super) fn came(&mut self, site: SiteId, waited: Duration) {
        self.entries.push(Entry::Came { site, waited });
    }

    pub(super) fn passed(&mut self, site: SiteId) {
        self.entries.push(Entry::Passed { site });
    }

    pub(super) fn about(&mut self, site: SiteId, address: AddressId) {
        self.entries.push(Entry::About { site, address });
    }

    pub(super) const fn stalled(&mut self, lasted: Duration) {
        self.lasted = lasted;
    }

    pub(super) const fn waited(&mut self, time: Duration) {
        self.waited = Some(time);
    }

    /// What was seen of an address in advance.
    pub(super) fn watched_ahead(
        &mut self,
        site: SiteId,
        address: AddressId,
        lasted: Duration,
        users: &[Conflict],
    ) {
        self.entries.push(Entry::Ahead {
            site,
            address,
            lasted,
            users: users.to_vec(),
        });
    }

    pub(super) fn outcome(&mut self, site: SiteId, outcome: Outcome) {
        self.entries.push(Entry::Outcome {
            site,
            outcome,
            lasted: std::mem::take(&mut self.lasted),
            waited: self.waited.take(),
            others: Vec::new(),
        });
    }

    /// Another one was seen to use the bytes of which it was told last.
    pub(super) fn uses(&mut self, other: Conflict) {
        if let Some(Entry::Outcome { others, .. }) = self.entries.last_mut() {
            others.push(other);
        }
    }

    pub(super) fn watched(&mut self, variable: u64, lasted: Duration, writers: &[Conflict]) {
        self.entries.push(Entry::Watched {
            variable,
            lasted,
            writers: writers.to_vec(),
        });
    }

    /// All of it, in the planner's terms; it is empty then.
    pub(super) fn tell(&mut self, asked: Asked, code: &mut Code, view: &dyn CodeView) -> Vec<What> {
        let mut told = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            match entry {
                Entry::Came { site, waited } => told.push(What::Came { site, waited }),
                Entry::Passed { site } => told.push(What::LetGo {
                    site,
                    why: LetGo::Wanted,
                }),
                Entry::About { site, address } => told.push(What::About { site, address }),
                Entry::Outcome {
                    site,
                    outcome,
                    lasted,
                    waited,
                    others,
                } => {
                    let asked = Asked {
                        wait: (asked.wait).map(|(site, most)| (site, waited.unwrap_or(most))),
                        ..asked
                    };
                    let mut partners = |first: Conflict| {
                        let all = std::iter::once(first).chain(others.iter().copied());
                        all.map(|conflict| partner(conflict, code, view)).collect()
                    };
                    tell_outcome(site, outcome, lasted, asked, &mut partners, &mut told);
                }
                Entry::Ahead {
                    site,
                    address,
                    lasted,
                    users,
                } => {
                    let users = users.into_iter();
                    told.push(What::Passed {
                        site,
                        address,
                        lasted,
                        users: users.map(|user| partner(user, code, view)).collect(),
                    });
                }
                Entry::Watched {
                    variable,
                    lasted,
                    writers,
                } => {
                    let writers = writers.into_iter();
                    let writers = writers.map(|writer| partner(writer, code, view));
                    told.push(What::Watched {
                        variable: VariableId(variable),
                        lasted,
                        writers: writers.collect(),
                    });
                }
            }
        }
        told
    }
}

fn partner(conflict: Conflict, code: &mut Code, view: &dyn CodeView) -> Partner {
    Partner {
        site: code.site_of(conflict, view),
        after: conflict.distance,
    }
}

/// What came of a site, told in the planner's terms.
fn tell_outcome(
    site: SiteId,
    outcome: Outcome,
    lasted: Duration,
    asked: Asked,
    partners: &mut dyn FnMut(Conflict) -> Vec<Partner>,
    told: &mut Vec<What>,
) {
    let waited = asked.wait.filter(|(at, _)| *at == site);
    let has_come = told
        .iter()
        .any(|what| matches!(what, What::Came { site: at, .. } if *at == site));
    // Whoever came while it was waited was let pass.
    if matches!(
        outcome,
        Outcome::Held | Outcome::TooOften | Outcome::Unsuitable
    ) && let Some((site, waited)) = waited
        && !has_come
    {
        told.push(What::Came { site, waited });
    }
    let held = |end| What::Held { site, lasted, end };
    let looked = |users, is_private| What::Looked {
        site,
        lasted: asked.look,
        users,
        is_private,
    };
    let let_go = |why| What::LetGo { site, why };
    told.push(match outcome {
        Outcome::NotReached => match waited {
            Some((site, waited)) => What::Nobody { site, waited },
            None => let_go(LetGo::Wanted),
        },
        Outcome::Held => let_go(LetGo::HoldsLock),
        Outcome::TooOften | Outcome::Unsuitable | Outcome::KnownPrivate => {
            let_go(LetGo::Unsuitable)
        }
        Outcome::Beside | Outcome::Blind => let_go(LetGo::Wanted),
        Outcome::Quiet => held(StallEnd::Quiet),
        Outcome::Locked => held(StallEnd::Locked),
        Outcome::Hit(first) => held(StallEnd::Hit(partners(first))),
        Outcome::Repeat => held(StallEnd::Known(Vec::new())),
        Outcome::Shared(first) => looked(partners(first), false),
        Outcome::Private => looked(Vec::new(), true),
        Outcome::Unused => looked(Vec::new(), false),
    });
}
