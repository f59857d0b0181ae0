//! Where the locks are that a thread has told the kernel of, so that it marks them when the thread ends holding them: get_robust_list(2).

use super::KernelError;
use super::fault;

/// The address of a thread's `struct robust_list_head` (`include/uapi/linux/futex.h`) in its own memory; 0 where it has none.
///
/// # Errors
/// Fails where the thread is gone, or may not be looked into.
pub fn head(tid: u32) -> Result<u64, KernelError> {
    const CALL: &str = "get_robust_list";
    let object = || format!("thread {tid}");
    fault::before(CALL, object)?;
    let (mut head, mut len) = (0_usize, 0_usize);
    // SAFETY: the kernel writes a pointer and a size, for which there is room, and nothing else.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            libc::c_long::from(tid),
            &raw mut head,
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(KernelError::last(CALL, object()));
    }
    Ok(head as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the C library's list is told of a thread, and an error of one that there is not.
    #[test]
    fn lists_of_threads() {
        let here = nix::unistd::gettid().as_raw().cast_unsigned();
        assert_ne!(head(here).expect("it is there"), 0);
        let error = head(i32::MAX.cast_unsigned()).expect_err("nobody has that id");
        assert_eq!(error.source.raw_os_error(), Some(libc::ESRCH));
    }
}
