//! Memory that the allocator keeps although nobody uses it any more.

/// Gives back what was freed. The kernel's type information, from which offsets are taken once, is read into tens of thousands of small pieces. The GNU C library keeps them when they are freed
/// if anything that lasts lies above them, for as long as the process lives: 13 MiB of a tracer and its guard, and 15 of a fleet's daemon. Other C libraries have no such call.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) has no preconditions, and touches no piece that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
