//! What the program behind the kernel's probes that stand shares with the gates, of whose object it is: maps, by their descriptors.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use aya::{Ebpf, maps::Map};

use super::{Gates, Home};

/// The maps that `probe_gate` names.
const NAMES: [&str; 4] = ["CONTROL", "EVENTS", "PROBED", "STANDING"];

/// See the module.
pub(super) struct Lent(Vec<(&'static str, OwnedFd)>);

impl Lent {
    /// Descriptors of those maps, which must not have been taken yet.
    ///
    /// # Errors
    /// Names the map that is missing, or that cannot be had twice.
    pub(super) fn of(ebpf: &Ebpf) -> Result<Self, String> {
        let descriptor = |name: &'static str| {
            let fd = match ebpf.map(name) {
                Some(Map::Array(data) | Map::RingBuf(data)) => data.fd().as_fd(),
                _ => return Err(format!("{name}: the object has no such map")),
            };
            let owned = fd.try_clone_to_owned();
            owned
                .map(|fd| (name, fd))
                .map_err(|cause| format!("{name}: {cause}"))
        };
        NAMES
            .into_iter()
            .map(descriptor)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Gates {
    /// The maps of the gates that the program behind the probes uses, by name; none where there are no gates.
    pub(in crate::kernel) fn lent(&self) -> Vec<(&'static str, RawFd)> {
        match &self.home {
            Home::Kernel(programs) => {
                let maps = programs.lent.0.iter();
                maps.map(|(name, fd)| (*name, fd.as_raw_fd())).collect()
            }
            Home::UserSpace(_) => Vec::new(),
        }
    }
}
