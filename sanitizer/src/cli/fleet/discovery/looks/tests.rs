//! Looks that hang until a test wants them to end.

use std::{
    collections::HashSet,
    sync::{Condvar, Mutex},
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Looks at some processes hang here until it is opened.
#[derive(Default)]
pub struct Gate {
    hang: Mutex<HashSet<u32>>,
    opened: Condvar,
    /// Looks that have begun, in their order.
    begun: Mutex<Vec<u32>>,
}

impl Gate {
    /// One at which looks at these processes hang.
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Arc<Self> {
        Arc::new(Self {
            hang: Mutex::new(pids.into_iter().collect()),
            ..Self::default()
        })
    }

    /// Looks at this process hang as well from now on.
    pub fn close(&self, pid: u32) {
        self.hang.lock().unwrap().insert(pid);
    }

    /// All go on.
    pub fn open(&self) {
        self.hang.lock().unwrap().clear();
        self.opened.notify_all();
    }

    /// A look at this process begins.
    pub fn pass(&self, pid: u32) {
        self.begun.lock().unwrap().push(pid);
        let hang = self.hang.lock().unwrap();
        let hangs = |hang: &mut HashSet<u32>| hang.contains(&pid);
        drop(self.opened.wait_while(hang, hangs).unwrap());
    }

    /// How many looks at a process have begun.
    pub fn times(&self, pid: u32) -> usize {
        let begun = self.begun.lock().unwrap();
        begun.iter().filter(|one| **one == pid).count()
    }
}

impl Looks {
    /// As `make` has it.
    pub fn made(make: impl Fn() -> Answerer + 'static) -> Self {
        Self::by(Box::new(make), LONGEST)
    }

    /// A look that has begun is taken for one that hangs.
    pub fn hangs_now(&mut self) {
        self.longest = Duration::ZERO;
    }

    /// None is any more, unless it takes as long as usual.
    pub fn hangs_as_usual(&mut self) {
        self.longest = LONGEST;
    }
}

/// What each of these looks has its reader work, and cost.
const OF_READERS: Duration = Duration::from_mins(1);
const COST_OF_READERS: Duration = Duration::from_hours(1);

/// Looks that find all processes wanted whose ids are even.
fn looks(gate: &Arc<Gate>) -> Looks {
    let gate = Arc::clone(gate);
    Looks::made(move || {
        let gate = Arc::clone(&gate);
        let mut readers = Readers::default();
        Box::new(move |pid, _| {
            gate.pass(pid);
            readers.cpu += OF_READERS;
            readers.cost += COST_OF_READERS;
            (Answer::IsWanted(pid.is_multiple_of(2)), readers)
        })
    })
}

fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ask(looks: &mut Looks, pid: u32) {
    looks.ask(pid, Question::IsWanted((0, 0)));
}

/// The next answer, for which it waits.
fn answer(looks: &mut Looks) -> Answered {
    let mut answered = None;
    until(|| {
        answered = looks.next();
        answered.is_some()
    });
    answered.unwrap()
}

fn is_wanted(answered: &Answered) -> Option<bool> {
    match answered.answer {
        Some(Answer::IsWanted(is_wanted)) => Some(is_wanted),
        _ => None,
    }
}

/// Check that questions are answered in their order, and that what was forgotten meanwhile is not, but costs, each what it has cost.
#[test]
fn questions_are_answered() {
    let gate = Gate::of([1]);
    let mut looks = looks(&gate);
    for pid in [1, 2, 3] {
        assert!(looks.has_room() && !looks.are_at(pid));
        ask(&mut looks, pid);
        assert!(looks.are_at(pid));
    }
    assert!(looks.next().is_none());
    looks.forget(2);
    assert!(!looks.are_at(2) && looks.are_at(3));
    gate.open();
    let said = [(); 3].map(|()| {
        let answered = answer(&mut looks);
        let cost = answered.cost;
        assert!(
            cost > COST_OF_READERS && cost < 2 * COST_OF_READERS,
            "{cost:?}"
        );
        (answered.pid, is_wanted(&answered))
    });
    assert_eq!(said, [(1, Some(false)), (2, None), (3, Some(false))]);
    assert!(looks.waiting() == 0 && !looks.are_at(1));
    assert_eq!(looks.cpu_of_readers(), 3 * OF_READERS);
    assert_eq!(looks.take_late(), Duration::ZERO);
    while looks.has_room() {
        ask(&mut looks, 2);
    }
    assert_eq!(looks.waiting(), MOST_ASKED);
}

/// Check that whoever waits for an answer is told of it, and has it then.
#[tokio::test]
async fn answers_are_waited_for() {
    let gate = Gate::of([]);
    let mut looks = looks(&gate);
    ask(&mut looks, 2);
    looks.answered().await;
    looks.answered().await;
    assert_eq!(looks.next().unwrap().pid, 2);
}

/// Check that a look that hangs is left to itself, told once, and keeps nobody else waiting; that its answer is not heard when it comes, but what it has cost counts; and that what was to come after it is not asked twice.
#[test]
fn who_hangs_is_left() {
    let gate = Gate::of([1]);
    let mut looks = looks(&gate);
    for pid in [1, 2, 3] {
        ask(&mut looks, pid);
    }
    until(|| gate.times(1) == 1);
    assert_eq!(looks.leave_hung(), None);
    looks.hangs_now();
    assert_eq!(looks.leave_hung(), Some(1));
    looks.hangs_as_usual();
    assert!(looks.are_at(1));
    for pid in [2, 3] {
        let answered = answer(&mut looks);
        assert_eq!((answered.pid, is_wanted(&answered)), (pid, Some(pid == 2)));
    }
    assert_eq!((looks.leave_hung(), looks.waiting()), (None, 0));
    gate.open();
    until(|| {
        assert_eq!(looks.leave_hung(), None);
        !looks.are_at(1)
    });
    assert_eq!(looks.take_late(), Duration::ZERO);
    assert!(looks.next().is_none());
    assert!(looks.take_late() > COST_OF_READERS && looks.take_late() == Duration::ZERO);
    assert_eq!(looks.cpu_of_readers(), 3 * OF_READERS);
    assert_eq!([1, 2, 3].map(|pid| gate.times(pid)), [1; 3]);
}

/// Check that no more than so many looks hang, and that it goes on when one of them has come to its end.
#[test]
fn so_many_hang() {
    const BEHIND: u32 = 1000;
    let most = u32::try_from(MOST_HUNG).unwrap();
    let gate = Gate::of(0..most);
    let mut looks = looks(&gate);
    for pid in 0..most {
        assert!(looks.has_room());
        ask(&mut looks, pid);
        until(|| gate.times(pid) == 1);
        looks.hangs_now();
        assert_eq!(looks.leave_hung(), Some(pid));
        looks.hangs_as_usual();
    }
    assert!(looks.are_hung() && !looks.has_room());
    ask(&mut looks, BEHIND);
    assert_eq!((looks.leave_hung(), looks.waiting()), (None, 1));
    assert!(looks.thread.is_none());
    gate.open();
    until(|| {
        assert_eq!(looks.leave_hung(), None);
        !looks.are_hung()
    });
    assert_eq!(answer(&mut looks).pid, BEHIND);
}
