//! Bytes of a simulated program that several threads come to.

use crate::hunt::plan::event::{AddressId, VariableId};

/// Bytes that are used again and again: so many addresses, each as often as any other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    pub(super) first: u64,
    pub(super) count: u32,
    /// How likely it is that a thread that comes to a site is about to access one of them. What it accesses else nobody accesses again.
    pub share: f64,
}

impl Area {
    /// Where a variable is.
    #[must_use]
    pub const fn of(variable: VariableId) -> Self {
        Self {
            first: variable.0,
            count: 1,
            share: 1.0,
        }
    }

    /// The same addresses, of which one is at hand so often.
    #[must_use]
    pub const fn shared(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// One of the addresses.
    #[must_use]
    pub const fn address(self, index: u32) -> AddressId {
        AddressId(self.first + (index % self.count) as u64)
    }

    /// One of them by chance.
    pub(super) fn draw(self, random: &mut fastrand::Rng) -> AddressId {
        self.address(random.u32(..self.count))
    }

    /// How likely a thread that comes is about to access this.
    #[must_use]
    pub fn chance(self, address: AddressId) -> f64 {
        let addresses = self.first..self.first + u64::from(self.count);
        if addresses.contains(&address.0) {
            self.share / f64::from(self.count)
        } else {
            0.0
        }
    }
}
