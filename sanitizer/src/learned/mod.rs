//! What is learned of the functions of programs: counts that add up, in the one form in which they are [kept](crate::ledger), sent by hosts, summed in a [store](crate::store) and told again to hosts (pure).
//!
//! It says where to look first, and nothing else: whoever takes it from others checks that it can be something at all, and bounds it. What is wrong in a way that nobody can see costs time.

mod decay;
mod function;
mod module;
mod share;

pub use decay::{Decay, HALF_LIFE};
pub use function::{COUNTED, KnownFunction, MOST_OF_FUNCTION, Parts, Raced, Sites, parts, values};
pub use module::Module;
pub use share::{Learned, MOST_FUNCTIONS, MOST_LEARNED, Unfit, check};
