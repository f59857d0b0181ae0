//! How far a tracer may be told to go. The command line refuses what is beyond that with words about its options; the tracer refuses it once
//! more, since it can be started by anybody, with any [`Setup`].

use std::{ops::RangeInclusive, time::Duration};

use super::wire::Setup;

/// Where accesses are far apart, stalls may be so many times as long as the user's `--stall`.
const LONGER_STALLS: u32 = 10;
/// CPU time of a thread between two clock samples.
pub const SAMPLE_PERIOD: RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(3600);
/// How long a thread is stalled before an access, as a rule.
pub const STALL: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_millis(10);
/// How long a thread may be held when the tracer hangs: above the longest stall, so that the watchdog never ends one that goes by the rules.
pub const STOP_DEADLINE: RangeInclusive<Duration> =
    Duration::from_millis(15)..=Duration::from_secs(10);

/// Processes that one tracer watches at a time.
pub const SLOTS: RangeInclusive<u8> = 1..=8;

/// Whether sampling may cost such a share of the target's CPU time.
#[must_use]
pub fn is_share(share: f64) -> bool {
    share > 0.0 && share <= 1.0
}

/// Whether a deadline by which a watchdog is to go is beyond the bounds, in words that end with what to do.
///
/// # Errors
/// That is the error.
pub fn check_deadline(ns: u64) -> Result<(), String> {
    check_time("a stop deadline", Some(ns), &STOP_DEADLINE)
}

/// The same of the number of a tracer's slots.
///
/// # Errors
/// That is the error.
pub fn check_slots(slots: u8) -> Result<(), String> {
    if SLOTS.contains(&slots) {
        return Ok(());
    }
    Err(format!(
        "no tracer begins with {slots} slots; give {} to {}",
        SLOTS.start(),
        SLOTS.end()
    ))
}

fn check_time(
    what: &str,
    ns: Option<u64>,
    bounds: &RangeInclusive<Duration>,
) -> Result<(), String> {
    let time = ns.map(Duration::from_nanos);
    let Some(time) = time.filter(|time| !bounds.contains(time)) else {
        return Ok(());
    };
    let [least, most, time] = [*bounds.start(), *bounds.end(), time]
        .map(|time| humantime::format_duration(time).to_string());
    Err(format!(
        "no tracer begins with {what} of {time}; give one from {least} to {most}"
    ))
}

/// What of a setup is beyond the bounds, in words that end with what to do. `deadline`: the one by which the tracer's watchdog goes.
///
/// # Errors
/// That is the error.
pub fn check(setup: &Setup, deadline: Duration) -> Result<(), String> {
    check_time("a sample period", setup.sample_period_ns, &SAMPLE_PERIOD)?;
    check_time("a stall", Some(setup.stall_ns), &STALL)?;
    check_deadline(setup.stop_deadline_ns)?;
    if Duration::from_nanos(setup.stop_deadline_ns) != deadline {
        return Err(format!(
            "no tracer begins with another stop deadline than its watchdog; give {}",
            humantime::format_duration(deadline)
        ));
    }
    if !is_share(setup.max_overhead) {
        return Err(format!(
            "no tracer begins with a budget of {}; give a share above 0 and up to 1",
            setup.max_overhead
        ));
    }
    Ok(())
}

/// The longest stall that a strategy may have: within the watchdog's deadline, which also has to hold what
/// comes before and after.
#[must_use]
pub fn longest_stall(setup: &Setup) -> Duration {
    let usual = Duration::from_nanos(setup.stall_ns);
    let deadline = Duration::from_nanos(setup.stop_deadline_ns);
    usual
        .saturating_mul(LONGER_STALLS)
        .min(deadline / 2)
        .max(usual)
}

/// How long after its claim a thread's stall ends, at the latest: something of the watchdog's deadline is left for what comes after.
#[must_use]
pub fn latest_end(setup: &Setup) -> Duration {
    Duration::from_nanos(setup.stop_deadline_ns / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what the command line's defaults come to is within the bounds, and that nothing beyond them is, whatever it is.
    #[test]
    fn nothing_is_beyond() {
        const DEADLINE: Duration = Duration::from_millis(20);
        assert_eq!(check(&Setup::usual(1), DEADLINE), Ok(()));
        assert!(check_deadline(u64::MAX).is_err());
        type Change = fn(&mut Setup);
        let beyond: [(&str, Change); 10] = [
            ("stall", |setup| setup.stall_ns = 3_600_000_000_000),
            ("stall", |setup| setup.stall_ns = u64::MAX),
            ("stall", |setup| setup.stall_ns = 0),
            ("deadline", |setup| setup.stop_deadline_ns = u64::MAX),
            ("deadline", |setup| setup.stop_deadline_ns = 1),
            ("deadline", |setup| setup.stop_deadline_ns *= 2),
            ("period", |setup| setup.sample_period_ns = Some(1)),
            ("budget", |setup| setup.max_overhead = 1.5),
            ("budget", |setup| setup.max_overhead = f64::NAN),
            ("budget", |setup| setup.max_overhead = f64::INFINITY),
        ];
        for (what, change) in beyond {
            let mut setup = Setup::usual(1);
            change(&mut setup);
            let error = check(&setup, DEADLINE).unwrap_err();
            assert!(error.contains(what) && error.contains("give "), "{error}");
        }
    }
}
