//! What is thought of a program before anything was seen of it. All numbers of the planner's model stand here, and nowhere else.
//!
//! Probabilities are given as log-odds: 0 is one half, 2.2 is 90 %, -2.2 is 10 %. A weight says how many observations a prior counts for.

/// One number, and what it means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// In what.
    pub unit: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

macro_rules! priors {
    ($($name:ident = $value:expr, $unit:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning]
        pub const $name: f64 = $value;)*
        /// All of them, in order.
        pub const ALL: &[Prior] = &[$(Prior {
            name: stringify!($name),
            value: $value,
            unit: $unit,
            meaning: $meaning,
        }),*];
    };
}

priors! {
    COMES_BESIDE = 1.5, "log-odds", "Somebody comes within a first wait to a site right beside which a thread was seen.";
    COMES_EXECUTES = 0.0, "log-odds", "The same, where a thread was seen in the function.";
    COMES_UNSEEN = -3.0, "log-odds", "The same, where nobody was seen in the function.";
    COMES_WEIGHT = 4.0, "waits", "How many first waits in a class of sites these three count for.";
    FIRST_WAIT = 0.02, "s", "How long a site is waited at for the first time.";
    RATE_TIME = 0.01, "s", "For how long it counts as waited at a site before any wait; in that time as many came as make the three above true.";
    USED_NAMED = -1.5, "log-odds", "Another thread uses the variable that a site names.";
    USED_POINTER = -2.5, "log-odds", "Another thread uses the bytes to which a pointer leads.";
    USED_RELATED = 0.0, "log-odds", "Another thread uses the bytes of a site whose variable is shared or changes, or whose member has raced.";
    USED_WEIGHT = 0.7, "looks", "How many looks at a site these three, and what is learned of them, count for.";
    USED_POOL = 2.0, "sites", "How many sites the first two count for, where it is learned how many are used by others in this program.";
    USED_BY_NOBODY = 0.8, "looks", "How much of a look that speaks against others' use counts one in which nobody at all used the bytes.";
    RACES_READ = -1.0, "log-odds", "Nothing orders a read with another thread's write of the same bytes.";
    RACES_WRITE = -1.8, "log-odds", "The same of a write.";
    RACES_WEIGHT = 1.5, "sites", "How many sites like it these two count for, at each.";
    RACES_POOL = 8.0, "sites", "How many sites that read, or write, they count for, where it is learned how many of those race in this program.";
    RELATIVES = 0.3, "", "How much of a site that races, or shows an order, counts for others of its function, and for others of its variable or member.";
    RELATIVES_MOST = 3.0, "sites", "What relatives count for at most.";
    LOCKED = 0.5, "log-odds", "What a stall that a lock has ended says for an order.";
    CAUGHT = 4.0, "log-odds", "What a stall in which somebody was caught says against one.";
    MEETS_SHAPE = 0.3, "accesses", "How many accesses of others the prior of their rate counts for, where others use the bytes.";
    MEETS_TIME = 0.002, "s", "In how much time: 150 a second, which may be far off.";
    MEETS_POOL = 3.0, "sites", "How many sites that counts for, where it is learned how soon others come in this program.";
    PART = 0.0, "log-odds", "Where a site goes by a pointer and races: it does so at an address at which two threads meet.";
    PART_WEIGHT = 0.8, "stalls", "How many stalls that counts for.";
    MISSED = -1.5, "log-odds", "Others use the bytes before those can be watched, where they are not watched before a thread comes.";
    AT_HAND = -2.0, "log-odds", "A thread that comes to a site is about to access an address that two were seen to use there.";
    AT_HAND_WEIGHT = 0.3, "arrivals", "How many such threads that counts for.";
    USED_AGAIN = 0.0, "log-odds", "An address that two threads were seen to use is used by two again.";
    LATE_LOOK = 0.5, "", "How much of the time of a look in which nobody used the bytes counts as time in which others were late.";
    MORE = 0.5, "log-odds", "A site at which a race is known has another one.";
    YIELD = 0.3, "races", "Races that a site brings by and by, once others were seen to use its bytes.";
    YIELD_WEIGHT = 6.0, "sites", "How many such sites that counts for.";
    SAMPLE = 0.05, "races", "What comes of a thread that a sample has stopped, by and by.";
    SAMPLE_WEIGHT = 4.0, "samples", "How many samples that counts for.";
    PROFILE = 0.05, "sites", "Sites whose bytes others are seen to use, of each to which somebody is to be expected in a profile and of which nothing is known.";
    PROFILE_WEIGHT = 10.0, "sites", "How many such sites that counts for.";
    PROFILE_UNUSED = 0.5, "looks", "How much of a look that speaks against others' use counts a profile in which somebody came and met nobody.";
    PROFILE_MET = 0.1, "accesses", "How many of others' accesses one that was noted in a profile counts for, where it is learned how soon they come: who comes later is not seen in so short a time.";
    PROFILED = 0.3, "", "What a next profile tells of a site is worth so much of the last one, if somebody came in that.";
    PROFILED_NOBODY = 0.5, "", "The same, if nobody did.";
    PREEMPTED_TIME = 0.01, "s", "How long it takes to watch what a thread is about to access that is off its processor, which counts as much as a sample.";
    CHANGES = 0.5, "log-odds", "Who writes a variable that changes is seen in the first half second in which it is watched.";
    CHANGES_SHAPE = 0.5, "writes", "How many writes that counts for.";
    TRUST = 1.0, "races", "How many races have to be expected of choices of one kind, until what has come of them counts as much as the model.";
    NEW_CODE = 4.0, "sites", "How many untried sites of functions are thought about that were not there when the program was watched before, for each one of others.";
    UNTOLD = 0.2, "", "The part of the decisions that goes by nothing that was seen when the program was watched before.";
    COST_WAIT = 0.0005, "s", "What it costs of the budget to wait for somebody.";
    COST_STOP = 0.0015, "s", "What it costs to stop somebody, besides the time for which one stands.";
    COST_TRAP = 0.00001, "s", "What it costs when somebody is let pass, or uses what is watched.";
    COST_PROFILE = 0.0015, "s", "What a profile costs.";
    COST_WEIGHT = 4.0, "times", "How many times these count for.";
    HALF_LIFE = 900.0, "s", "The time in which half of what was seen is forgotten.";
}

/// Tells these numbers from others.
#[must_use]
pub fn fingerprint() -> u64 {
    /// The constants of FNV-1a of 64 bits (RFC 9923).
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let numbers = ALL.iter();
    let bytes = numbers.flat_map(|prior| {
        let value = prior.value.to_bits().to_le_bytes();
        prior.name.bytes().chain(value)
    });
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}
