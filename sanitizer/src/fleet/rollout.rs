//! Which machines watch at all, where not all shall: `rollout = "5%"` takes always the same ones, and those of 5 % are among those of 10 %.

use sha2::{Digest as _, Sha256};

/// Keeps this choice apart from others that are made by the same name.
const PURPOSE: &[u8] = b"gwp-race rollout\0";

/// Whether a machine is one of this share of all. `machine`: what is its own, such as the line of `/etc/machine-id` (machine-id(5)),
/// which is hashed, as that page asks for.
#[must_use]
pub fn takes_part(machine: &str, share: f64) -> bool {
    let digest = Sha256::new()
        .chain_update(PURPOSE)
        .chain_update(machine.trim().as_bytes())
        .finalize();
    let number = digest
        .iter()
        .take(size_of::<u64>())
        .fold(0, |number, &byte| number << 8 | u64::from(byte));
    // What is lost to rounding is one machine of 2^53.
    (number as f64) < share * 2f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that about as many machines take part as are wanted, that those stay when more do, and that all and none are that.
    #[test]
    fn shares_of_machines() {
        let machines: Vec<String> = (0..10_000).map(|id| format!("{id:032x}\n")).collect();
        let taken = |share| machines.iter().filter(move |id| takes_part(id, share));
        for share in [0.01, 0.05, 0.5] {
            let count = taken(share).count() as f64 / machines.len() as f64;
            assert!((count - share).abs() < 0.015, "{share} {count}");
        }
        assert!(taken(0.05).all(|id| takes_part(id, 0.1)));
        assert_eq!(taken(1.0).count(), machines.len());
        assert_eq!(taken(0.0).count(), 0);
        assert_eq!(takes_part("ab", 0.5), takes_part("ab\n", 0.5));
    }
}
