//! Which frames are of the user's own code: what a language's library and its headers do for it is no place that anybody would look at or
//! could mend.

use super::model::{Access, StackFrame};
use super::names;

/// Where the headers and sources of languages' libraries are installed.
const FOLDERS: [&str; 4] = ["/usr/include/", "/usr/lib/", "/usr/lib64/", "/rustc/"];
/// The same, wherever a compiler was installed to.
const WITHIN: [&str; 4] = [
    "/include/c++/",
    "/lib/clang/",
    "/lib/gcc/",
    "/lib/rustlib/src/rust/",
];
/// The libraries themselves, by the beginnings of their names.
const LIBRARIES: [&str; 11] = [
    "libc.so",
    "libc-2.",
    "libm.so",
    "libpthread",
    "libstdc++.so",
    "libc++",
    "libgcc_s.so",
    "libstd-",
    "ld-linux",
    "ld-musl",
    "libc.musl",
];
/// The namespaces of their functions, for code without lines.
const NAMESPACES: [&str; 8] = [
    "std::",
    "core::",
    "alloc::",
    "__gnu_cxx::",
    "<std::",
    "<core::",
    "<alloc::",
    "__cxxabi",
];
/// With what a thread is created, and it or a program begins, in static programs too.
const BEGINNINGS: [&str; 12] = [
    "pthread_create",
    "__pthread_create",
    "__pthread_create_2_1",
    "__clone_internal",
    "_start",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "__libc_start_main",
    "__libc_start_call_main",
];

/// Whether a file is a library of a language.
pub(super) fn is_library(path: &str) -> bool {
    let module = names::module(path);
    LIBRARIES.iter().any(|name| module.starts_with(name))
}

/// Whether a frame is of the user's own code, as far as its file, module and name tell.
#[must_use]
pub fn is_own(frame: &StackFrame) -> bool {
    if frame.module.as_deref().is_some_and(is_library) {
        return false;
    }
    let function = frame.function.as_deref();
    if let Some(file) = frame.file.as_deref() {
        return !FOLDERS.iter().any(|folder| file.starts_with(folder))
            && !WITHIN.iter().any(|folder| file.contains(folder));
    }
    !function.is_some_and(|function| {
        BEGINNINGS.contains(&function)
            || function.starts_with("__libc_start_main_impl")
            || NAMESPACES.iter().any(|name| function.starts_with(name))
            || frame.is_memory_routine()
    })
}

/// The frame that a programmer would look at first: the innermost one of his own code, or the place of the access where none is known to be.
#[must_use]
pub fn own_place(access: &Access) -> Option<&StackFrame> {
    access.stack.get(own_frame(access)?)
}

/// Its number in the stack.
#[must_use]
pub fn own_frame(access: &Access) -> Option<usize> {
    let frames = access.stack.iter().enumerate();
    let mut inner = frames.skip(access.library_frames());
    // One without a name counts: its caller would stand for all races of what it calls.
    let own = inner.find(|(_, frame)| is_own(frame));
    // A race within a library that was itself built to be watched is the library's.
    own.map(|(number, _)| number)
        .or_else(|| access.site_number())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, function: &str, file: &str) -> StackFrame {
        StackFrame {
            module: Some(module.to_owned()),
            function: Some(function.to_owned()),
            file: (!file.is_empty()).then(|| file.to_owned()),
            ..StackFrame::default()
        }
    }

    /// Check frames of libraries, of their headers in a program, and of the user's own that look alike.
    #[test]
    fn whose_code() {
        for (module, function, file, expected) in [
            ("/t/app", "work", "/src/work.c", true),
            ("/usr/lib/shop/app", "work", "", true),
            (
                "/t/app",
                "std::vector<int>::at(unsigned long)",
                "/usr/include/c++/14/bits/stl_vector.h",
                false,
            ),
            (
                "/t/app",
                "std::atomic<int>::load()",
                "/usr/lib/gcc/x86_64-linux-gnu/14/../../include/c++/14/atomic",
                false,
            ),
            ("/t/app", "std::vector<int>::at(unsigned long)", "", false),
            (
                "/t/app",
                "core::cell::Cell<T>::set",
                "/rustc/abc/library/core/src/cell.rs",
                false,
            ),
            (
                "/t/app",
                "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
                "",
                false,
            ),
            ("/t/app", "alloc_table", "", true),
            ("/t/app", "start_thread", "", false),
            (
                "/usr/lib/x86_64-linux-gnu/libc.so.6",
                "start_thread",
                "./nptl/pthread_create.c",
                false,
            ),
            ("/usr/lib/x86_64-linux-gnu/libcache.so.6", "find", "", true),
        ] {
            assert_eq!(
                is_own(&frame(module, function, file)),
                expected,
                "{function} {file}"
            );
        }
    }

    /// Check that the place of an access is the caller of what a library does for it, and the access itself where all is a library's.
    #[test]
    fn places() {
        let mut access = crate::report::sample::race().accesses[0].clone();
        let own = frame("/t/app", "work", "/src/work.c");
        let library = frame("/t/app", "std::swap", "/usr/include/c++/14/bits/move.h");
        access.stack = vec![library.clone(), own.clone()];
        assert_eq!(own_place(&access), Some(&own));
        let nameless = StackFrame {
            function: None,
            ..frame("/t/app", "", "")
        };
        access.stack = vec![nameless.clone(), own];
        assert_eq!(own_place(&access), Some(&nameless));
        access.stack = vec![library.clone()];
        assert_eq!(own_place(&access), Some(&library));
        access.stack.clear();
        assert_eq!(own_place(&access), None);
    }
}
