//! The locks that the two sides of a race hold: their names, and what follows from them.

use super::clean::clean;
use super::finding::{Finding, HeldLock, Holds, LockKind, SideFacts, WrittenLock};
use super::hex::Hex;
use super::model::{Access, Lock, LockMode, Race};
use super::names;
use super::own_code::is_library;
use super::words::padded;
use crate::symbols::Symbolizer;

/// Bytes of locks on x86-64 (`__SIZEOF_PTHREAD_MUTEX_T` and `__SIZEOF_PTHREAD_RWLOCK_T` of bits/pthreadtypes-arch.h; those of musl are the same).
const fn size(kind: LockKind) -> u32 {
    match kind {
        LockKind::Mutex => 40,
        LockKind::Rwlock => 56,
    }
}

/// The locks that one side of a finding holds.
pub(super) fn locks_of(symbolizer: &Symbolizer, finding: &Finding, side: &SideFacts) -> Vec<Lock> {
    let lock = |held: &HeldLock, mode| Lock {
        kind: held.kind,
        mode,
        name: name(symbolizer, finding, held),
        address: Hex(held.address),
    };
    let Holds { alone, written } = &side.holds;
    let mut locks: Vec<Lock> = (alone.iter())
        .map(|held| lock(held, LockMode::Write))
        .collect();
    // Whom a lock names as its writer has it alone.
    let sides = [&finding.stalled, &finding.racing];
    let is_alone = |address| {
        let mut alone = sides.iter().flat_map(|side| &side.holds.alone);
        alone.any(|held| held.address == address)
    };
    if let Some(WrittenLock {
        address,
        behind,
        is_given: true,
    }) = *written
        && !is_alone(address)
        && releases(symbolizer, &finding.exe, behind.wrapping_sub(1))
    {
        let kind = LockKind::Rwlock;
        locks.push(lock(&HeldLock { address, kind }, LockMode::Read));
    }
    locks
}

/// Whether the code at an address is what releases read-write locks in the C libraries, or in a program that has one of them in it.
fn releases(symbolizer: &Symbolizer, exe: &str, pc: u64) -> bool {
    let is_release = |name: &str| {
        // glibc's own names have up to three more.
        let name = name.trim_start_matches('_');
        matches!(name, "pthread_rwlock_unlock" | "pthread_rwlock_rdunlock")
    };
    let module = symbolizer.module_at(pc);
    let is_known = module.is_some_and(|module| is_library(&module.path) || module.path == exe);
    let frames = match is_known {
        true => symbolizer.frames(pc),
        false => Vec::new(),
    };
    let mut functions = frames.iter().filter_map(|frame| frame.function.as_deref());
    functions.any(is_release)
}

/// What a lock is called that is a global variable, or a part of one.
fn name(symbolizer: &Symbolizer, finding: &Finding, held: &HeldLock) -> Option<String> {
    let global = symbolizer.global_at(held.address)?;
    let bytes = (held.address, size(held.kind));
    let sides = [&finding.stalled, &finding.racing];
    let member = |side: &SideFacts| symbolizer.member_at(side.pc, bytes);
    let member = sides.into_iter().find_map(member).unwrap_or_default();
    let name = names::variable(&global.name);
    Some(if member.is_empty() && global.offset != 0 {
        format!("{name}+{}", global.offset)
    } else {
        format!("{name}{member}")
    })
}

/// What a lock is called.
fn called(lock: &Lock) -> String {
    let kind = match lock.kind {
        LockKind::Mutex => "mutex",
        LockKind::Rwlock => "rwlock",
    };
    let address = padded(lock.address);
    match &lock.name {
        Some(name) => format!("{kind} '{}' ({address})", clean(name)),
        None => format!("{kind} ({address})"),
    }
}

/// The locks that a side holds, or that none is known.
pub(super) fn holds(access: &Access) -> String {
    if access.holds.is_empty() {
        return "none known".to_owned();
    }
    let lock = |lock: &Lock| match lock.mode {
        LockMode::Read => format!("{}, for reading", called(lock)),
        LockMode::Write => format!("{}, for writing", called(lock)),
    };
    let locks: Vec<String> = access.holds.iter().map(lock).collect();
    locks.join("; ")
}

/// What is missing where a side holds locks. One that the other side holds as well, which made its access meanwhile, is held by both for reading.
pub(super) fn missing_lock(race: &Race) -> Option<String> {
    let [stalled, racing] = race.accesses.each_ref();
    let both = stalled.holds.iter().filter(|lock| {
        let mut others = racing.holds.iter();
        others.any(|other| other.address == lock.address)
    });
    let both: Vec<String> = both.map(called).collect();
    if !both.is_empty() {
        return Some(format!(
            "both sides hold {} for reading only, which many may at a time: who writes has to hold it for writing",
            both.join(" and ")
        ));
    }
    // Of one that a side holds for reading alone it is certain that the other side does not hold it for writing.
    let [stalled, racing] = race.accesses.each_ref().map(|access| {
        let of = |mode| {
            let locks = access.holds.iter().filter(move |lock| lock.mode == mode);
            let locks: Vec<String> = locks.map(called).collect();
            locks.join(" and ")
        };
        [LockMode::Write, LockMode::Read].map(of)
    });
    let missing = |side: &str, other: &str, [written, read]: [String; 2]| {
        let written = (!written.is_empty())
            .then(|| format!("the {side} side holds {written}, the {other} side does not"));
        let read = (!read.is_empty()).then(|| {
            format!(
                "the {side} side holds {read} for reading, the {other} side does not for writing"
            )
        });
        written.into_iter().chain(read)
    };
    if let ([stalled, none], [racing, also_none]) = (&stalled, &racing)
        && !stalled.is_empty()
        && !racing.is_empty()
        && none.is_empty()
        && also_none.is_empty()
    {
        return Some(format!(
            "each side holds another lock: the stalled side {stalled}, the racing side {racing}"
        ));
    }
    let stalled = missing("stalled", "racing", stalled);
    let racing = missing("racing", "stalled", racing);
    let both: Vec<String> = stalled.chain(racing).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn lock(kind: LockKind, name: Option<&str>, address: u64) -> Lock {
        Lock {
            kind,
            mode: LockMode::Write,
            name: name.map(str::to_owned),
            address: Hex(address),
        }
    }

    /// Check what is said of locks of none, one and both sides.
    #[test]
    fn words_of_locks() {
        let told = |stalled: Vec<Lock>, racing: Vec<Lock>| {
            let mut race = sample::race();
            race.accesses[0].holds = stalled;
            race.accesses[1].holds = racing;
            let holds = race.accesses.each_ref().map(holds);
            (holds, missing_lock(&race))
        };
        let named = lock(LockKind::Mutex, Some("cache.lock\u{1b}"), 0x5555_0000_4040);
        let other = lock(LockKind::Rwlock, None, 0x7f00_0000_1000);
        let (sides, missing) = told(vec![], vec![]);
        assert_eq!(sides, ["none known", "none known"]);
        assert_eq!(missing, None);
        let (sides, missing) = told(vec![named.clone()], vec![]);
        assert_eq!(
            sides[0],
            "mutex 'cache.lock\\u{1b}' (0x555500004040), for writing"
        );
        let only = "the stalled side holds mutex 'cache.lock\\u{1b}' (0x555500004040), the racing side does not";
        assert_eq!(missing.as_deref(), Some(only));
        let (_, missing) = told(vec![], vec![other.clone(), named.clone()]);
        let only = "the racing side holds rwlock (0x7f0000001000) and mutex 'cache.lock\\u{1b}' (0x555500004040), the stalled side does not";
        assert_eq!(missing.as_deref(), Some(only));
        let read = |lock: &Lock| Lock {
            mode: LockMode::Read,
            ..lock.clone()
        };
        let (sides, missing) = told(vec![read(&other)], vec![read(&other), named.clone()]);
        assert_eq!(sides[0], "rwlock (0x7f0000001000), for reading");
        let both = "both sides hold rwlock (0x7f0000001000) for reading only, which many may at a time: who writes has to hold it for writing";
        assert_eq!(missing.as_deref(), Some(both));
        let (_, missing) = told(vec![], vec![read(&other)]);
        let only = "the racing side holds rwlock (0x7f0000001000) for reading, the stalled side does not for writing";
        assert_eq!(missing.as_deref(), Some(only));
        let (_, missing) = told(vec![named.clone()], vec![read(&other)]);
        let both = "the stalled side holds mutex 'cache.lock\\u{1b}' (0x555500004040), the racing side does not; the racing side holds rwlock (0x7f0000001000) for reading, the stalled side does not for writing";
        assert_eq!(missing.as_deref(), Some(both));
        let (_, missing) = told(vec![other], vec![named]);
        let both = "each side holds another lock: the stalled side rwlock (0x7f0000001000), the racing side mutex 'cache.lock\\u{1b}' (0x555500004040)";
        assert_eq!(missing.as_deref(), Some(both));
    }
}
