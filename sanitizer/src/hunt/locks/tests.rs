use nix::unistd::Pid;

use super::*;
use crate::report::finding::LockKind;
use crate::tracee::memory::Resident;

const LATER: u64 = u64::MAX;

/// What the calling thread holds, by these registers and this stack.
fn held_here(regs: &Regs, stack: &[u64], robust_list: u64) -> Vec<u64> {
    let resident = Resident::of(Pid::this()).expect("it is this process");
    let memory = |address, bytes: &mut [u8]| resident.read_exact(Pid::this(), address, bytes);
    let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let holder = Holder {
        id: nix::unistd::gettid().as_raw().cast_unsigned(),
        pc: regs.rip,
        regs,
        stack: &stack,
        robust_list,
    };
    let found = find(&ModuleSet::default(), &holder, &memory, LATER).alone;
    found.into_iter().map(|lock| lock.address).collect()
}

/// Check that a lock of this process is found by a register, by a word of the stack, and by the list of robust locks, while this thread holds it, and that
/// nobody is told to hold it before, afterwards, or while another thread does.
#[test]
fn locks_of_this_process() {
    use std::cell::UnsafeCell;
    use std::mem::MaybeUninit;
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let robust = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    // SAFETY: the attributes are initialized first, and the mutex is used by this thread alone.
    unsafe {
        libc::pthread_mutexattr_init(attributes.as_mut_ptr());
        libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
        assert_eq!(
            libc::pthread_mutex_init(robust.get(), attributes.as_ptr()),
            0
        );
    }
    let plain = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let tid = nix::unistd::gettid().as_raw().cast_unsigned();
    let list = crate::kernel::robust_list::head(tid).expect("it is this thread");
    for (mutex, list) in [(&plain, 0), (&robust, list)] {
        let address = mutex.get() as u64;
        let by_register = Regs {
            rbx: address,
            ..Regs::default()
        };
        let held = || {
            let found = [
                held_here(&by_register, &[], 0),
                held_here(&Regs::default(), &[7, address], 0),
                held_here(&Regs::default(), &[], list),
            ];
            found.map(|found| found.contains(&address))
        };
        assert_eq!(held(), [false; 3]);
        // SAFETY: the mutex is initialized, and stays where it is.
        assert_eq!(unsafe { libc::pthread_mutex_lock(mutex.get()) }, 0);
        assert_eq!(held(), [true, true, list != 0]);
        let elsewhere = std::thread::scope(|scope| {
            let other = scope.spawn(|| held_here(&by_register, &[address], 0));
            other.join().expect("it only looks")
        });
        assert!(!elsewhere.contains(&address));
        // SAFETY: this thread holds it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex.get()) }, 0);
        assert_eq!(held(), [false; 3]);
    }
}

/// Words in a page at 0x10000, as memory.
fn page(words: &[u32]) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool + use<> {
    let mut bytes = vec![0; PAGE];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    move |address, buffer| {
        let at = address.0.checked_sub(ADDRESSES.start);
        let from = at.and_then(|at| usize::try_from(at).ok());
        let found = from.and_then(|from| bytes.get(from..)?.get(..buffer.len()));
        found.is_some_and(|found| {
            buffer.copy_from_slice(found);
            true
        })
    }
}

/// Check that a lock is found anywhere in a page to which something points, but where ids are small numbers only at the address itself; and that nothing is told
/// when there is no time.
#[test]
fn locks_near_what_is_pointed_to() {
    const START: u64 = ADDRESSES.start;
    let found = |id: u32, points_to: u64, until: u64| {
        let memory = page(&[0, 0, 1, 0, id, 1, 0, 0, 0, 0, 0, 0]);
        let regs = Regs {
            rdi: points_to,
            ..Regs::default()
        };
        let holder = Holder {
            id,
            pc: regs.rip,
            regs: &regs,
            stack: &[],
            robust_list: 0,
        };
        find(&ModuleSet::default(), &holder, &memory, until).alone
    };
    let lock = HeldLock {
        address: START + 8,
        kind: LockKind::Mutex,
    };
    assert_eq!(found(4711, START + 0x800, LATER), [lock]);
    assert_eq!(found(4711, START + 0x1000, LATER), []);
    assert_eq!(found(100, START + 0x800, LATER), []);
    assert_eq!(found(100, START + 8, LATER), [lock]);
    assert_eq!(found(1, START + 8, LATER), []);
    assert_eq!(found(0, START + 8, LATER), []);
    assert_eq!(found(4711, START + 8, 0), []);
}

/// Check that locks on the holder's own stack are not told, be they what calls have left or copies, and that those with links are, wherever they are, if a list leads to them.
#[test]
fn copies_are_no_locks() {
    const START: u64 = ADDRESSES.start;
    const ID: u32 = 4711;
    let found = |words: &[u32], rsp: u64| {
        let memory = page(words);
        let regs = Regs {
            rdi: START,
            rsp,
            ..Regs::default()
        };
        let holder = Holder {
            id: ID,
            pc: regs.rip,
            regs: &regs,
            stack: &[],
            robust_list: 0,
        };
        find(&ModuleSet::default(), &holder, &memory, LATER)
            .alone
            .len()
    };
    let plain = [1, 0, ID, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(found(&plain, START + STACK + 0x2000), 1);
    for rsp in [START - 0x100, START, START + 0x100, START + 0x1000] {
        assert_eq!(found(&plain, rsp), 0);
    }
    // Behind the lock there is the head of the list, which leads to it.
    let linked = |next: u64| {
        let start = START as u32;
        let mut words = vec![ID, 1, ID, 1, 0x10, 0, start + 48, 0, start + 48, 0, 0, 0];
        words.extend([next as u32, (next >> 32) as u32]);
        words
    };
    assert_eq!(found(&linked(START + layout::NEXT), START), 1);
    assert_eq!(found(&linked(START + layout::NEXT + INHERITS), START), 1);
    assert_eq!(found(&linked(START + 0x1000), START), 0);
}

/// Check that a lock which both threads seem to hold is told of neither, and all others of who holds them.
#[test]
fn one_holds_a_lock_at_a_time() {
    let lock = |address| HeldLock {
        address,
        kind: LockKind::Mutex,
    };
    let both = [[1, 2], [2, 3]].map(|both| Holds {
        alone: both.map(lock).to_vec(),
        written: None,
    });
    let told = of_one(both.each_ref()).map(|holds| holds.alone);
    assert_eq!(told, [vec![lock(1)], vec![lock(3)]]);
}

/// Check which lock is watched that may be held for reading: one that something points to, or the only one that there is, and none on the thread's own stack.
#[test]
fn lock_that_may_be_held_for_reading() {
    const START: u64 = ADDRESSES.start;
    let shared = |places: &[usize], points_to: u64, rsp: u64| {
        let mut words = [u32::MAX; PAGE / 4];
        for &place in places {
            words[place / 4..][..14].copy_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        let memory = page(&words);
        let regs = Regs {
            rdi: points_to,
            rsp,
            ..Regs::default()
        };
        let holder = Holder {
            id: 4711,
            pc: regs.rip,
            regs: &regs,
            stack: &[],
            robust_list: 0,
        };
        find(&ModuleSet::default(), &holder, &memory, LATER).shared
    };
    assert_eq!(shared(&[], START, 0), None);
    assert_eq!(shared(&[64], START, 0), Some(START + 64));
    assert_eq!(shared(&[64, 256], START, 0), None);
    assert_eq!(shared(&[64, 256], START + 256, 0), Some(START + 256));
    assert_eq!(shared(&[64], START, START + 0x100), None);
}
