//! Many processes of one machine, watched a few at a time: which of them at all ([`rule`], [`verdict`]), when and for how long ([`schedule`]),
//! out of whose purse ([`purse`]), and which builds are left alone because they do not bear it ([`breaker`]).
//!
//! All of this is pure: no clock, no kernel, no files. Whoever carries it out says what time it is and what has happened, and is told what to do;
//! so days of a machine are simulated in seconds.

pub mod breaker;
pub mod pressure;
pub mod process;
pub mod purse;
pub mod rollout;
pub mod rule;
pub mod schedule;
pub mod settings;
pub mod utilization;
pub mod verdict;
