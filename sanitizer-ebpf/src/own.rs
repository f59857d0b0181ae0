//! Memory that belongs to a thread alone, as far as its registers tell.
//!
//! Of its stack that is what stands around the stack pointer: the frame of the function that executes, and what that keeps below
//! (the red zone). What stands further up are variables of its callers, and who accesses one of those does so by a pointer: closures, parallel
//! loops, and threads that a function waits for reach its variables so, and other threads do as well.

/// How far above the stack pointer the frame reaches where the code does not tell, in bytes. Frames may be larger, but what is accessed by
/// a pointer so close is a temporary, as a rule.
pub const FRAME: u64 = 256;

/// How far below: the red zone, and some.
const BELOW: u64 = 256;

/// What stands above the thread pointer (`struct pthread`), and below it (static thread-local data), in bytes. On the stacks of threads that the C library has
/// made the frames of the first functions follow below.
const ABOVE_THREAD_POINTER: u64 = 4096;
const BELOW_THREAD_POINTER: u64 = 1024;

/// Whether an address is of memory that the thread uses alone whose stack pointer and thread pointer these are; the latter is 0 where
/// it is not known. So many bytes from the stack pointer up are its `frame`; 0 where others can reach what is accessed, or were seen to:
/// then it is not.
#[must_use]
#[inline(always)]
pub const fn is_own(address: u64, stack_pointer: u64, thread_pointer: u64, frame: u64) -> bool {
    // Both sides at once: below 0 wraps.
    let in_frame = address.wrapping_sub(stack_pointer).wrapping_add(BELOW);
    let is_in_frame = in_frame < BELOW.wrapping_add(frame);
    let by_thread = address
        .wrapping_sub(thread_pointer)
        .wrapping_add(BELOW_THREAD_POINTER);
    let is_thread_local =
        thread_pointer != 0 && by_thread < BELOW_THREAD_POINTER + ABOVE_THREAD_POINTER;
    frame > 0 && (is_in_frame || is_thread_local)
}
