//! Whether a machine has too much to do to be watched: pressure stall information (`Documentation/accounting/psi.rst` of the kernel).

/// Shares of the last ten seconds in which some task had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// For a processor, in percent.
    pub cpu: f64,
    /// For memory, in percent.
    pub memory: f64,
}

/// Above so much nobody is watched, unless the configuration says otherwise, in percent: of time for processors, where half is nothing unusual on a machine that is well used, and for memory,
/// where a little hurts.
pub const HIGH: Pressure = Pressure {
    cpu: 80.0,
    memory: 10.0,
};
/// It goes on when both are below this share of it, so that it does not begin and end all the time.
const LOW: f64 = 0.5;

/// Reads `avg10` of the line `some` of a file of `/proc/pressure`, in percent; nothing where it is of another form.
#[must_use]
pub fn some_avg10(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = some.split(' ');
    let share: f64 = fields
        .find_map(|field| field.strip_prefix("avg10="))?
        .parse()
        .ok()?;
    (0.0..=100.0).contains(&share).then_some(share)
}

/// Whether it is too high, as of the last look.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    high: Pressure,
    is_high: bool,
}

impl Gauge {
    /// One that has not looked yet. Above `high` it is too high: nothing is above 100 %.
    #[must_use]
    pub const fn new(high: Pressure) -> Self {
        let is_high = false;
        Self { high, is_high }
    }

    /// Takes a look; whether pressure is too high now.
    pub fn look(&mut self, pressure: Pressure) -> bool {
        let factor = if self.is_high { LOW } else { 1.0 };
        let Pressure { cpu, memory } = self.high;
        self.is_high = pressure.cpu > cpu * factor || pressure.memory > memory * factor;
        self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the kernel's form, on this machine as well where it tells, and that other ones are nothing.
    #[test]
    fn the_kernels_form() {
        let text = "some avg10=12.34 avg60=0.00 avg300=0.00 total=1234\n\
                    full avg10=1.00 avg60=0.00 avg300=0.00 total=12\n";
        assert_eq!(some_avg10(text), Some(12.34));
        for other in [
            "",
            "some",
            "full avg10=1.00",
            "some avg10=x",
            "some avg10=-1",
            "some avg10=nan",
        ] {
            assert_eq!(some_avg10(other), None, "{other}");
        }
        if let Ok(text) = std::fs::read_to_string("/proc/pressure/cpu") {
            assert!(some_avg10(&text).is_some(), "{text}");
        }
    }

    /// Check that either kind is too high, and that it ends only when both are well below.
    #[test]
    fn high_and_low() {
        let of = |cpu, memory| Pressure { cpu, memory };
        let mut gauge = Gauge::new(HIGH);
        assert!(!gauge.look(of(80.0, 9.0)));
        assert!(gauge.look(of(80.1, 0.0)));
        assert!(gauge.look(of(41.0, 0.0)));
        assert!(!gauge.look(of(39.0, 4.0)));
        assert!(gauge.look(of(0.0, 10.1)));
        assert!(gauge.look(of(0.0, 6.0)));
        assert!(!gauge.look(of(0.0, 4.9)));
        let mut never = Gauge::new(of(100.0, 100.0));
        assert!(!never.look(of(100.0, 100.0)));
    }
}
