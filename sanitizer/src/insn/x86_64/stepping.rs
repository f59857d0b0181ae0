//! Ground truth from the processor: a real program is single-stepped, and what is predicted from
//! the registers before each instruction must be recovered from the registers after it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};

use iced_x86::{FlowControl, Mnemonic, OpKind};
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::accesses::decode;
use super::operands::is_repeated_string;
use super::registers;
use super::testing::{Function, compile, functions};
use super::{accesses_before, attribute};
use crate::insn::{AccessKind, MemAccess, Regs, Undetermined};

/// Loops, library routines, floating point, vectors, thread-local data, atomics and strings.
pub(super) const PROGRAM: &str = r#"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct node { struct node *next; long value; char pad[24]; } nodes[64];
static _Thread_local long local[8];
static _Atomic long counter;
static double matrix[8][8];
static int numbers[96];
static unsigned char big[4096], copy[4096];
static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static long walk(struct node *n) {
    long sum = 0;
    for (; n; n = n->next) { n->value += sum; sum += n->value; }
    return sum;
}
__attribute__((noinline)) static long (*volatile indirect)(struct node *) = walk;
int main(void) {
    char text[256], go;
    if (write(1, "r", 1) != 1 || read(0, &go, 1) != 1) return 1;
    for (int i = 0; i < 64; i++) { nodes[i].value = i; nodes[i].next = i < 63 ? &nodes[i + 1] : 0; }
    long sum = indirect(nodes);
    for (int i = 0; i < 96; i++) numbers[i] = (i * 7919) % 101;
    qsort(numbers, 96, sizeof *numbers, ascending);
    for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) matrix[i][j] = matrix[j][i] * 0.5 + i + j;
    for (int i = 0; i < 200; i++) { local[i & 7] += i; atomic_fetch_add(&counter, local[i & 7]); }
    for (size_t n = 1; n < 4096; n = n * 3 + 1) { memset(big, (int)n, n); memcpy(copy + 1, big, n - 1); sum += memcmp(big, copy, n); }
    void *d = copy; const void *s = big; size_t n = 40;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
    d = copy + 800; s = big + 800; n = 20;
    __asm__ volatile("std\n rep movsq\n cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
    d = copy; n = 30;
    __asm__ volatile("rep stosl" : "+D"(d), "+c"(n) : "a"(7) : "memory");
    __asm__ volatile("btsq %1, %0" : "+m"(*(long *)copy) : "r"(1000L) : "memory", "cc");
    __asm__ volatile("enter $32, $0\n movq %%rax, -8(%%rbp)\n leave" : : : "memory");
    __asm__ volatile("pushfq\n popq %%rax\n xchgq %%rax, %0" : "+m"(*(long *)copy) : : "rax", "memory");
    for (int i = 0; i < 20; i++) {
        char *p = malloc((size_t)i * 37 + 1);
        snprintf(text, sizeof text, "%d %s %f %ld", i, "text", matrix[i & 7][1], sum);
        strcpy(p, "x"); sum += (long)strlen(text) + strtol(text, 0, 10); free(p);
    }
    return sum == 42;
}
"#;

pub(super) const STEPS: u32 = 60_000;

pub(super) fn recorded(pid: Pid) -> Regs {
    crate::kernel::ptrace::registers(pid.as_raw().cast_unsigned())
        .expect("a stopped tracee has registers")
}

pub(super) fn containing(functions: &[Function], pc: u64) -> Option<&Function> {
    let function = functions.get(
        functions
            .partition_point(|f| f.start <= pc)
            .checked_sub(1)?,
    )?;
    (pc - function.start < function.code.len() as u64).then_some(function)
}

pub(super) fn code_at(function: &Function, pc: u64) -> &[u8] {
    let offset = usize::try_from(pc - function.start).expect("inside the function");
    &function.code[offset..]
}

pub(super) struct Tracee {
    child: Child,
    memory: File,
}

impl Tracee {
    pub(super) fn start(program: &std::path::Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut ready = [0];
        child
            .stdout
            .as_mut()
            .expect("piped")
            .read_exact(&mut ready)
            .expect("the program is ready");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        ptrace::attach(pid).expect("a child may be traced");
        waitpid(pid, None).expect("it stops");
        child
            .stdin
            .as_mut()
            .expect("piped")
            .write_all(b"g")
            .expect("the program reads");
        let memory = File::open(format!("/proc/{pid}/mem")).expect("a tracee's memory is readable");
        Self { child, memory }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"))
    }

    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The piece of an access that a watchpoint covers: up to 8 aligned bytes, among them the first
/// byte that a single step touches.
fn watch_of(access: &MemAccess, regs: &Regs) -> (u64, u32) {
    let first = if registers::counts_down(regs) {
        access.address + u64::from(access.size) - 1
    } else {
        access.address
    };
    (first & !7, 8)
}

#[derive(Default, Debug)]
struct Tally {
    accesses: u32,
    recovered: u32,
    inexact: u32,
    strings: u32,
    values: u32,
    transfers: u32,
    ambiguous: u32,
}

/// Check on every instruction that a real program executes that
/// - a predicted load or store moves the value that is really at the predicted address;
/// - an access is never attributed to another instruction;
/// - every access of an instruction that falls through is recovered, with kind and size, unless
///   it is ambiguous.
#[test]
fn single_steps_agree() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let flags = [
        "-O2",
        "-march=native",
        "-static",
        "-fno-pie",
        "-no-pie",
        "-w",
    ];
    let program = compile("clang-22", &flags, PROGRAM, dir.path());
    let functions = functions(&program);
    let tracee = Tracee::start(&program);
    let pid = tracee.pid();
    let mut tally = Tally::default();
    let mut regs = recorded(pid);
    for _ in 0..STEPS {
        let before = regs;
        ptrace::step(pid, None).expect("a stopped tracee can be stepped");
        match waitpid(pid, None).expect("a step ends") {
            WaitStatus::Stopped(..) => {}
            _ => break,
        }
        regs = recorded(pid);
        if let (Some(from), Some(to)) = (
            containing(&functions, before.rip),
            containing(&functions, regs.rip),
        ) {
            check_step(&tracee, from, to, &before, &regs, &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.accesses > 5_000, "{tally:?}");
    assert!(tally.values > 1_000, "{tally:?}");
    assert!(
        tally.inexact > 10 && tally.transfers > 100 && tally.strings > 50,
        "{tally:?}"
    );
    assert!(tally.ambiguous * 100 < tally.accesses, "{tally:?}");
}

fn check_step(
    tracee: &Tracee,
    from: &Function,
    to: &Function,
    before: &Regs,
    after: &Regs,
    tally: &mut Tally,
) {
    let code = code_at(from, before.rip);
    let instruction = decode(code, before.rip).expect("what was executed decodes");
    let Ok(accesses) = accesses_before(code, before) else {
        return;
    };
    let place = format!(
        "{}+{:#x} {instruction:?}",
        from.name,
        before.rip - from.start
    );
    for access in &accesses {
        tally.accesses += 1;
        let whole_register = match access.kind {
            AccessKind::Read => instruction.op0_register(),
            _ => instruction.op1_register(),
        };
        let in_memory =
            instruction.op0_kind() == OpKind::Memory || instruction.op1_kind() == OpKind::Memory;
        if instruction.mnemonic() == Mnemonic::Mov
            && in_memory
            && access.size == 8
            && let Some(in_register) = registers::value(after, whole_register)
        {
            assert_eq!(tracee.word(access.address), Some(in_register), "{place}");
            tally.values += 1;
        }

        let watch = watch_of(access, before);
        match attribute(to.start, &to.code, after, watch) {
            Ok(found) => {
                assert_eq!(found.pc, before.rip, "{place}: {found:?}");
                tally.recovered += 1;
                assert!(found.access.overlaps(watch.0, watch.1), "{place}");
                if is_repeated_string(&instruction) {
                    // Within what the instruction had before it, and of the same kind.
                    let own = accesses.iter().find(|own| own.kind == found.access.kind);
                    let own = own.expect("one of its own kind");
                    assert!(found.access.address >= own.address, "{place}: {found:?}");
                    let end = |access: &MemAccess| access.address + u64::from(access.size);
                    assert!(end(&found.access) <= end(own), "{place}: {found:?}");
                    assert!(found.address_exact, "{place}: {found:?}");
                    tally.strings += 1;
                } else if found.address_exact {
                    // One of the instruction's own accesses; which one if both meet the watch is
                    // the attribution's to refuse.
                    assert!(accesses.contains(&found.access), "{place}: {found:?}");
                } else {
                    tally.inexact += 1;
                    let same_kind = |a: &&MemAccess| a.kind == found.access.kind;
                    let own = accesses
                        .iter()
                        .find(same_kind)
                        .expect("one of its own kind");
                    assert_eq!(found.access.size, own.size, "{place}");
                }
            }
            Err(Undetermined::ControlTransfer) => {
                assert_ne!(
                    instruction.flow_control(),
                    FlowControl::Next,
                    "{place}: {access:?}"
                );
                tally.transfers += 1;
            }
            Err(Undetermined::Ambiguous) => {
                assert!(accesses.len() > 1, "{place}: {access:?}");
                tally.ambiguous += 1;
            }
            Err(reason) => {
                assert_ne!(
                    instruction.flow_control(),
                    FlowControl::Next,
                    "{place}: {access:?} {reason} {after:?}"
                );
            }
        }
    }
}
