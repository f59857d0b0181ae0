//! Probes in real programs: what is noted is exact, the code is as before in the end, whoever ends, and nobody else is touched.

use std::{
    ops::Range,
    os::unix::fs::FileExt as _,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::{sys::signal::Signal, unistd::Pid};

use super::*;
use crate::{
    insn::x86_64::Approaches,
    kernel::{
        calibrate::trap_cost_ns,
        foreign::About,
        gates::{GateLog, Gates},
        object::PROBES_OBJECT,
        process::{self, WorkClock},
    },
    tracee::testing::Child,
};

/// It does what it is told, line by line, and says so. Its functions have their accesses behind what can be probed.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
struct object { long *items; long other[4]; } object;
long items[16], flag;
long seen(struct object *object, long index), branch(long *flag, long taken), nop5(long *flag), many(long *flag);
__asm__(".text\n.p2align 12\n"
    ".globl seen\nseen: push %rbx\n mov 8(%rdi), %rdx\n mov (%rdi), %rax\n mov 8(%rax,%rsi,8), %rax\n pop %rbx\n ret\n"
    ".globl branch\nbranch: test %rsi, %rsi\n je 1f\n mov (%rdi), %rax\n ret\n1: mov 4(%rdi), %eax\n ret\n"
    ".globl nop5\nnop5: .byte 0x0f, 0x1f, 0x44, 0, 0\n mov (%rdi), %rax\n ret\n"
    ".p2align 6\n.globl many\nmany:\n.rept 100\n push %rbx\n mov (%rdi), %eax\n pop %rbx\n ret\n.p2align 6\n.endr\n.p2align 12\n");
static volatile int stop;
static void call_many(void) { for (int i = 0; i < 100; i++) ((long (*)(long *))((char *)many + 64 * i))(&flag); }
static void *spin(void *unused) { while (!stop) { seen(&object, 1); call_many(); } return unused; }
static void visit(int times) { for (int i = 0; i < times; i++) { seen(&object, i); branch(&flag, i & 1); nop5(&flag); } }
static void *visits(void *times) { visit((int)(long)times); return (void *)(long)syscall(SYS_gettid); }
static void *serve(void *unused) {
    char line[100];
    pthread_t thread;
    void *tid;
    if (unused) printf("%d\n", (int)syscall(SYS_gettid));
    while (fgets(line, sizeof line, stdin)) {
        int times = atoi(line + 1);
        switch (*line) {
        case 'v': visit(times); printf("%d\n", (int)getpid()); break;
        case 'c': for (int i = 0; i < times; i++) call_many(); printf("%d\n", (int)getpid()); break;
        case 't': pthread_create(&thread, 0, visits, (void *)(long)times); pthread_join(thread, &tid); printf("%d\n", (int)(long)tid); break;
        case 's': stop = 0; pthread_create(&thread, 0, spin, 0); puts("spins"); break;
        case 'e': stop = 1; pthread_join(thread, 0); puts("ended"); break;
        case 'f': { int child = fork(); if (!child) { visit(times); printf("%d\n", (int)getpid()); for (;;) pause(); } break; }
        case 'p': { /* its own copy of the page, with the same bytes or other ones at the end, where nothing is */
            char *page = (char *)((unsigned long)seen & ~4095ul);
            mprotect(page, 4096, PROT_READ | PROT_WRITE); *(volatile char *)(page + 4095) = (char)(page[4095] + times);
            mprotect(page, 4096, PROT_READ | PROT_EXEC); puts("patched"); break; }
        case 'x': pthread_create(&thread, 0, serve, &object); pthread_exit(0);
        case 'k': { int child = atoi(line + 1); kill(child, SIGKILL); waitpid(child, 0, 0); puts("killed"); break; }
        }
    }
    exit(0);
}
int main(void) {
    object.items = items;
    setvbuf(stdout, 0, _IOLBF, 0);
    printf("%p %p %p %p %p %p\n", (void *)seen, (void *)branch, (void *)nop5, (void *)many, (void *)items, (void *)&flag);
    serve(0);
    return 0;
}
"#;

/// Functions from `many` on, and how far they are from each other.
const MANY: u64 = 100;
const APART: u64 = 64;

mod standing;

/// A burst of one test at a time: what the machine bears is not what is tested.
static ALONE: Mutex<()> = Mutex::new(());

/// Has a test be the only one; `None` where there are no probes to be tried, as gwp-race was built without.
fn alone() -> Option<MutexGuard<'static, ()>> {
    let is_built = !PROBES_OBJECT.is_empty();
    is_built.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Target {
    child: Child,
    seen: u64,
    branch: u64,
    nop5: u64,
    many: u64,
    items: u64,
    flag: u64,
    mapping: Range<u64>,
    file: FileIdentity,
}

impl Target {
    fn start() -> Self {
        Self::of(Child::run(PROGRAM, &["-O2", "-pthread"]))
    }

    fn of(child: Child) -> Self {
        let said = child.read_line();
        let mut words = said.split_whitespace();
        let mut address =
            || u64::from_str_radix(words.next().unwrap().trim_start_matches("0x"), 16).unwrap();
        let [seen, branch, nop5, many, items, flag] = std::array::from_fn(|_| address());
        let mapping = mapping_of(child.pid(), seen);
        let file = file_of(child.pid());
        Self {
            child,
            seen,
            branch,
            nop5,
            many,
            items,
            flag,
            mapping,
            file,
        }
    }

    fn pid(&self) -> u32 {
        self.child.pid().as_raw().cast_unsigned()
    }

    /// Has it do something, and hears what it says of it.
    fn ask(&mut self, line: &str) -> String {
        self.child.send_line(line);
        self.child.read_line().trim().to_owned()
    }

    /// The points of the accesses of a function, as its code has them: tags are numbers of the accesses.
    fn probes(&self, function: u64, accesses: &[u64]) -> Vec<Probe> {
        let code = memory(self.child.pid(), function, 14);
        let approaches = Approaches::of(function, &code);
        let of_access = |(tag, offset): (usize, &u64)| {
            let points = approaches.to(function + offset).points;
            assert!(!points.is_empty(), "{function:#x}+{offset}: {code:02x?}");
            points.into_iter().map(move |point| Probe {
                pc: RuntimeAddr(point.pc),
                recipe: point.recipe,
                tag: tag as u32,
            })
        };
        accesses.iter().enumerate().flat_map(of_access).collect()
    }

    fn order(&self, probes: Vec<Probe>) -> Order {
        Order {
            pid: self.pid(),
            mapping: self.mapping.clone(),
            file: self.file,
            probes,
            // Until it is stopped.
            duration: LONGEST,
            hits_per_probe: 1000,
            most_hits: 100_000,
        }
    }

    /// It still does what it is told.
    fn lives(&mut self) {
        assert_eq!(self.ask("v 1"), self.pid().to_string());
    }

    /// Whether its code is the file's, byte for byte.
    fn is_whole(&self) -> bool {
        is_whole(self.child.pid(), &self.child.exe(), &self.mapping)
    }
}

/// The mapping that has an address.
fn mapping_of(pid: Pid, address: u64) -> Range<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    });
    ranges.find(|range| range.contains(&address)).unwrap()
}

/// The file that a process executes.
fn file_of(pid: Pid) -> FileIdentity {
    let link = format!("/proc/{pid}/exe");
    About::at(Path::new(&link)).unwrap().identity()
}

fn memory(pid: Pid, at: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    let file = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    file.read_exact_at(&mut read, at).unwrap();
    read
}

/// The line of a mapping tells where in the file it is.
fn is_whole(pid: Pid, file: &Path, mapping: &Range<u64>) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps
        .lines()
        .find(|line| line.starts_with(&format!("{:x}-", mapping.start)))
        .unwrap();
    let offset = u64::from_str_radix(line.split_whitespace().nth(2).unwrap(), 16).unwrap();
    let in_file = std::fs::read(file).unwrap();
    let length = (mapping.end - mapping.start) as usize;
    let in_file = &in_file[offset as usize..];
    let in_file = &in_file[..in_file.len().min(length)];
    memory(pid, mapping.start, in_file.len()) == in_file
}

fn probes() -> Probes {
    with_gates().1
}

/// With the gates, of which the program at probes that stand is one.
fn with_gates() -> (Gates, Probes) {
    let gates =
        Gates::load(GateLog::Off).expect("the gates: run as root, after `cargo xtask build`");
    trap_cost_ns(&gates).unwrap();
    let probes = Probes::load(&gates, WorkClock::of_share(1)).expect("the programs are loaded");
    (gates, probes)
}

/// Waits until probes stand and the program notes.
fn wait_until_noting(probes: &mut Probes) {
    while !probes.is_noting() {
        if let Some(outcome) = probes.take() {
            panic!("{outcome:?}");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn wait_for_outcome(probes: &mut Probes) -> Result<Outcome, BurstError> {
    loop {
        if let Some(outcome) = probes.take() {
            assert!(!probes.is_busy());
            return outcome;
        }
        let _ = process::wait_readable([probes.news()], Some(Duration::from_secs(1))).unwrap();
    }
}

/// Check that who comes is told exactly, with the address that he is about to use, at a push and at jumps, on the first thread and on another one,
/// and that the code is the file's again afterwards.
#[test]
fn arrivals_and_addresses_are_exact() {
    let Some(_alone) = alone() else {
        return;
    };
    let mut target = Target::start();
    let mut probes = probes();
    // What is read by the pointer; on both ways from the jump.
    let mut wanted = target.probes(target.seen, &[8]);
    let both = target.probes(target.branch, &[5, 9]);
    wanted.extend(both.into_iter().map(|probe| Probe {
        tag: probe.tag + 10,
        ..probe
    }));
    assert_eq!(
        wanted.iter().map(|probe| probe.tag).collect::<Vec<_>>(),
        [0, 10, 11]
    );
    for round in 0..3 {
        probes.start(target.order(wanted.clone())).unwrap();
        assert!(probes.start(target.order(wanted.clone())).is_err());
        wait_until_noting(&mut probes);
        assert_eq!(memory(target.child.pid(), target.seen, 1), [0xcc]);
        assert!(!target.is_whole());
        let first: u32 = target.ask("v 3").parse().unwrap();
        let second: u32 = target.ask("t 2").parse().unwrap();
        probes.stop_burst();
        let outcome = wait_for_outcome(&mut probes).unwrap();
        assert!(target.is_whole(), "round {round}");
        // Nobody is noted any more.
        target.ask("v 5");
        // In which order those at one place are noted is the kernel's affair.
        let told = |tag: u32| {
            let uses = outcome.uses.iter().filter(|used| used.tag == tag);
            uses.map(|used| (used.tid, used.address))
                .collect::<Vec<_>>()
        };
        let visits = [(first, 0), (first, 1), (first, 2), (second, 0), (second, 1)];
        let items = visits.map(|(tid, index)| (tid, target.items + 8 + 8 * index));
        assert_eq!(told(0), items, "round {round}");
        assert_eq!(told(10), visits.map(|(tid, _)| (tid, target.flag)));
        assert_eq!(told(11), visits.map(|(tid, _)| (tid, target.flag + 4)));
        assert_eq!(outcome.arrivals, [(0, 5), (10, 5), (11, 5)]);
        assert_eq!((outcome.hits, outcome.was_cut), (15, false));
        let times: Vec<u64> = outcome.uses.iter().map(|used| used.at_ns).collect();
        assert!(times.is_sorted() && times.iter().all(|at| outcome.noted_ns.contains(at)));
        assert!(outcome.cpu_ns > 0 && probes.take().is_none());
    }
    target.lives();
}

/// Check that what comes all the time is let alone, that the burst ends by itself then, and that one ends when its time is over.
#[test]
fn hot_code_is_let_alone() {
    const HITS: u64 = 50;
    let Some(_alone) = alone() else {
        return;
    };
    let mut target = Target::start();
    let mut probes = probes();
    target.ask("s");
    let mut order = target.order(target.probes(target.seen, &[8]));
    (order.hits_per_probe, order.most_hits) = (HITS, 10 * HITS);
    probes.start(order.clone()).unwrap();
    let outcome = wait_for_outcome(&mut probes).unwrap();
    assert!(outcome.was_cut);
    assert_eq!(outcome.uses.len() as u64, HITS);
    assert!(
        outcome.hits >= 10 * HITS && outcome.arrivals[0].1 >= HITS,
        "{outcome:?}"
    );
    assert!(target.is_whole());
    // No more than there is room for, however much is allowed.
    (order.hits_per_probe, order.most_hits) = (u64::MAX, u64::MAX);
    probes.start(order.clone()).unwrap();
    let outcome = wait_for_outcome(&mut probes).unwrap();
    assert!(outcome.was_cut && outcome.uses.len() == abi::USES);
    target.ask("e");
    (order.hits_per_probe, order.duration) = (HITS, Duration::from_millis(2));
    probes.start(order).unwrap();
    let outcome = wait_for_outcome(&mut probes).unwrap();
    assert_eq!(
        (outcome.uses.len(), outcome.hits, outcome.was_cut),
        (0, 0, false)
    );
    assert!(target.is_whole());
    target.lives();
}

/// Check that other processes of the same file have no probes; that children that are forked meanwhile are not noted, and have the file's code again
/// when it is over.
#[test]
fn others_are_not_touched() {
    let Some(_alone) = alone() else {
        return;
    };
    let mut target = Target::start();
    let exe = target.child.exe();
    let mut other = Target::of(Child::start(
        tempfile::tempdir().unwrap(),
        Command::new(&exe),
    ));
    let mut probes = probes();
    probes
        .start(target.order(target.probes(target.seen, &[8])))
        .unwrap();
    wait_until_noting(&mut probes);
    assert!(is_whole(other.child.pid(), &exe, &other.mapping));
    other.ask("v 4");
    let child: i32 = target.ask("f 3").parse().unwrap();
    probes.stop_burst();
    let outcome = wait_for_outcome(&mut probes).unwrap();
    assert_eq!(outcome.uses, []);
    assert!(target.is_whole());
    assert!(is_whole(Pid::from_raw(child), &exe, &target.mapping));
    assert_eq!(target.ask(&format!("k{child}")), "killed");
    target.lives();
}

/// Check that no probe is put at a nop of five bytes, in the midst of an instruction, at what the kernel would step over, on pages that the program has written to, or
/// outside of the mapping; and that such a mapping must be private code of a file.
#[test]
fn what_must_not_be_probed_is_not() {
    let Some(_alone) = alone() else {
        return;
    };
    let mut target = Target::start();
    let mut probes = probes();
    let good = target.probes(target.seen, &[8])[0];
    let at = |pc: u64| Probe {
        pc: RuntimeAddr(pc),
        ..good
    };
    let mut try_out = |order: Order| {
        probes.start(order).unwrap();
        wait_for_outcome(&mut probes)
    };
    for pc in [
        target.nop5,
        target.seen + 1,
        target.seen + 2,
        target.branch,
        target.mapping.start - 1,
        target.mapping.end,
        0,
    ] {
        let order = target.order(vec![at(pc)]);
        let outcome = try_out(order);
        assert!(
            matches!(outcome, Err(BurstError::Obstacle(Obstacle::NoPlace))),
            "{pc:#x}: {outcome:?}"
        );
    }
    // A good one among them stands alone.
    let mut order = target.order(vec![at(target.nop5), good]);
    order.duration = Duration::from_millis(1);
    assert_eq!(try_out(order).unwrap().arrivals.len(), 1);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.child.pid())).unwrap();
    for line in maps
        .lines()
        .filter(|line| !line.contains("r-xp") || line.contains("[v"))
    {
        let (start, end) = line
            .split_whitespace()
            .next()
            .unwrap()
            .split_once('-')
            .unwrap();
        let mapping =
            u64::from_str_radix(start, 16).unwrap_or(0)..u64::from_str_radix(end, 16).unwrap_or(0);
        let outcome = try_out(Order {
            mapping,
            ..target.order(vec![good])
        });
        assert!(
            matches!(outcome, Err(BurstError::Obstacle(Obstacle::Unsuited(_)))),
            "{line}: {outcome:?}"
        );
    }
    let outcome = try_out(Order {
        mapping: 0x1000..0x2000,
        ..target.order(vec![good])
    });
    assert!(
        matches!(outcome, Err(BurstError::Obstacle(Obstacle::Unmapped(..)))),
        "{outcome:?}"
    );
    // Another file has been mapped there since the places were looked for, or this one was changed.
    let (device, inode, size, seconds, nanoseconds) = target.file;
    for file in [
        (device, inode + 1, size, seconds, nanoseconds),
        (device, inode, size + 1, seconds, nanoseconds),
        (device, inode, size, seconds, nanoseconds + 1),
    ] {
        let outcome = try_out(Order {
            file,
            ..target.order(vec![good])
        });
        assert!(
            matches!(outcome, Err(BurstError::Obstacle(Obstacle::Replaced(..)))),
            "{outcome:?}"
        );
    }
    // As the kernel leaves it, too: a copy with the same bytes.
    target.ask("p 0");
    target.mapping = mapping_of(target.child.pid(), target.seen);
    let mut order = target.order(vec![good]);
    order.duration = Duration::from_millis(1);
    assert_eq!(try_out(order).unwrap().arrivals.len(), 1);
    target.ask("p 1");
    target.mapping = mapping_of(target.child.pid(), target.seen);
    assert!(!target.is_whole());
    let outcome = try_out(target.order(vec![good]));
    assert!(
        matches!(outcome, Err(BurstError::Obstacle(Obstacle::NoPlace))),
        "{outcome:?}"
    );
    target.ask("p -1");
    target.mapping = mapping_of(target.child.pid(), target.seen);
    assert!(target.is_whole());
    let (pid, file) = (target.pid(), target.file);
    drop(target);
    probes
        .start(Order {
            pid,
            mapping: 0..1,
            file,
            probes: vec![good],
            duration: LONGEST,
            hits_per_probe: 1,
            most_hits: 1,
        })
        .unwrap();
    assert!(
        matches!(wait_for_outcome(&mut probes), Err(BurstError::Kernel(error)) if error.source.kind() == std::io::ErrorKind::NotFound)
    );
}

/// Its code has a place for a probe on each of more pages than get copies.
const WIDE: &str = r#"
#include <stdio.h>
long wide(long *flag);
__asm__(".text\n.p2align 12\n.globl wide\nwide:\n.rept 1030\n push %rbx\n mov (%rdi), %eax\n pop %rbx\n ret\n.p2align 12\n.endr\n");
int main(void) {
    printf("%p\n", (void *)wide);
    fflush(stdout);
    return getchar() == EOF;
}
"#;

/// Check that no more pages get copies than may, in a burst and in a process, and that those that had probes before may have some again.
#[test]
fn pages_are_counted() {
    const PAGE: u64 = 4096;
    let Some(_alone) = alone() else {
        return;
    };
    let child = Child::run(WIDE, &["-O2"]);
    let said = child.read_line();
    let wide = u64::from_str_radix(said.trim().trim_start_matches("0x"), 16).unwrap();
    let (mapping, file) = (mapping_of(child.pid(), wide), file_of(child.pid()));
    let mut probes = probes();
    let mut armed = |pages: Vec<u64>| {
        let at_page = |page: u64| Probe {
            pc: RuntimeAddr(wide + page * PAGE),
            ..place_of_many(wide, page)
        };
        let order = Order {
            pid: child.pid().as_raw().cast_unsigned(),
            mapping: mapping.clone(),
            file,
            probes: pages.into_iter().map(at_page).collect(),
            duration: Duration::ZERO,
            hits_per_probe: 1,
            most_hits: u64::MAX,
        };
        probes.start(order).unwrap();
        let outcome = wait_for_outcome(&mut probes)?;
        let armed = outcome.arrivals.iter().map(|(tag, _)| u64::from(*tag));
        Ok::<Vec<u64>, BurstError>(armed.collect())
    };
    let (most, all) = (MOST_PAGES as u64, MOST_COPIES as u64);
    let first: Vec<u64> = (0..most).collect();
    assert_eq!(armed((0..=most).collect()).unwrap(), first);
    for from in (most..all).step_by(MOST_PAGES) {
        let pages: Vec<u64> = (from..from + most).collect();
        assert_eq!(armed(pages.clone()).unwrap(), pages);
    }
    let refused = armed(vec![all, all + 1]);
    assert!(
        matches!(refused, Err(BurstError::Obstacle(Obstacle::NoPlace))),
        "{refused:?}"
    );
    assert_eq!(armed(vec![all, 0]).unwrap(), [0]);
    assert_eq!(armed(first.clone()).unwrap(), first);
}

/// Names the process, the mapping, the function and what is done for the test that has probes: see below.
const HELD: &str = "GWP_RACE_TEST_PROBES";

/// Holds probes until it is killed, or arms and removes them again and again.
#[test]
#[ignore = "another test of this file starts it"]
fn holds_probes() {
    let wanted = std::env::var(HELD).unwrap();
    let numbers: Vec<u64> = wanted
        .split(' ')
        .map(|word| word.parse().unwrap())
        .collect();
    let [pid, start, end, many, way] = numbers[..] else {
        panic!("{wanted}")
    };
    let (gates, mut probes) = with_gates();
    let places = (0..MANY).map(|place| place_of_many(many, place));
    if way == 2 {
        gates.control().process.tgid.store(pid, SeqCst);
        standing::hold(&mut probes, pid as u32, start..end, places.collect());
    }
    let again = way == 1;
    let order = Order {
        pid: pid as u32,
        mapping: start..end,
        file: file_of(Pid::from_raw((pid as u32).cast_signed())),
        probes: places.collect(),
        duration: if again { Duration::ZERO } else { LONGEST },
        hits_per_probe: 10,
        most_hits: u64::MAX,
    };
    println!("begins");
    loop {
        probes.start(order.clone()).unwrap();
        if !again {
            wait_until_noting(&mut probes);
            println!("armed");
            std::thread::sleep(LONGEST);
        }
        wait_for_outcome(&mut probes).unwrap();
    }
}

/// A probe at one of the many functions, which has its number.
fn place_of_many(many: u64, place: u64) -> Probe {
    Probe {
        pc: RuntimeAddr(many + place * APART),
        recipe: Approaches::of(0, &[0x53, 0x8b, 7]).to(1).points[0].recipe,
        tag: place as u32,
    }
}

/// Starts the test above for the places of a program.
fn owner(target: &Target, way: usize) -> Child {
    let words = [
        "--exact",
        "kernel::probes::tests::holds_probes",
        "--ignored",
        "--nocapture",
        "--test-threads",
        "1",
    ];
    let mut command = Command::new(std::env::current_exe().unwrap());
    let (pid, Range { start, end }) = (target.pid(), &target.mapping);
    let held = format!("{pid} {start} {end} {} {way}", target.many);
    command.args(words).env(HELD, held);
    Child::start(tempfile::tempdir().unwrap(), command)
}

/// So many kills.
fn kills() -> usize {
    match std::env::var("GWP_RACE_FULL").as_deref() {
        Ok("1") => 300,
        _ => 40,
    }
}

/// Check that the code is the file's again, and the program alive, whenever whoever has probes is killed while threads run into them: while they are of a burst, or stand, and
/// in the midst of arming and removing them.
#[test]
fn code_is_whole_when_the_owner_is_killed() {
    let Some(_alone) = alone() else {
        return;
    };
    let mut target = Target::start();
    let mut random = fastrand::Rng::with_seed(26);
    let mut armed = 0;
    for kill in 0..kills() {
        let way = kill % 3;
        let again = way == 1;
        let mut owner = owner(&target, way);
        let said = if again { "begins" } else { "armed" };
        while !owner.read_line().contains(said) {}
        // What stands there is hot from now on.
        target.ask("s");
        if again {
            std::thread::sleep(Duration::from_micros(random.u64(..100_000)));
        }
        let has_probes = memory(target.child.pid(), target.many, 1) == [0xcc];
        assert!(again || has_probes);
        armed += usize::from(has_probes);
        nix::sys::signal::kill(owner.pid(), Signal::SIGKILL).unwrap();
        // The kernel has removed the probes when the last thread has ended.
        owner.reap();
        assert!(target.is_whole(), "after kill {kill}");
        assert_eq!(target.ask("e"), "ended");
    }
    println!("{} kills, at {armed} of which there were probes", kills());
    target.lives();
}
