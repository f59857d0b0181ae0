//! Who is there to take what is found.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// A collector of gwp-race, which takes messages.
    pub messages: bool,
    /// One of OpenTelemetry, which takes events.
    pub events: bool,
}

impl Default for Wants {
    fn default() -> Self {
        Self {
            messages: true,
            events: false,
        }
    }
}
