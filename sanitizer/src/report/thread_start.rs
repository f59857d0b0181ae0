//! What a thread runs: the routine with which it was started. Threads of a pool often have one name.

use super::model::{StackFrame, ThreadStart};
use super::own_code::is_own;

/// The routine with which a thread was started: the outermost function of the user's own code, on a stack that is known to its end.
#[must_use]
pub fn thread_start(stack: &[StackFrame], is_truncated: bool) -> Option<ThreadStart> {
    // Something must stand below it: a stack that ends in it may be one that could not be unwound further.
    let outer = stack
        .iter()
        .rev()
        .take_while(|frame| !is_own(frame))
        .count();
    if is_truncated || outer == 0 {
        return None;
    }
    let frame = stack.get(..stack.len() - outer)?.last()?;
    Some(ThreadStart {
        function: frame.function.clone()?,
        file: frame.file.clone(),
        line: frame.function_line.or(frame.line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, function: &str, line: u32) -> StackFrame {
        StackFrame {
            module: Some(module.to_owned()),
            function: Some(function.to_owned()),
            file: (line > 0).then(|| "/src/app.c".to_owned()),
            line: (line > 0).then_some(line),
            function_line: (line > 0).then(|| line - 3),
            ..StackFrame::default()
        }
    }

    /// Check that it is the function that the C library calls, with the line of its declaration, and nothing where the stack has no end.
    #[test]
    fn routines() {
        let mut stack = vec![
            frame("/t/app", "bump", 13),
            frame("/t/app", "serve", 23),
            frame("/lib/libc.so.6", "start_thread", 0),
            frame("/lib/libc.so.6", "clone3", 0),
        ];
        let start = thread_start(&stack, false).unwrap();
        assert_eq!((start.function.as_str(), start.line), ("serve", Some(20)));
        assert_eq!(thread_start(&stack, true), None);
        stack.truncate(2);
        assert_eq!(thread_start(&stack, false), None);
        assert_eq!(thread_start(&[], false), None);
    }
}
