//! A tracer in its own process: what it refuses, and what it leaves.

use std::io::{Read as _, Write as _};

use super::super::budget::Allowance;
use super::super::wire::{self, Command, Ending, Setup};
use super::preparation::read_preparation;
use super::*;
use crate::kernel::calibrate::trap_cost_ns;
use crate::kernel::gates::GateLog;
use crate::kernel::process::testing::is_sigchld_blocked;
use crate::tracee::testing::Child;

const LIMIT: Duration = Duration::from_secs(30);
/// How programs are compiled.
const FLAGS: [&str; 3] = [
    "-pthread",
    "-O1",
    "-fexperimental-sanitize-metadata=atomics",
];

/// Check that a tracer which is given a process that has ended meanwhile says so, and is ready for another one.
#[test]
fn who_has_ended_is_told_and_left() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let (mut slot, tracer) = without_gates();
    for _ in 0..3 {
        assert!(matches!(slot.hear(), Notice::Ready { .. }));
        slot.say(&Command::Watch(Box::new(Setup::usual(pid))));
        let notice = slot.hear();
        assert!(matches!(notice, Notice::Failed(_)), "{notice:?}");
    }
    assert!(matches!(slot.hear(), Notice::Ready { .. }));
    slot.say(&Command::Stop);
    assert_eq!(tracer.join().unwrap(), 0);
}

/// Check that a process which somebody has stopped is watched and let go as any other, stays stopped, and pays for what was done to it alone, not for having stood before.
#[test]
fn who_stands_already_pays_for_no_stop() {
    const PROGRAM: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static void *wait(void *argument) {
            pause();
            return argument;
        }
        int main(void) {
            pthread_t thread;
            for (int i = 0; i < 50; i++) pthread_create(&thread, NULL, wait, NULL);
            puts("ready");
            fflush(stdout);
            char end;
            return read(0, &end, 1) == 1 ? 7 : 1;
        }"#;
    /// Far above what it takes to look at a process, and far below what any machine has been up for.
    const MOST_S: f64 = 5.0;
    if !is_sigchld_blocked() {
        return;
    }
    let mut program = Child::run(PROGRAM, &FLAGS);
    program.wait_for_line("ready");
    let pid = program.pid().as_raw().cast_unsigned();
    nix::sys::signal::kill(program.pid(), nix::sys::signal::SIGSTOP).unwrap();
    let (mut slot, tracer) = without_gates();
    slot.wait_for(|notice| matches!(notice, Notice::Ready { .. }));
    slot.say(&Command::Watch(Box::new(Setup::usual(pid))));
    slot.wait_for(|notice| matches!(notice, Notice::Watching { .. }));
    assert_ne!(tracer_of(pid), 0);
    slot.say(&Command::Leave);
    slot.wait_for(|notice| match notice {
        Notice::Ended(Ending::Stopped, statistics) => {
            let spent: f64 = statistics.spent_s.values().sum();
            assert!(spent < MOST_S, "{statistics:?}");
            true
        }
        _ => false,
    });
    slot.wait_for(|notice| matches!(notice, Notice::Ready { .. }));
    assert_eq!(tracer_of(pid), 0);
    assert!(status_of(pid, "State").starts_with('T'));
    slot.say(&Command::Stop);
    assert_eq!(tracer.join().unwrap(), 0);
    nix::sys::signal::kill(program.pid(), nix::sys::signal::SIGCONT).unwrap();
    program.send_line("end");
    assert_eq!(program.reap(), Some(7));
}

/// A tracer with one slot and without eBPF, in a thread of this process; the slot, and the thread, which ends with the exit code.
fn without_gates() -> (Daemon, std::thread::JoinHandle<u8>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let tracer = std::thread::spawn(move || {
        let ready = Ready {
            preparation: Preparation {
                stop_deadline_ns: 20_000_000,
                gate_log: false,
                slots: 1,
                leaves_breakpoints: false,
            },
            gates: vec![Gates::in_user_space().unwrap()],
            sockets: Vec::new(),
            refusal: None,
            trap_cost_ns: 0,
            ears: Ear::several(1).unwrap(),
        };
        trace(ready, ours)
    });
    (Daemon::of(theirs), tracer)
}

/// The daemon's end of a slot.
struct Daemon {
    socket: UnixStream,
    heard: Vec<u8>,
}

impl Daemon {
    fn of(socket: UnixStream) -> Self {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let heard = Vec::new();
        Self { socket, heard }
    }

    fn say(&mut self, command: &Command) {
        let frame = wire::encode(command).unwrap();
        self.socket.write_all(&frame).unwrap();
    }

    fn hear(&mut self) -> Notice {
        loop {
            if let Some(notice) = wire::decode::<Notice>(&mut self.heard).unwrap() {
                return notice;
            }
            let mut chunk = [0; 4096];
            let read = self.socket.read(&mut chunk).expect("it says nothing");
            assert_ne!(read, 0);
            self.heard.extend_from_slice(&chunk[..read]);
        }
    }

    /// Waits for what is wanted; how many races were told until then.
    fn wait_for(&mut self, is_wanted: impl Fn(&Notice) -> bool) -> u64 {
        let mut races = 0;
        loop {
            let notice = self.hear();
            assert!(!matches!(notice, Notice::Failed(_)), "{notice:?}");
            races += u64::from(matches!(notice, Notice::Race(..)));
            if is_wanted(&notice) {
                return races;
            }
        }
    }
}

/// Check that the slots of a tracer watch processes at the same time, each of which is let go when its lease ends, unharmed, and then is watched by another slot:
/// all find its race by and by. The last lease of each ends by itself, when what it may cost is spent, and not before.
#[test]
fn slots_lease_in_turns() {
    const SLOTS: usize = 4;
    const ROUNDS: usize = 6;
    /// How long one has for a race.
    const LEASE: Duration = Duration::from_millis(700);
    /// What the last one may cost, seconds.
    const MOST_S: f64 = 0.005;
    const PROGRAM: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        volatile int shared;
        static void *count(void *argument) {
            for (;;) { shared++; usleep(50); }
            return argument;
        }
        int main(void) {
            pthread_t threads[2];
            for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, count, NULL);
            puts("ready");
            fflush(stdout);
            char end;
            return read(0, &end, 1) == 1 && shared > 0 ? 7 : 1;
        }"#;
    if !is_sigchld_blocked() {
        return;
    }
    let pairs = std::iter::repeat_with(|| UnixStream::pair().unwrap());
    let (ours, mut theirs): (Vec<_>, Vec<_>) = pairs.take(SLOTS).unzip();
    for socket in &theirs {
        socket.set_nonblocking(true).unwrap();
    }
    let tracer = std::thread::spawn(move || {
        let gates = Gates::load_several(SLOTS, GateLog::Off).unwrap();
        let trap_cost_ns = gates.iter().map(|gates| trap_cost_ns(gates).unwrap()).max();
        let first = theirs.remove(0);
        let ready = Ready {
            preparation: Preparation {
                stop_deadline_ns: 20_000_000,
                gate_log: false,
                slots: SLOTS as u8,
                leaves_breakpoints: false,
            },
            gates,
            sockets: theirs,
            refusal: None,
            trap_cost_ns: trap_cost_ns.unwrap(),
            ears: Ear::several(SLOTS).unwrap(),
        };
        trace(ready, first)
    });
    let mut programs: Vec<Child> = (0..SLOTS).map(|_| Child::run(PROGRAM, &FLAGS)).collect();
    let pids: Vec<u32> = programs
        .iter()
        .map(|program| program.pid().as_raw().cast_unsigned())
        .collect();
    for program in &programs {
        program.wait_for_line("ready");
    }
    let turn = std::sync::Barrier::new(SLOTS);
    let races: Vec<u64> = std::thread::scope(|scope| {
        let slots = ours.into_iter().enumerate().map(|(number, socket)| {
            let (pids, turn) = (&pids, &turn);
            scope.spawn(move || {
                let mut slot = Daemon::of(socket);
                let mut races = 0;
                for round in 0..=ROUNDS {
                    slot.wait_for(|notice| matches!(notice, Notice::Ready { .. }));
                    let pid = pids[(number + round) % SLOTS];
                    // Its lease of before is over by now, in whichever slot that was.
                    turn.wait();
                    assert_eq!(tracer_of(pid), 0, "{pid} is held before round {round}");
                    let setup = Setup {
                        max_overhead: 0.2,
                        seed: round as u64,
                        allowance: (round == ROUNDS)
                            .then(|| Allowance::usual(Duration::from_secs_f64(MOST_S))),
                        ..Setup::usual(pid)
                    };
                    slot.say(&Command::Watch(Box::new(setup)));
                    races += slot.wait_for(|notice| matches!(notice, Notice::Watching { .. }));
                    let is_held = tracer_of(pid) != 0;
                    // The last one may be over by now.
                    assert!(
                        is_held || round == ROUNDS,
                        "nobody holds {pid} in round {round}"
                    );
                    if round == ROUNDS {
                        races += slot.wait_for(|notice| match notice {
                            Notice::Ended(Ending::Spent, statistics) => {
                                let spent: f64 = statistics.spent_s.values().sum();
                                assert!(spent >= MOST_S, "{statistics:?}");
                                true
                            }
                            _ => false,
                        });
                    } else {
                        std::thread::sleep(LEASE);
                        slot.say(&Command::Leave);
                        let has_left =
                            |notice: &Notice| matches!(notice, Notice::Ended(Ending::Stopped, _));
                        races += slot.wait_for(has_left);
                    }
                }
                slot.wait_for(|notice| matches!(notice, Notice::Ready { .. }));
                slot.say(&Command::Stop);
                races
            })
        });
        let slots: Vec<_> = slots.collect();
        slots.into_iter().map(|slot| slot.join().unwrap()).collect()
    });
    assert_eq!(tracer.join().unwrap(), 0);
    println!("races of each slot, in {ROUNDS} leases: {races:?}");
    assert!(races.iter().all(|races| *races > 0), "{races:?}");
    for program in &mut programs {
        program.send_line("end");
        assert_eq!(program.reap(), Some(7));
    }
}

/// The thread that holds a process; 0: nobody does.
fn tracer_of(pid: u32) -> u32 {
    status_of(pid, "TracerPid").parse().unwrap()
}

fn status_of(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| *name == field).unwrap();
    value.trim().to_owned()
}

/// Check that a tracer goes by the same limits, whoever has started it, and takes nothing else for its first message.
#[test]
fn limits_are_the_tracers_too() {
    let preparation = Preparation {
        stop_deadline_ns: 20_000_000,
        gate_log: false,
        slots: 1,
        leaves_breakpoints: false,
    };
    let read = |bytes: &[u8]| {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        drop(theirs);
        read_preparation(&mut ours)
    };
    let usual = read(&wire::encode(&preparation).unwrap()).unwrap();
    assert_eq!(usual.stop_deadline_ns, 20_000_000);
    let unbounded = Preparation {
        stop_deadline_ns: u64::MAX,
        ..preparation
    };
    let error = read(&wire::encode(&unbounded).unwrap()).unwrap_err();
    assert!(error.contains("deadline"), "{error}");
    for nonsense in [
        &b"\x01\0\0\0"[..],
        b"\xff\xff\xff\xff",
        b"\x02\0\0\0\xff\xff",
    ] {
        assert!(read(nonsense).is_err(), "{nonsense:?}");
    }
}
