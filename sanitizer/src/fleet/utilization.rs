//! How much of a machine's processors is used, by whatever: the line `cpu` of `/proc/stat` (proc_stat(5)).
//!
//! Work takes from a program what the program would have had of a processor: on a machine that is half idle that is half as much as on one that is not.

use std::time::Duration;

/// Time after which a third of what was seen before counts.
const FADES: Duration = Duration::from_secs(10);

/// Clock ticks of all processors since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    used: u64,
    all: u64,
}

impl Ticks {
    /// Reads them from the text of `/proc/stat`; nothing where it is of another form.
    fn of(text: &str) -> Option<Self> {
        /// The fields `idle` and `iowait`, and how many there are before `guest`, whose time is in `user` as well.
        const IDLE: [usize; 2] = [3, 4];
        const FIELDS: usize = 8;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let mut ticks = Self { used: 0, all: 0 };
        for (field, number) in line.split_ascii_whitespace().take(FIELDS).enumerate() {
            let number: u64 = number.parse().ok()?;
            ticks.all = ticks.all.checked_add(number)?;
            ticks.used += if IDLE.contains(&field) { 0 } else { number };
        }
        (ticks.all > 0).then_some(ticks)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilization {
    last: Option<(Duration, Ticks)>,
    used: Option<f64>,
}

impl Utilization {
    /// Takes a look: the text of `/proc/stat`, and the time, since any fixed moment.
    pub fn look(&mut self, now: Duration, text: &str) {
        let Some(ticks) = Ticks::of(text) else {
            *self = Self::default();
            return;
        };
        let Some((then, last)) = self.last.replace((now, ticks)) else {
            return;
        };
        // Processors that are taken away take their ticks with them.
        let new = (ticks.used.checked_sub(last.used)).zip(ticks.all.checked_sub(last.all));
        let Some((used, all)) = new.filter(|(used, all)| *all > 0 && used <= all) else {
            return;
        };
        let share = used as f64 / all as f64;
        let before = self.used.unwrap_or(share);
        let left = (-now.saturating_sub(then).as_secs_f64() / FADES.as_secs_f64()).exp();
        self.used = Some(left * before + (1.0 - left) * share);
    }

    /// The part of the processors that is used, from 0 to 1; all of them as long as that is not known.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.used.unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Check that time in which nothing ran is not counted, nor that of guests twice, and that what was seen last counts most.
    #[test]
    fn what_is_used() {
        let mut one = Utilization::default();
        assert_eq!(one.used(), 1.0);
        // user nice system idle iowait irq softirq steal guest guest_nice
        one.look(secs(0), "cpu  100 0 0 900 0 0 0 0 50 0\ncpu0 1 2 3 4\n");
        assert_eq!(one.used(), 1.0);
        one.look(secs(1), "cpu  110 5 5 970 5 1 2 2 90 0\n");
        assert!((one.used() - 0.25).abs() < 1e-9, "{}", one.used());
        let mut ticks = 110;
        for second in 2..60 {
            ticks += 100;
            one.look(
                secs(second),
                &format!("cpu  {ticks} 5 5 970 5 1 2 2 90 0\n"),
            );
        }
        assert!(one.used() > 0.99 && one.used() <= 1.0, "{}", one.used());
    }

    /// Check that this machine's form is known, that others are not, and that ticks which are taken back count for nothing.
    #[test]
    fn forms() {
        let text = std::fs::read_to_string("/proc/stat").unwrap();
        assert!(Ticks::of(&text).is_some());
        for other in [
            "",
            "cpu0 1 2 3 4\n",
            "cpu  1 x 3 4\n",
            "cpu  0 0 0 0\n",
            "cpu  -1 2 3 4\n",
        ] {
            assert_eq!(Ticks::of(other), None, "{other}");
        }
        let mut one = Utilization::default();
        one.look(secs(0), "cpu  100 0 0 100 0 0 0 0 0 0\n");
        one.look(secs(1), "cpu  150 0 0 150 0 0 0 0 0 0\n");
        let before = one.used();
        one.look(secs(2), "cpu  90 0 0 190 0 0 0 0 0 0\n");
        assert_eq!(one.used(), before);
        one.look(secs(3), "");
        assert_eq!(one.used(), 1.0);
    }
}
