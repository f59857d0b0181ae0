//! The gates in the running kernel: the verifier takes them, and they forget a process.

use gwp_race_abi::{Counter, EVENT_EXEC, FunctionEntry, ModuleRange, NO_PROCESS};

use super::*;
use crate::{
    addr::RuntimeAddr,
    kernel::{calibrate::trap_cost_ns, cpus, perf::WatchKind},
    tracee::testing::Child,
};
use gwp_race_abi::SPACE_RANGES;

/// Check that the kernel's verifier accepts every gate, and that tables can be loaded.
#[test]
fn the_verifier_accepts_the_gates() {
    let mut gates = Gates::load(GateLog::Off).unwrap();
    let entry = FunctionEntry {
        start: 0x1000,
        size_flags: FunctionEntry::ANALYZED | 16,
    };
    let mut tables = gates.take_tables().unwrap();
    let table = tables
        .add([entry; 3].into_iter(), [1u32, 2].into_iter())
        .unwrap();
    let range = ModuleRange {
        start: 1,
        end: 2,
        base: 0,
        table,
        functions: 3,
        ..Default::default()
    };
    assert_eq!(tables.set_space(&[range]), 0);
    assert_eq!(tables.set_space(&[range; SPACE_RANGES + 2]), 2);
    for gate in Gate::ALL {
        gates.program(gate).unwrap();
    }
}

/// Some of what is a process's.
fn of_process(control: &Control) -> [&AtomicU64; 6] {
    [
        &control.process.tgid,
        &control.budget.earned_ns,
        &control.watchdog.heartbeat_ns,
        &control.watchdog.standing_since_ns,
        &control.stall.known[1],
        &control.samples.elsewhere[1][1],
    ]
}

/// Check that nothing of a process is left in the control block when the next one comes, and that what is the kernel's is.
#[test]
fn gates_forget_a_process() {
    let mut gates = Gates::load(GateLog::Off).unwrap();
    let control = gates.control();
    let offsets = format!("{:?}", control.offsets);
    let others = [
        &control.counters[0],
        &control.counters[Counter::COUNT - 1],
        &control.namespace.pointer,
        &control.namespace.level,
    ];
    for field in of_process(control).into_iter().chain(others) {
        field.store(7, SeqCst);
    }
    gates.phase().enter(5, phase::STALL);
    gates.reset();
    let control = gates.control();
    let phase = gates.phase().read();
    assert_eq!((phase.generation(), phase.phase()), (6, phase::CLOSED));
    assert_eq!(control.namespace.pointer.load(SeqCst), 7);
    assert_eq!(control.namespace.level.load(SeqCst), 7);
    assert_eq!(format!("{:?}", control.offsets), offsets);
    for field in of_process(control) {
        assert_eq!(field.load(SeqCst), 0);
    }
    let counters = control.counters.iter();
    assert!(counters.map(|count| count.load(SeqCst)).all(|it| it == 0));
}

/// Check that what a process does counts as the watched one's until it executes another program without being held, and not again before it is named anew: at the
/// same addresses stands something else by then.
#[test]
fn nothing_is_watched_after_an_exec() {
    const PROGRAM: &str = r#"
            #include <pthread.h>
            #include <stdio.h>
            #include <unistd.h>
            volatile long shared;
            static void *touch(void *argument) { shared++; return argument; }
            int main(int count, char **words) {
                printf("%p\n", (void *)&shared);
                fflush(stdout);
                for (;;) {
                    pthread_t thread;
                    char go[2];
                    if (read(0, go, 2) != 2) return 0;
                    if (go[0] == 'e') execv("/proc/self/exe", words);
                    if (pthread_create(&thread, NULL, touch, NULL) != 0) return 1;
                    pthread_join(thread, NULL);
                    puts("touched");
                    fflush(stdout);
                }
            }"#;
    let mut gates = Gates::load(GateLog::Off).unwrap();
    // So that they know which ids are meant.
    trap_cost_ns(&gates).unwrap();
    let mut child = Child::run(PROGRAM, &["-no-pie", "-pthread"]);
    let place = child.read_line();
    let address = u64::from_str_radix(place.trim().trim_start_matches("0x"), 16).unwrap();
    let watchpoints: Vec<PerfEvent> = cpus::online()
        .into_iter()
        .map(|cpu| {
            let mut event = PerfEvent::watchpoint_on_cpu(cpu).unwrap();
            event.set_gate(gates.program(Gate::Watch).unwrap()).unwrap();
            event
                .watch(RuntimeAddr(address), 8, WatchKind::Writes)
                .unwrap();
            event
        })
        .collect();
    let control = gates.control();
    let pid = u64::from(child.pid().as_raw().cast_unsigned());
    control.events.watch_by_cpu.store(1, SeqCst);
    control.evidence.keep_unanalyzed.store(1, SeqCst);
    control.sharing.address.store(address, SeqCst);
    control.process.tgid.store(pid, SeqCst);
    let touch = |child: &mut Child| {
        child.send_line("t");
        child.wait_for_line("touched");
        let threads = &control.counters[Counter::Threads as usize];
        [&control.sharing.others, threads].map(|count| count.load(SeqCst))
    };
    assert_eq!(touch(&mut child), [1, 1]);
    child.send_line("e");
    child.wait_for_line(place.trim());
    assert_eq!(control.process.tgid.load(SeqCst), NO_PROCESS);
    assert_eq!(touch(&mut child), [1, 1]);
    control.process.tgid.store(pid, SeqCst);
    assert_eq!(touch(&mut child), [2, 2]);
    drop(watchpoints);
    let told = std::iter::from_fn(|| gates.next_event());
    let execs = told.filter(|event| event.kind == EVENT_EXEC);
    assert_eq!(
        execs.map(|event| u64::from(event.tid)).collect::<Vec<_>>(),
        [pid]
    );
}
