//! The loader: scans the target's modules on a thread of its own.
//!
//! Reading a large file takes its time, and filling the gates' tables waits for every processor
//! (RCU). What was read serves later processes as well ([`Shelf`]). Meanwhile the engine's thread must be there for the target's threads, some of which may
//! stand still until it passes their signals on. So it asks, goes on, and is told.

mod queue;

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};

use super::modules::{Changes, ModuleSet, RefreshError, Shelf};
use crate::kernel::{
    KernelError, descriptors, fault,
    process::{self, Bell, Employer, Urgency, WorkClock},
    tables::Tables,
};
use queue::Queue;

use crate::reader::{Asking, CodeReader, OutlineReader, Program};

/// What a scan has shown: all modules, and what is new since the scan before.
pub type Scan = Result<(Arc<ModuleSet>, Changes), RefreshError>;

#[derive(Debug)]
struct Request {
    ticket: u64,
    pid: u32,
    wanted: Wanted,
    /// Another one came before it, and was not served, after which nothing is known of the process.
    is_anew: bool,
}

#[derive(Debug)]
enum Wanted {
    /// A scan of the process, which may be another program's by now.
    Scan {
        anew: bool,
        /// Where accesses are to be judged.
        judged: Vec<u64>,
    },
    /// Nothing of it any more.
    Nothing,
}

impl Wanted {
    /// Whether nothing that is known holds any more.
    const fn forgets(&self) -> bool {
        !matches!(self, Self::Scan { anew: false, .. })
    }
}

struct Answer {
    ticket: u64,
    /// `None`: it has forgotten the process.
    scan: Option<Scan>,
    /// Another one comes, of which more is known.
    is_provisional: bool,
}

/// See the module.
pub struct Loader {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
    employer: Employer,
    /// Of the last request: earlier ones are of no interest any more.
    ticket: u64,
    /// The answer to it for which more is still read.
    provisional: Option<Scan>,
    /// CPU time that reading the memory map took in the last scan.
    reading: Duration,
}

impl Loader {
    /// Starts the thread. It ends when this is dropped. What it works is handed over to the clock.
    ///
    /// # Errors
    /// Fails where no thread or eventfd(2) can be had.
    pub fn start(tables: Tables, clock: WorkClock) -> Result<Self, KernelError> {
        let employer = Employer {
            bell: Arc::new(Bell::new()?),
            clock,
        };
        fault::before("clone", || "the loader's thread".to_owned())?;
        let (requests, asked) = mpsc::channel();
        let (told, answers) = mpsc::channel();
        let of_thread = employer.clone();
        std::thread::Builder::new()
            .name("gwp-race-loader".to_owned())
            .spawn(move || {
                process::hurry(Urgency::Usual);
                // Should it wait for a file for ever, the events and the socket are to end with the tracer all the same.
                if let Err(error) = descriptors::own_table_of_maps(&[of_thread.bell.as_fd()]) {
                    tracing::debug!(%error, "the loader shares the tracer's descriptors");
                }
                serve(tables, Queue::of(asked), &told, &of_thread);
            })
            .map_err(|cause| KernelError::other("clone", "the loader's thread", cause))?;
        Ok(Self {
            requests,
            answers,
            employer,
            ticket: 0,
            provisional: None,
            reading: Duration::ZERO,
        })
    }

    /// Asks for a scan of a process; what was asked before is not answered any more. `anew`: it
    /// has executed another program, so that nothing is as it was.
    pub fn scan(&mut self, pid: u32, anew: bool) {
        let judged = Vec::new();
        self.ask(pid, Wanted::Scan { anew, judged });
    }

    /// Asks for a scan after which accesses at these addresses can be judged: what else compilers tell of the code there is read as well.
    pub fn scan_to_judge(&mut self, pid: u32, judged: Vec<u64>) {
        let anew = false;
        self.ask(pid, Wanted::Scan { anew, judged });
    }

    /// Asks to forget a process that has ended; what was asked before is not answered any more. What was read of its files is kept.
    pub fn leave(&mut self, pid: u32) {
        self.reading = Duration::ZERO;
        self.ask(pid, Wanted::Nothing);
    }

    fn ask(&mut self, pid: u32, wanted: Wanted) {
        self.ticket += 1;
        self.provisional = None;
        // The thread lives as long as `self`; if it has panicked, no answer comes.
        let _ = self.requests.send(Request {
            ticket: self.ticket,
            pid,
            wanted,
            is_anew: false,
        });
    }

    /// Whether the process that it was asked to [leave](Self::leave) is forgotten by now.
    ///
    /// # Errors
    /// Fails when the thread has ended.
    pub fn has_left(&self) -> Result<bool, KernelError> {
        loop {
            match self.answers.try_recv() {
                Ok(answer) if answer.ticket == self.ticket => return Ok(true),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => return Err(has_ended()),
            }
        }
    }

    /// Readable when an answer may have come, until it is [heard](Self::hear).
    #[must_use]
    pub fn news(&self) -> BorrowedFd<'_> {
        self.employer.bell.as_fd()
    }

    /// What makes it readable, and counts what is worked: others who work for the engine's thread have it as well.
    #[must_use]
    pub const fn employer(&self) -> &Employer {
        &self.employer
    }

    /// Takes note that it is readable. Whoever has waited for it does so, whether or not it is answers that he looks for now: an answer can be
    /// taken before it is told of, and what nobody hears would let nobody sleep.
    pub fn hear(&self) {
        self.employer.bell.silence();
    }

    /// How long there is to be no other scan, so that scans take at most a part of a budget (a fraction of the target's time): what one costs
    /// decides how often it is done. The map of a process can have hundreds of megabytes.
    #[must_use]
    pub fn pause(&self, budget: f64) -> Duration {
        /// The part of the budget.
        const PART: f64 = 0.2;
        /// Code that is loaded meanwhile is not watched, so this is long enough.
        const LONGEST: Duration = Duration::from_secs(300);
        let pause = self.reading.as_secs_f64() / (budget * PART);
        Duration::try_from_secs_f64(pause).map_or(LONGEST, |pause| pause.min(LONGEST))
    }

    /// Whether a scan costs more than a stall may wait for.
    #[must_use]
    pub fn is_dear(&self) -> bool {
        const DEAR: Duration = Duration::from_millis(3);
        self.reading > DEAR
    }

    /// The answer to the last request, if it has come.
    #[must_use]
    pub fn answer(&mut self) -> Option<Scan> {
        self.next_answer(|answers| {
            answers.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        })
    }

    /// The answer to the last request, if it comes within this time; what is known so far, if more is still read then: nothing comes after that.
    #[must_use]
    pub fn answer_within(&mut self, limit: Duration) -> Option<Scan> {
        let until = Instant::now() + limit;
        let left = || until.saturating_duration_since(Instant::now());
        let answer = self.next_answer(|answers| answers.recv_timeout(left()));
        answer.or_else(|| {
            let provisional = self.provisional.take()?;
            self.ticket += 1;
            Some(provisional)
        })
    }

    fn next_answer(
        &mut self,
        receive: impl Fn(&Receiver<Answer>) -> Result<Answer, RecvTimeoutError>,
    ) -> Option<Scan> {
        loop {
            match receive(&self.answers) {
                Ok(Answer {
                    ticket,
                    scan: Some(scan),
                    is_provisional,
                }) if ticket == self.ticket => {
                    if let Ok((_, changes)) = &scan {
                        self.reading = changes.reading;
                    }
                    if !is_provisional {
                        self.provisional = None;
                        return Some(scan);
                    }
                    self.provisional = Some(scan);
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Err(has_ended().into()));
                }
            }
        }
    }
}

fn has_ended() -> KernelError {
    KernelError::other("reading", "the modules", "the loader has ended")
}

fn serve(mut tables: Tables, mut asked: Queue, told: &Sender<Answer>, employer: &Employer) {
    let mut modules = ModuleSet::default();
    let mut shelf = Shelf::default();
    let mut reader = CodeReader::new(readers(Program::default));
    let mut outlines = OutlineReader::new(readers(Program::of_outlines));
    let charge = |cpu: Duration| {
        let cpu = u64::try_from(cpu.as_nanos());
        employer.clock.add(cpu.unwrap_or(u64::MAX));
    };
    while let Some(request) = asked.wait(|| {
        let goes_on = outlines.is_reading();
        charge(outlines.take_cpu());
        goes_on
    }) {
        let Request {
            ticket,
            pid,
            wanted,
            is_anew,
        } = request;
        if is_anew || wanted.forgets() {
            modules.unload(&mut tables, &mut shelf);
            reader.rest();
            outlines.rest();
        }
        let tell = |scan, is_provisional| {
            let answer = Answer {
                ticket,
                scan,
                is_provisional,
            };
            told.send(answer).is_ok()
        };
        let scan = match wanted {
            Wanted::Nothing => {
                tables.set_space(&[]);
                None
            }
            Wanted::Scan { anew, judged } => {
                let mut before = None;
                if modules.is_known() {
                    // Should there be no time for what is new: nobody is told of it who waits for all.
                    let asking = outlines.begin_at_once(modules.bytes());
                    let look = look_at(pid, &mut modules, &mut tables, &mut shelf, asking);
                    if let Ok(changes) = &look
                        && modules.is_incomplete()
                        && !tell(Some(Ok((Arc::new(modules.clone()), changes.clone()))), true)
                    {
                        return;
                    }
                    before = Some(look);
                }
                let changes = match before {
                    Some(look) if look.is_err() || !modules.is_incomplete() => look,
                    before => {
                        let mut turn = |cpu| {
                            charge(cpu);
                            asked.is_past()
                        };
                        let asking = outlines.begin(modules.bytes(), &mut turn);
                        let look = look_at(pid, &mut modules, &mut tables, &mut shelf, asking);
                        match (before, look) {
                            (Some(Ok(mut changes)), Ok(later)) => {
                                changes.add(later);
                                Ok(changes)
                            }
                            // It has ended meanwhile; what was seen before counts for what is still to be judged.
                            (Some(Ok(changes)), Err(RefreshError::Target(error)))
                                if error.is_vanished() =>
                            {
                                Ok(changes)
                            }
                            (_, look) => look,
                        }
                    }
                };
                let mut scan = changes.map(|mut changes| {
                    changes.unloaded |= anew;
                    (Arc::new(modules.clone()), changes)
                });
                if !judged.is_empty()
                    && let Ok((known, changes)) = &mut scan
                {
                    // Should there be no time for more.
                    if !tell(Some(Ok((Arc::clone(known), changes.clone()))), true) {
                        return;
                    }
                    modules.read_code_tables(&judged, &mut reader, || asked.is_past());
                    *known = Arc::new(modules.clone());
                }
                // Where something else is asked for, nobody hears this answer.
                if let Ok((_, changes)) = &mut scan
                    && !asked.is_past()
                {
                    changes.warnings.extend(outlines.take_warnings());
                    changes.warnings.extend(reader.take_warnings());
                }
                Some(scan)
            }
        };
        charge(reader.take_cpu() + outlines.take_cpu());
        if !tell(scan, false) {
            return;
        }
        employer.tell();
    }
}

/// Looks at a process once; what was told of its files is its own where that comes to its end.
fn look_at(
    pid: u32,
    modules: &mut ModuleSet,
    tables: &mut Tables,
    shelf: &mut Shelf,
    mut asking: Asking<'_>,
) -> Result<Changes, RefreshError> {
    let changes = modules.refresh(pid, tables, shelf, &mut asking)?;
    asking.is_taken();
    Ok(changes)
}

/// What reads files.
fn readers(usual: fn() -> Program) -> Program {
    #[cfg(test)]
    return {
        let _ = usual;
        crate::reader::testing::program()
    };
    #[cfg(not(test))]
    usual()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;
    use std::process::Command;

    /// Check that scans take at most a part of the budget, where reading the map is what costs, and that one comes again some time.
    #[test]
    fn dear_scans_are_rare() {
        let mut loader = Loader::start(Tables::unneeded(), WorkClock::of_share(1)).unwrap();
        assert_eq!(loader.pause(0.01), Duration::ZERO);
        assert!(!loader.is_dear());
        loader.reading = Duration::from_millis(10);
        assert!(loader.is_dear());
        for budget in [0.001, 0.01, 0.05, 1.0] {
            let pause = loader.pause(budget);
            assert!(loader.reading.as_secs_f64() / pause.as_secs_f64() < budget / 4.0);
        }
        loader.reading = Duration::from_secs(10);
        assert!(loader.pause(0.01) < Duration::from_secs(1000));
    }

    /// Check that an answer which was taken before the loader could ring for it leaves nothing that is readable once it was heard: whoever
    /// waits for news would not sleep until the next scan.
    #[test]
    fn what_was_heard_is_silent() {
        const LIMIT: Duration = Duration::from_secs(20);
        let readable = |loader: &Loader, limit| {
            let [is] = process::wait_readable([loader.news()], Some(limit)).unwrap();
            is
        };
        let child = Child::run("#include <unistd.h>\nint main() { pause(); }", &[]);
        let pid = child.pid().as_raw().cast_unsigned();
        let mut loader = Loader::start(Tables::unneeded(), WorkClock::of_share(1)).unwrap();
        for round in 0..20 {
            loader.scan(pid, round == 0);
            if round % 2 == 0 {
                let start = Instant::now();
                while loader.answer().is_none() {
                    assert!(start.elapsed() < LIMIT);
                }
            } else {
                assert!(loader.answer_within(LIMIT).is_some());
            }
            assert!(readable(&loader, LIMIT), "nobody has rung in round {round}");
            loader.hear();
            assert!(!readable(&loader, Duration::ZERO), "round {round}");
            assert!(loader.answer().is_none());
        }
    }

    /// Check that blocks are known around the places that are to be judged, and there alone, that a reader has worked for that, and that the next process has none of it.
    #[test]
    fn tables_are_asked_for_where_it_is_judged() {
        const LIMIT: Duration = Duration::from_secs(20);
        let child = Child::run(
            "#include <stdio.h>\n#include <unistd.h>\nint shared;\n\
             __attribute__((noinline)) void other(int n) { while (n--) shared++; }\n\
             int main(int n, char **a) { other(n); printf(\"%p %p\\n\", (void *)main, (void *)other); fflush(stdout); pause(); }",
            &[
                "-fexperimental-sanitize-metadata=atomics",
                "-fbasic-block-address-map",
            ],
        );
        let line = child.read_line();
        let mut addresses = line
            .trim()
            .split(' ')
            .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap());
        let (main, other) = (addresses.next().unwrap(), addresses.next().unwrap());
        let pid = child.pid().as_raw().cast_unsigned();
        let clock = WorkClock::of_share(1);
        let mut loader = Loader::start(Tables::unneeded(), clock.clone()).unwrap();
        loader.scan(pid, false);
        let (modules, _) = loader.answer_within(LIMIT).unwrap().unwrap();
        let block = |modules: &ModuleSet, pc| {
            let place = modules.place(pc).unwrap();
            place.code_tables().block_at(place.link)
        };
        assert_eq!(block(&modules, main), None);
        loader.scan_to_judge(pid, vec![main]);
        let (modules, changes) = loader.answer_within(LIMIT).unwrap().unwrap();
        assert_eq!(changes.warnings, Vec::<String>::new());
        let found = block(&modules, main).unwrap();
        assert_eq!(found.start, modules.place(main).unwrap().link);
        assert_eq!(block(&modules, other), None);
        loader.scan_to_judge(pid, vec![other]);
        let (modules, _) = loader.answer_within(LIMIT).unwrap().unwrap();
        assert!(block(&modules, main).is_some() && block(&modules, other).is_some());
        loader.leave(pid);
        while !loader.has_left().unwrap() {}
        loader.scan(pid, false);
        let (modules, _) = loader.answer_within(LIMIT).unwrap().unwrap();
        assert_eq!(block(&modules, main), None);
    }

    /// Check that whoever cannot wait for what else is told of the code has the modules all the same, and no second answer.
    #[test]
    fn modules_do_not_wait_for_tables() {
        const LIMIT: Duration = Duration::from_secs(20);
        // "misdeed hang".
        let child = Child::run(
            "#include <stdio.h>\n#include <unistd.h>\nint main() { printf(\"%p\\n\", (void *)main); fflush(stdout); pause(); }",
            &[
                "-fexperimental-sanitize-metadata=atomics",
                "-fbasic-block-address-map",
                "-Wl,--build-id=0x6d6973646565642068616e67",
            ],
        );
        let line = child.read_line();
        let main = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).unwrap();
        let pid = child.pid().as_raw().cast_unsigned();
        let mut loader = Loader::start(Tables::unneeded(), WorkClock::of_share(1)).unwrap();
        loader.scan(pid, false);
        let _ = loader.answer_within(LIMIT).unwrap().unwrap();
        let start = Instant::now();
        loader.scan_to_judge(pid, vec![main, main + 1, main + 2]);
        let (modules, _) = loader
            .answer_within(Duration::from_secs(2))
            .unwrap()
            .unwrap();
        assert!(modules.place(main).is_some());
        // What it knows better after that is nobody's.
        assert!(loader.provisional.is_none() && loader.answer().is_none());
        loader.leave(pid);
        while !loader.has_left().unwrap() {
            assert!(start.elapsed() < LIMIT);
        }
    }

    /// Check that a file which gets the better of its reader is no module, which is told, while the process's others are; that its readers' work is known; and that
    /// the next process has it read anew.
    #[test]
    fn a_file_that_ends_its_readers() {
        const LIMIT: Duration = Duration::from_secs(60);
        // "outline crash".
        let child = Child::run(
            "#include <stdio.h>\n#include <unistd.h>\nint main() { printf(\"%p %p\\n\", (void *)main, (void *)getpid); fflush(stdout); pause(); }",
            &[
                "-fexperimental-sanitize-metadata=atomics",
                "-Wl,--build-id=0x6f75746c696e65206372617368",
            ],
        );
        let line = child.read_line();
        let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
        let addresses: Vec<u64> = line.trim().split(' ').map(address).collect();
        let pid = child.pid().as_raw().cast_unsigned();
        let mut loader = Loader::start(Tables::unneeded(), WorkClock::of_share(1)).unwrap();
        for _ in 0..2 {
            loader.scan(pid, false);
            let (modules, changes) = loader.answer_within(LIMIT).unwrap().unwrap();
            assert!(modules.place(addresses[0]).is_none());
            let told = changes.warnings.join(" ");
            assert!(modules.place(addresses[1]).is_some(), "{told}");
            assert!(told.contains("3 times over that file"), "{told}");
            loader.leave(pid);
            while !loader.has_left().unwrap() {}
        }
    }

    /// Check that what was read of a process's files serves the next one that maps them, and that a file is read anew that has changed.
    #[test]
    fn what_was_read_is_kept() {
        const LIMIT: Duration = Duration::from_secs(20);
        let scan = |loader: &mut Loader, child: &Child| {
            loader.scan(child.pid().as_raw().cast_unsigned(), false);
            let (modules, _) = loader.answer_within(LIMIT).unwrap().unwrap();
            assert!(modules.analyzed() > 0);
            modules
        };
        let leave = |loader: &mut Loader, child: &Child| {
            loader.leave(child.pid().as_raw().cast_unsigned());
            let start = Instant::now();
            while !loader.has_left().unwrap() {
                assert!(start.elapsed() < LIMIT);
            }
        };
        let first = Child::run(
            "#include <stdio.h>\n#include <unistd.h>\nint shared;\n\
             int main() { shared++; puts(\"ready\"); fflush(stdout); pause(); }",
            &["-fexperimental-sanitize-metadata=atomics"],
        );
        let exe = first.exe();
        let another = || {
            let child = Child::start(tempfile::tempdir().unwrap(), Command::new(&exe));
            child.wait_for_line("ready");
            child
        };
        first.wait_for_line("ready");
        let mut loader = Loader::start(Tables::unneeded(), WorkClock::of_share(1)).unwrap();
        let before = scan(&mut loader, &first);
        leave(&mut loader, &first);
        let second = another();
        let same = scan(&mut loader, &second);
        assert!(same.shares_files_with(&before));
        leave(&mut loader, &second);
        // By another process: what a thread of this one starts may have open what this one writes, and it could not be executed then.
        let written = exe.with_extension("new");
        let status = Command::new("cp").args([&exe, &written]).status();
        assert!(status.unwrap().success());
        std::fs::rename(&written, &exe).unwrap();
        let third = another();
        let changed = scan(&mut loader, &third);
        assert!(!changed.shares_files_with(&before));
    }
}
