//! Proofs of use against the truth: random programs run in single steps, unoptimized and
//! optimized. A load that only the optimized program executes was introduced by the compiler,
//! and must not be called the source's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};

use super::super::accesses_before;
use super::super::stepping::{Tracee, code_at, containing, recorded};
use super::super::testing::{compile, functions, objects};
use super::read_use;
use crate::insn::{AccessKind, ReadUse};

/// What the random functions share. All of it is initialized, so that the symbols have a size.
const PROLOGUE: &str = r#"
#include <stdatomic.h>
#include <unistd.h>
typedef unsigned u;
struct pair { u a, b, c, d; struct pair *next; };
_Atomic u F0 = 1, F1 = 1, F2 = 1;
_Atomic unsigned char B0 = 1;
u G0 = 1, G1 = 1, G2 = 1, G3 = 1, G4 = 1;
unsigned char C0 = 1, C1 = 1;
unsigned long L0 = 1;
struct pair S0 = { 1 }, S1 = { 1 };
u A0[16] = { 1 };
double D0 = 1;
u O0 = 1, O1 = 1, O2 = 1;
double Q0 = 1;
#define FLAG(f) atomic_load_explicit(&f, memory_order_acquire)
#define RELAXED(f) atomic_load_explicit(&f, memory_order_relaxed)
#define OUT __attribute__((noinline))
OUT void h(u x) { __asm__ volatile("" : : "r"(x) : "memory"); }
OUT void k(void) { __asm__ volatile("" : : : "memory"); }
OUT static void init(u r) {
    F0 = r & 1; F1 = r >> 1 & 1; F2 = r >> 2; B0 = r & 1;
    G0 = r & 3; G1 = r * 3 & 3; G2 = r % 5; G3 = r >> 1 & 3; G4 = 3;
    C0 = r & 1; C1 = r >> 1 & 1; L0 = r % 7;
    S0.a = r & 3; S0.b = 2; S0.c = r & 1; S0.d = 0; S0.next = r & 2 ? &S1 : 0;
    S1.a = 1; S1.b = r & 2; S1.c = 1; S1.d = r >> 2 & 1; S1.next = 0;
    D0 = r; Q0 = 2; O0 = O1 = O2 = 1;
}
"#;

struct Generator {
    random: fastrand::Rng,
}

impl Generator {
    fn pick(&mut self, choices: &[&str]) -> String {
        choices[self.random.usize(..choices.len())].to_owned()
    }

    fn value(&mut self, depth: u32) -> String {
        let leaf = depth == 0 || self.random.u32(..3) == 0;
        if leaf {
            return self.pick(&[
                "G0",
                "G1",
                "G2",
                "G3",
                "G4",
                "C0",
                "C1",
                "(u)L0",
                "S0.a",
                "S0.b",
                "S1.c",
                "S1.d",
                "A0[x & 15]",
                "A0[3]",
                "x",
                "y",
                "v",
                "1u",
                "3u",
                "7u",
                "(u)D0",
                "p->a",
                "p->d",
            ]);
        }
        let a = self.value(depth - 1);
        let b = self.value(depth - 1);
        match self.random.u32(..12) {
            0..3 => format!("({a} + {b})"),
            3 => format!("({a} ^ {b})"),
            4 => format!("({a} & {b})"),
            5 => format!("({a} | {b})"),
            6 => format!("({a} * {b})"),
            7 => format!("({a} >> ({b} & 3))"),
            8 => format!("({a} < {b} ? {a} : {b})"),
            9 => format!("A0[{a} & 15]"),
            _ => {
                let c = self.condition(1);
                format!("({c} ? {a} : {b})")
            }
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        if depth == 0 || self.random.u32(..3) == 0 {
            let a = self.value(0);
            let b = self.value(0);
            return match self.random.u32(..9) {
                0 => format!("{a} == {b}"),
                1 => format!("{a} < {b}"),
                2 => format!("({a} & 1)"),
                3 => format!("{a} != 0"),
                4 => "(S0.a == S1.a && S0.b == S1.b)".to_owned(),
                5 => "(FLAG(F0) & 1)".to_owned(),
                6 => "FLAG(F1)".to_owned(),
                7 => "FLAG(B0)".to_owned(),
                _ => "RELAXED(F2) == 1".to_owned(),
            };
        }
        let a = self.condition(depth - 1);
        let b = self.condition(depth - 1);
        match self.random.u32(..3) {
            0 => format!("({a} || {b})"),
            _ => format!("({a} && {b})"),
        }
    }

    fn statement(&mut self, depth: u32) -> String {
        let value = self.value(2);
        if depth == 0 || self.random.u32(..3) == 0 {
            return match self.random.u32(..10) {
                0 => format!("O0 = {value};"),
                1 => format!("O1 ^= {value};"),
                2 => format!("O2 += {value};"),
                3 => format!("h({value});"),
                4 => "k();".to_owned(),
                5 => "Q0 += D0;".to_owned(),
                6 => format!("return {value};"),
                7 => "if (p->next) p = p->next;".to_owned(),
                _ => format!("v = {value};"),
            };
        }
        let body = self.statement(depth - 1);
        let more = self.statement(depth - 1);
        let condition = self.condition(2);
        match self.random.u32(..8) {
            0..3 => format!("if ({condition}) {{ {body} {more} }}"),
            3 => format!("if ({condition}) {{ {body} }} else {{ {more} }}"),
            4 => format!("for (u i = 0; i < y; i++) {{ {body} if ({condition}) {{ {more} }} }}"),
            5 => format!("for (u i = 0; i < x; i++) if ({condition}) {{ {body} v += i; }}"),
            _ => format!("{body} {more}"),
        }
    }

    fn program(&mut self, functions: u32, rounds: u32) -> String {
        let mut program = PROLOGUE.to_owned();
        let mut table = String::new();
        for i in 0..functions {
            let body: String = (0..3).map(|_| self.statement(2) + "\n    ").collect();
            let _ = writeln!(
                program,
                "OUT u t{i}(u x, u y) {{\n    u v = 1; struct pair *p = &S0;\n    {body}return v;\n}}"
            );
            let _ = write!(table, "t{i}, ");
        }
        let _ = writeln!(
            program,
            "static u (*const table[])(u, u) = {{ {table} }};\n\
             int main(void) {{\n    char go; u sum = 0;\n\
             if (write(1, \"r\", 1) != 1 || read(0, &go, 1) != 1) return 1;\n\
             for (u r = 0; r < {rounds}; r++) for (u i = 0; i < {functions}; i++) \
             {{ init(r); sum += table[i](r & 3, r >> 1 & 3); }}\n\
             return sum == 42;\n}}"
        );
        program
    }
}

/// A byte of a named object.
type Byte = (String, u64);

/// One load of a traced function.
struct Load {
    place: String,
    bytes: BTreeSet<Byte>,
    read_use: ReadUse,
}

/// The loads of each call of each random function, in order of calls.
fn trace(program: &Path) -> BTreeMap<String, Vec<Vec<Load>>> {
    let functions = functions(program);
    let objects = objects(program);
    let byte = |address: u64| -> Option<Byte> {
        let before = objects
            .partition_point(|object| object.1 <= address)
            .checked_sub(1)?;
        let (name, start, size) = objects.get(before)?;
        let ours = name.len() == 2 && name.ends_with(|c: char| c.is_ascii_digit());
        (ours && address - start < *size).then(|| (name.clone(), address - start))
    };
    let tracee = Tracee::start(program);
    let pid = tracee.pid();
    let mut traced: BTreeMap<String, Vec<Vec<Load>>> = BTreeMap::new();
    let mut uses: BTreeMap<u64, ReadUse> = BTreeMap::new();
    loop {
        let regs = recorded(pid);
        if let Some(function) = containing(&functions, regs.rip)
            && let Some(number) = function.name.strip_prefix('t')
            && number.parse::<u32>().is_ok()
        {
            let calls = traced.entry(function.name.clone()).or_default();
            if regs.rip == function.start {
                calls.push(Vec::new());
            }
            let code = code_at(function, regs.rip);
            for access in accesses_before(code, &regs).unwrap_or_default() {
                if access.kind == AccessKind::Write {
                    continue;
                }
                let end = access.address + u64::from(access.size);
                let bytes: BTreeSet<Byte> = (access.address..end).filter_map(&byte).collect();
                if bytes.is_empty() {
                    continue;
                }
                let proof = *uses.entry(regs.rip).or_insert_with(|| {
                    read_use(function.start, &function.code, regs.rip, &|_| true)
                });
                let place = format!("{}+{:#x}", function.name, regs.rip - function.start);
                if let Some(call) = calls.last_mut() {
                    call.push(Load {
                        place,
                        bytes,
                        read_use: proof,
                    });
                }
            }
        }
        ptrace::step(pid, None).expect("a stopped tracee can be stepped");
        if !matches!(
            waitpid(pid, None).expect("a step ends"),
            WaitStatus::Stopped(..)
        ) {
            return traced;
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    introduced: usize,
    proven: usize,
    in_part: usize,
    unproven: usize,
    /// The same of unoptimized code, where every load is the source's.
    plain_proven: usize,
    plain_unproven: usize,
}

/// Runs one random program both ways; every false proof with its place.
fn compare(seed: u64, compiler: &str, flags: &[&str], tally: &mut Tally) -> Vec<String> {
    let mut generator = Generator {
        random: fastrand::Rng::with_seed(seed),
    };
    let source = generator.program(24, 8);
    let trace_with = |flags: &[&str]| {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let mut all = vec!["-static", "-fno-pie", "-no-pie", "-w"];
        all.extend_from_slice(flags);
        trace(&compile(compiler, &all, &source, dir.path()))
    };
    let truth = trace_with(&["-O0"]);
    let optimized = trace_with(flags);
    for load in truth.values().flatten().flatten() {
        if load.read_use == ReadUse::Unproven {
            tally.plain_unproven += 1;
        } else {
            tally.plain_proven += 1;
        }
    }
    let mut wrong = BTreeSet::new();
    // Calls of functions without effect are optimized away; all others pair up.
    let pairs = optimized.iter().flat_map(|(name, calls)| {
        let truth = truth.get(name).filter(|truth| truth.len() == calls.len());
        truth.into_iter().flatten().zip(calls)
    });
    for (truth, optimized) in pairs {
        let asked: BTreeSet<&Byte> = truth.iter().flat_map(|load| &load.bytes).collect();
        for load in optimized {
            let real = load
                .bytes
                .iter()
                .filter(|byte| asked.contains(byte))
                .count();
            let introduced = real < load.bytes.len();
            tally.introduced += usize::from(introduced);
            let right = match load.read_use {
                ReadUse::Proven => {
                    tally.proven += 1;
                    !introduced
                }
                ReadUse::ProvenInPart => {
                    tally.in_part += 1;
                    real > 0
                }
                ReadUse::Unproven => {
                    tally.unproven += 1;
                    true
                }
            };
            if !right {
                wrong.insert(format!(
                    "seed {seed} {compiler} {flags:?} {}: {:?} of {:?}",
                    load.place, load.read_use, load.bytes
                ));
            }
        }
    }
    if !wrong.is_empty()
        && let Ok(dir) = std::env::var("GWP_RACE_KEEP")
    {
        let _ = std::fs::write(format!("{dir}/seed{seed}.c"), &source);
    }
    wrong.into_iter().collect()
}

/// One seed, or those in the environment (`GWP_RACE_SEEDS=100..120`). `GWP_RACE_KEEP` names a
/// directory for the programs that fail.
fn seeds() -> std::ops::Range<u64> {
    std::env::var("GWP_RACE_SEEDS")
        .ok()
        .and_then(|range| {
            let (first, end) = range.split_once("..")?;
            Some(first.parse().ok()?..end.parse().ok()?)
        })
        .unwrap_or(0..1)
}

/// Check that no load which optimization introduced is called the source's, and that most of
/// those which it did not introduce are recognized.
#[test]
fn no_false_proofs() {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for seed in seeds() {
        for (compiler, flags) in [
            ("clang-22", &["-O2"][..]),
            ("clang-22", &["-O3", "-march=native"][..]),
            ("clang-16", &["-O3"][..]),
        ] {
            wrong.extend(compare(seed, compiler, flags, &mut tally));
        }
    }
    println!("{tally:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tally.introduced > 10, "{tally:?}");
    assert!(
        tally.proven + tally.in_part > tally.unproven / 4,
        "{tally:?}"
    );
    assert!(tally.plain_proven > 10 * tally.plain_unproven, "{tally:?}");
}
