//! The world: simulated programs, in which hours pass in seconds and the same seed gives the same hunt.
//!
//! A program is a list of access sites ([`program`]), some of which meet others at the same bytes; [`families`] has one for each way in which
//! races hide. [`simulation`] does what a planner decides, and tells it what a real engine would; [`costs`] says what that takes
//! on a machine; [`population`] says what of a program executes on which machine, and [`lease`] watches one by turns. Beside the planner there are those it is compared with: a choice by chance ([`uniform`]), and an [`oracle`] that knows the truth; and the planner as the engine has it ([`wired`]).
//!
//! Nothing of it is called when gwp-race runs. It is here for tests, and for `cargo xtask bench world`.

mod account;
mod area;
mod arrival;
pub mod comparison;
pub mod costs;
mod crowds;
pub mod families;
pub mod fleet;
pub mod image;
mod large;
pub mod lease;
mod meanwhile;
pub mod oracle;
pub mod population;
mod preempted;
mod probed;
mod profile;
pub mod program;
pub mod replay;
pub mod report;
mod scene;
pub mod simulation;
mod small;
mod standing;
mod stop;
mod surroundings;
pub mod trace;
pub mod uniform;
mod wait;
pub mod wired;

#[cfg(test)]
mod clocks;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod tests;
