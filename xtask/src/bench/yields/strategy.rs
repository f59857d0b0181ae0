//! What is compared.

use std::fmt;

/// A way of choosing where to stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Strategy {
    /// As others do it: samples of CPU time, stalls of 100 us, nothing learned.
    Clock,
    /// What gwp-race does by itself: what the planner's model says is worth most.
    Planner,
}

impl Strategy {
    pub const ALL: [Self; 2] = [Self::Clock, Self::Planner];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Planner => "planner",
        }
    }

    /// What gwp-race is told, beside the budget.
    pub const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Clock => &["--strategy", "plain-clock", "--stall", "100us"],
            Self::Planner => &[],
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
