//! Who has been sent away: a password or a token that is none is told in the log, so that guessing is seen; for each address once in a while, with how many there were since, so that who guesses does not fill it.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::report::clean::clean;

/// An address is told at most this often.
const PERIOD: Duration = Duration::from_secs(60);
/// Addresses that are remembered; further ones are one together.
const MOST: usize = 1024;
/// Characters of a name that are told.
const MOST_OF_NAME: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<IpAddr, Since>>);

/// What was told of an address.
#[derive(Clone, Copy, Debug)]
struct Since {
    told: Instant,
    untold: u64,
}

/// Whoever has one address of version 6 has very many beside it: all that have its first 64 bits are one.
fn place_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        other => other,
    }
}

impl Attempts {
    /// Somebody was sent away who said he was this one, or did not say, with something (`what`) that is none of ours: tells it, if it is time to.
    pub(crate) fn tell(&self, from: Option<IpAddr>, name: Option<&str>, what: &str) {
        let place = from.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let Some(others) = self.note(place, Instant::now()) else {
            return;
        };
        let from = from.map_or_else(|| "an unknown address".to_owned(), |from| from.to_string());
        let name = name.map_or_else(String::new, |name| {
            let name: String = name.chars().take(MOST_OF_NAME).collect();
            format!(" as \"{}\"", clean(&name))
        });
        let others = match others {
            0 => String::new(),
            others => format!(", and {others} more from there since the last warning"),
        };
        tracing::warn!("somebody at {from} was sent away{name}, with {what} that is none{others}");
    }

    /// How many others there were since something was told of an address, where it is to be told again.
    fn note(&self, address: IpAddr, now: Instant) -> Option<u64> {
        let is_recent = |since: &Since| now.saturating_duration_since(since.told) < PERIOD;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = place_of(address);
        if all.len() >= MOST && !all.contains_key(&place) {
            all.retain(|_, since| is_recent(since));
            if all.len() >= MOST {
                place = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        match all.get_mut(&place) {
            Some(since) if is_recent(since) => {
                since.untold += 1;
                None
            }
            before => {
                let untold = before.map_or(0, |since| since.untold);
                let told = Since {
                    told: now,
                    untold: 0,
                };
                all.insert(place, told);
                Some(untold)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that an address is told once in a while with what came between, each by itself, and that very many take no more memory, nor fill the log.
    #[test]
    fn addresses_are_told_once_in_a_while() {
        let attempts = Attempts::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        assert_eq!(attempts.note(one, at(0)), Some(0));
        for _ in 0..5 {
            assert_eq!(attempts.note(one, at(59)), None);
        }
        assert_eq!(attempts.note(other, at(59)), Some(0));
        assert_eq!(attempts.note(one, at(60)), Some(5));
        assert_eq!(attempts.note(one, at(61)), None);
        // One who has many addresses.
        let of_one = |last: u128| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) | last));
        assert_eq!(attempts.note(of_one(1), at(61)), Some(0));
        assert_eq!(attempts.note(of_one(2), at(61)), None);
        assert_eq!(
            attempts.note("::ffff:192.0.2.2".parse().unwrap(), at(61)),
            None
        );
        let all = (0..1 << 12).map(|last| IpAddr::from([10, 0, (last >> 8) as u8, last as u8]));
        let told = all.filter_map(|address| attempts.note(address, at(62)));
        assert!(told.count() <= MOST);
        assert!(attempts.0.lock().unwrap().len() <= MOST + 1);
        assert_eq!(attempts.note(other, at(122)), Some(1));
    }
}
