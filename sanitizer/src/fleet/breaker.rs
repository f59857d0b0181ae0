//! The circuit breaker: a build whose processes end abnormally because they are watched is left alone.
//!
//! As long as none has ended abnormally during a lease or shortly after it, every lease is one. From the first such end on the build is on *trial*: a coin decides whether a process
//! gets the leases that it is given within some time, or is only looked at for as long (a *control*): all of them or none, so that an abnormal end belongs to one of both. Were leases harmless, each abnormal end would be in one of
//! them as often as in a control, however often the program ends so by itself, and whatever else happens to it: it is the coin that has made the difference. So the evidence that they are not is
//! the ratio of two probabilities, that of the ends that were seen if an abnormal end is `RATIOS` times as likely during a lease, and if it is as likely. A mixture of such ratios is a
//! martingale where leases are harmless, and stays below 1/a for ever with probability 1 - a at least (Ville's inequality; Robbins, "Statistical Methods Related to the Law of the
//! Iterated Logarithm", 1970; with one ratio it is the test of Wald, "Sequential Tests of Statistical Hypotheses", 1945). So one may look after each end.
//!
//! A trial ends when evidence is enough, when it speaks for harmlessness, or when nothing has come of it for a while. Later trials of the same build need more evidence, such that
//! all that there will ever be raise a false alarm with the same small probability.

use std::time::Duration;

/// How likely it may be that a harmless build is ever left alone.
const FALSE_ALARM: f64 = 1e-4;
/// How many times as likely an abnormal end is during a lease, where leases do harm. The last one: it is never seen otherwise.
const RATIOS: [f64; 4] = [2.0, 4.0, 16.0, f64::INFINITY];
/// How much each of them is believed before anything was seen. A program that always dies by a lease is what must be found soonest.
const WEIGHTS: [f64; 4] = [0.1, 0.15, 0.25, 0.5];
/// Evidence so small speaks for harmlessness.
const HARMLESS: f64 = 0.05;
/// After so many leases and controls in a row without an abnormal end, a trial is over.
const CALM: u32 = 40;
/// An abnormal end so long after a lease was given may have come from it: the longest one takes a minute, and another minute is for what comes of it later. The same time is
/// counted of controls, and of leases that were shorter, so that it is the coin alone that makes the difference.
pub const WINDOW: Duration = Duration::from_secs(120);

/// What becomes of a lease that a process was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// It gets it.
    Lease,
    /// It is looked at for as long, and nothing is done.
    Control,
}

/// A lease that a process was given, with what has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// See there.
    pub arm: Arm,
    /// The trial whose coin has decided that, where there was one. What was given before it is no evidence: it was always a lease.
    trial: Option<u32>,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing has happened.
    Closed,
    /// See the module.
    Trial {
        /// How likely is what was seen, by each of [`RATIOS`], against harmlessness.
        likelihoods: [f64; RATIOS.len()],
        /// Leases and controls since the last abnormal end.
        calm: u32,
    },
    /// It is left alone.
    Open,
}

/// That of one build.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    /// Trials that were begun.
    trials: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: State::Closed,
            trials: 0,
        }
    }
}

impl Breaker {
    /// What becomes of the next lease; nothing where the build is left alone. `coin`: a fair one, thrown for this lease alone. Other leases of the same process go the same way, without another coin, as long
    /// as [`Breaker::has_gone`] was not told of it.
    #[must_use]
    pub const fn next(&self, coin: bool) -> Option<Turn> {
        let (arm, trial) = match self.state {
            State::Open => return None,
            State::Closed => (Arm::Lease, None),
            State::Trial { .. } if coin => (Arm::Control, Some(self.trials)),
            State::Trial { .. } => (Arm::Lease, Some(self.trials)),
        };
        Some(Turn { arm, trial })
    }

    /// Whether the coin of the present trial has decided that.
    #[must_use]
    pub fn is_tried(&self, turn: Turn) -> bool {
        matches!(self.state, State::Trial { .. }) && turn.trial == Some(self.trials)
    }

    /// Takes note of how a lease or a control has gone: whether its process has ended abnormally within [`WINDOW`]. To be told once of each.
    pub fn has_gone(&mut self, turn: Turn, abnormally: bool) {
        let Turn { arm, trial } = turn;
        match &mut self.state {
            State::Closed if abnormally && arm == Arm::Lease => {
                self.trials = self.trials.saturating_add(1);
                self.state = State::Trial {
                    likelihoods: [1.0; RATIOS.len()],
                    calm: 0,
                };
            }
            State::Trial { likelihoods, calm } if trial == Some(self.trials) => {
                if abnormally {
                    *calm = 0;
                    for (likelihood, ratio) in likelihoods.iter_mut().zip(RATIOS) {
                        *likelihood *= factor(arm, ratio);
                    }
                } else {
                    *calm += 1;
                }
                let (evidence, is_calm) = (mixture(likelihoods), *calm >= CALM);
                if evidence >= enough(self.trials) {
                    self.state = State::Open;
                } else if evidence <= HARMLESS || is_calm {
                    self.state = State::Closed;
                }
            }
            State::Closed | State::Trial { .. } | State::Open => {}
        }
    }

    /// Whether the build is left alone.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Somebody says that it may be leased again.
    pub const fn reset(&mut self) {
        self.state = State::Closed;
    }
}

/// How much more likely it is that an abnormal end is in this arm, where it is so many times as likely in a lease.
fn factor(arm: Arm, ratio: f64) -> f64 {
    let in_control = 1.0 / (1.0 + ratio);
    let likely = match arm {
        Arm::Lease => 1.0 - in_control,
        Arm::Control => in_control,
    };
    2.0 * likely
}

fn mixture(likelihoods: &[f64]) -> f64 {
    let weighted = likelihoods.iter().zip(WEIGHTS);
    weighted
        .map(|(likelihood, weight)| likelihood * weight)
        .sum()
}

/// Evidence that is enough in a build's trial of this number, from 1: the chances of a false alarm are 6/(pi n)^2 of all, whose sum is all.
fn enough(trial: u32) -> f64 {
    let n = f64::from(trial.max(1));
    let share = 6.0 / (std::f64::consts::PI * n).powi(2);
    1.0 / (FALSE_ALARM * share)
}

#[cfg(test)]
mod tests;
