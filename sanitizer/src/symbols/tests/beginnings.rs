//! What stands at the bottom of stacks that no call has begun: fibres, and threads of a C library without
//! unwind tables.

use std::path::Path;

use super::super::StackSnapshot;
use super::child::{Stopped, names, sources, tool};

const FIBRE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
volatile int go = 1;
static ucontext_t home, fibre;
__attribute__((noinline)) static void deeper(int n) {
    volatile char pad[64];
    pad[n] = 1;
    printf("ready\n");
    fflush(stdout);
    while (go) {} // spin
    pad[0] = pad[n];
}
__attribute__((noinline)) static void body(int n) { deeper(n); go = n; }
int main(int argc, char **argv) {
    (void)argv;
    getcontext(&fibre);
    fibre.uc_stack.ss_sp = malloc(1 << 16);
    fibre.uc_stack.ss_size = 1 << 16;
    fibre.uc_link = &home;
    makecontext(&fibre, (void (*)(void))body, 1, argc);
    swapcontext(&home, &fibre);
    return 0;
}
"#;

/// A fibre whose first function returns to the middle of hand-written code without tables, as those of
/// Boost.Context do.
const SWITCH: &str = r#"
#include <stdio.h>
#include <stdlib.h>
volatile int go = 1;
__asm__(".text\n.type begin, @function\nbegin: leaq finish(%rip), %rbp\n mov %rdi, %rsp\n push %rbp\n jmp *%rsi\n"
        "finish: xor %edi, %edi\n call exit\n hlt\n.size begin, .-begin\n");
void begin(void *stack, void (*body)(void));
static void body(void) {
    printf("ready\n");
    fflush(stdout);
    while (go) {} // spin
    exit(0);
}
int main(void) { begin((char *)malloc(1 << 16) + (1 << 16) - 64, body); }
"#;

/// A thread's beginning without unwind tables, as musl has it.
const BEGINNING: &str = r#"
#include <stdio.h>
#include <stdlib.h>
volatile int go = 1;
__asm__(".text\n.type begin, @function\nbegin: mov %rdi, %rsp\n xor %ebp, %ebp\n call *%rsi\n"
        " mov %eax, %edi\n xor %eax, %eax\n mov $60, %al\n syscall\n hlt\n.size begin, .-begin\n");
void begin(void *stack, void (*body)(void));
static void body(void) {
    printf("ready\n");
    fflush(stdout);
    while (go) {} // spin
    exit(0);
}
int main(void) { begin((char *)malloc(1 << 16) + (1 << 16) - 64, body); }
"#;

fn stopped(dir: &Path, flags: &[&str]) -> Stopped {
    tool(
        dir,
        "clang-22",
        &[flags, &["-O1", "-g", "input.c", "-o", "input"]].concat(),
    );
    Stopped::start(&dir.join("input"))
}

/// Check that the stack of a fibre of `makecontext` is told whole, with what ends it, and that a copy that
/// stops before its end is not.
#[test]
fn fibres_of_the_c_library() {
    let dir = sources(&[("input.c", FIBRE)]);
    let mut stopped = stopped(dir.path(), &[]);
    let symbolizer = stopped.symbolizer(&[]);
    let (stack, frames) = stopped.frames(&symbolizer);
    let found = names(&frames);
    assert!(!stack.truncated, "{found:?}");
    assert_eq!(stack.pcs.len(), 3, "{found:?}");
    assert!(
        found[0].starts_with("deeper:") && found[1].starts_with("body:"),
        "{found:?}"
    );

    let bytes = stopped.stack.bytes[..8].to_vec();
    stopped.stack = StackSnapshot {
        base: stopped.stack.base,
        bytes,
    };
    let (stack, _) = stopped.frames(&symbolizer);
    assert!(stack.truncated);
}

/// Check the same of a switch of stacks in assembly.
#[test]
fn fibres_of_assembly() {
    let dir = sources(&[("input.c", SWITCH)]);
    let stopped = stopped(dir.path(), &[]);
    let (stack, frames) = stopped.frames(&stopped.symbolizer(&[]));
    let found = names(&frames);
    assert!(!stack.truncated, "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("body:") && found[1] == "begin",
        "{found:?}"
    );
}

/// Check that what assembly without tables has called is told whole where that can only end.
#[test]
fn threads_of_assembly() {
    let dir = sources(&[("input.c", BEGINNING)]);
    let stopped = stopped(dir.path(), &[]);
    let (stack, frames) = stopped.frames(&stopped.symbolizer(&[]));
    let found = names(&frames);
    assert!(!stack.truncated, "{found:?}");
    assert!(
        found[0].starts_with("body:") && found[1..] == ["begin"],
        "{found:?}"
    );
}
