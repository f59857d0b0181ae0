//! Whose rights (capabilities(7)) this process works with, and which of them it may use.
//!
//! Where the administrator has given the file of gwp-race capabilities (setcap(8)), whoever may execute it has them: they are *lent*. With
//! `CAP_SYS_PTRACE` that would be the right to watch and to stop every process of the machine. So every process of gwp-race, also those that
//! it starts itself and that anybody can start as well, begins with [`settle`]: where everybody may execute the file, all is given back but what
//! shows nothing of other users' processes. From then on the kernel's own checks decide with what the caller has himself (ptrace(2), "Ptrace
//! access mode checking"): all user and group ids of the target, whether it is dumpable, its capabilities, Yama; at each seize and each
//! look into `/proc`. There is no moment between a check and the deed, and a set-user-id program that is executed by a traced process does not get its rights.
//!
//! The administrator lends all of them to those whom he names: by a file that is root's, and that others may not execute
//! (`chgrp GROUP`, `chmod 750`), as the capturing helpers of network sniffers have it.

mod of_process;

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use nix::unistd::{getegid, geteuid, getgid, getuid};

use super::{KernelError, setcap::for_others};

pub use of_process::FileRights;

/// Numbers of `include/uapi/linux/capability.h`.
pub const CAP_SYS_PTRACE: u32 = 19;
/// Implies some of the others.
pub const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
/// Events of performance, and with CAP_BPF programs that read memory.
pub const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
const CAP_CHECKPOINT_RESTORE: u32 = 40;

/// What is kept where everybody may execute the file. The first two load the gates, which only ever look at processes that the tracer holds;
/// the third opens files that a process has mapped, if that process may be looked into; the last is for the tracer's
/// own priority.
const KEPT: u64 = 1 << CAP_BPF | 1 << CAP_PERFMON | 1 << CAP_CHECKPOINT_RESTORE | 1 << CAP_SYS_NICE;

/// `_LINUX_CAPABILITY_VERSION_3`: two words of 32 bits for each set.
const VERSION: u32 = 0x2008_0522;

/// Everybody else may execute the file.
const OTHERS_EXECUTE: u32 = 0o001;

/// Whether the calling thread has the capabilities for the gates: programs that read memory, in tables that the verifier trusts. Who has not is refused by
/// some kernels with `EINVAL`, from what they let everybody do with eBPF.
#[must_use]
pub fn may_load_gates() -> bool {
    // Where that is not known, the kernel's own answer counts.
    Sets::get().map_or(true, |sets| allow_gates(sets.effective))
}

const fn allow_gates(effective: u64) -> bool {
    const BOTH: u64 = 1 << CAP_BPF | 1 << CAP_PERFMON;
    effective & BOTH == BOTH || effective & 1 << CAP_SYS_ADMIN != 0
}

/// The sets of the calling thread: bit N is capability N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sets {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Sets {
    const fn header() -> Header {
        Header {
            version: VERSION,
            pid: 0,
        }
    }

    fn get() -> Result<Self, KernelError> {
        let mut header = Self::header();
        let mut data = [Data::default(); 2];
        // SAFETY: both are of the form that this version has, and live through the call.
        let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
        if result < 0 {
            return Err(KernelError::last("capget", "this process"));
        }
        let [low, high] = data;
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Ok(Self {
            effective: both(low.effective, high.effective),
            permitted: both(low.permitted, high.permitted),
            inheritable: both(low.inheritable, high.inheritable),
        })
    }

    /// Sets those of the calling thread alone.
    fn set(self) -> Result<(), KernelError> {
        let mut header = Self::header();
        let word = |shift: u32| Data {
            effective: (self.effective >> shift) as u32,
            permitted: (self.permitted >> shift) as u32,
            inheritable: (self.inheritable >> shift) as u32,
        };
        let data = [word(0), word(32)];
        // SAFETY: both are of the form that this version has, and live through the call.
        let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
        if result < 0 {
            return Err(KernelError::last("capset", "this process"));
        }
        Ok(())
    }

    /// Without what is lent to somebody whom nobody has named. What is in the caller's own inheritable set (capabilities(7); every ambient
    /// capability is in it) only an administrator can have put there, for him.
    const fn without_lent(self) -> Self {
        let kept = KEPT | self.inheritable;
        Self {
            effective: self.effective & kept,
            permitted: self.permitted & kept,
            ..self
        }
    }
}

/// Why gwp-race does not begin.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// It was started with two users or two groups at once.
    #[error(
        "gwp-race was started by {real} with the rights of {effective}: its file is set-user-id or set-group-id, or whoever has started it is; \
         a program that everybody watches with another one's rights shows everything to everybody. Take that away (chmod ug-s), and {}",
        for_others()
    )]
    TwoUsers {
        /// Who has started it.
        real: String,
        /// Whose rights it has.
        effective: String,
    },
    /// A system call.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// Whether the capabilities of this process come from its file, not from whoever has executed it.
///
/// The kernel says so itself, at the exec and for good: `AT_SECURE` is set where the user who executes is not root and the file gave capabilities
/// beyond the ambient ones, the only ones that an ordinary exec hands on (`cap_bprm_creds_from_file` in the kernel's `security/commoncap.c`). Root
/// has his anyway, by any file; a caller with ambient capabilities has them by any file, too, and `AT_SECURE` is not set for
/// them. A security module may set it as well where it changes the domain: then less is kept than could be.
#[must_use]
pub fn are_lent() -> bool {
    // SAFETY: getauxval touches no memory of ours.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure && !getuid().is_root()
}

/// Whether an administrator has said who may execute the file of this process: it is root's, so that nobody else can have set its
/// mode, and others may not. Whoever executes it then was let to by that mode, or by a list of users that it has.
#[must_use]
pub fn are_for_named() -> bool {
    fs::metadata("/proc/self/exe")
        .is_ok_and(|file| file.uid() == 0 && file.permissions().mode() & OTHERS_EXECUTE == 0)
}

/// Gives back what must not be lent to whoever has started this process, in the calling thread: to be called before there are others. Every
/// process of gwp-race does, whatever it is started as.
///
/// # Errors
/// Fails where the process is of two users at once, and where capset(2) does.
pub fn settle() -> Result<(), RightsError> {
    if geteuid() != getuid() || getegid() != getgid() {
        return Err(RightsError::TwoUsers {
            real: format!("user {}, group {}", getuid(), getgid()),
            effective: format!("user {}, group {}", geteuid(), getegid()),
        });
    }
    if are_lent() && !are_for_named() {
        Sets::get()?.without_lent().set()?;
    }
    Ok(())
}

/// Gives all capabilities back, for good, where they are lent: this process becomes a program of the caller's.
///
/// # Errors
/// Fails where capset(2) does.
pub fn give_back() -> Result<(), KernelError> {
    if are_lent() {
        let none = Sets {
            effective: 0,
            permitted: 0,
            ..Sets::get()?
        };
        none.set()?;
    }
    Ok(())
}

/// Gives up all capabilities, for good: also those that an exec would give, as far as that is permitted.
///
/// # Errors
/// Fails where capset(2) does.
pub fn drop_all() -> Result<(), KernelError> {
    for capability in 0..u64::BITS {
        // SAFETY: prctl with these arguments touches no memory. It fails behind the last capability, and without the right to.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if result < 0 {
            break;
        }
    }
    // The ambient ones go with these.
    let none = Sets {
        effective: 0,
        permitted: 0,
        inheritable: 0,
    };
    none.set()
}

/// Works with what the caller may do himself, in the calling thread: for opening and reading what he names. Where the capabilities are his own this
/// is the same as without.
///
/// # Errors
/// Fails where capset(2) does; nothing was done then.
pub fn as_caller<T>(work: impl FnOnce() -> T) -> Result<T, KernelError> {
    /// Whatever becomes of the work.
    struct Restore(Sets);
    impl Drop for Restore {
        fn drop(&mut self) {
            // They are permitted still. If it fails all the same, the next call that needs them says so.
            let _ = self.0.set();
        }
    }
    if !are_lent() {
        return Ok(work());
    }
    let sets = Sets::get()?;
    let less = Sets {
        effective: 0,
        ..sets
    };
    less.set()?;
    let _restore = Restore(sets);
    Ok(work())
}

/// Why a process of another user is out of reach although the file lends rights; nothing where it is not for that.
#[must_use]
pub fn lent_to_all() -> Option<&'static str> {
    (are_lent() && !are_for_named()).then_some(
        "everybody may execute gwp-race's file, so it lends nobody the right to look into processes of others, nor into those of one's own that \
         are not dumpable or have changed their user",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which capabilities allow gates.
    #[test]
    fn what_allows_gates() {
        let bits = |bits: &[u32]| bits.iter().fold(0, |all, bit| all | 1 << bit);
        for (capabilities, expected) in [
            (&[][..], false),
            (&[CAP_BPF], false),
            (&[CAP_PERFMON], false),
            (&[CAP_BPF, CAP_PERFMON], true),
            (&[CAP_SYS_ADMIN], true),
            (&[CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE], false),
        ] {
            assert_eq!(
                allow_gates(bits(capabilities)),
                expected,
                "{capabilities:?}"
            );
        }
    }

    /// Check that the sets are read as `/proc` tells them, and that nothing is lost on the way to the kernel and back.
    #[test]
    fn sets_are_the_kernels() {
        let sets = Sets::get().unwrap();
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let told = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        assert_eq!(sets.effective, told("CapEff:"));
        assert_eq!(sets.permitted, told("CapPrm:"));
        assert_eq!(sets.inheritable, told("CapInh:"));
        std::thread::spawn(move || {
            sets.set().unwrap();
            assert_eq!(Sets::get().unwrap(), sets);
            let fewer = Sets {
                effective: 0,
                permitted: sets.permitted & KEPT,
                ..sets
            };
            fewer.set().unwrap();
            assert_eq!(Sets::get().unwrap(), fewer);
        })
        .join()
        .unwrap();
        assert_eq!(Sets::get().unwrap(), sets, "those of another thread");
    }

    /// Check which capabilities are kept where everybody may execute the file: none that is a right over others' processes, unless the caller has it.
    #[test]
    fn what_is_kept() {
        let lent = Sets {
            effective: u64::MAX,
            permitted: u64::MAX,
            inheritable: 0,
        };
        let kept = lent.without_lent();
        assert_eq!((kept.effective, kept.permitted), (KEPT, KEPT));
        for foreign in [CAP_SYS_PTRACE, CAP_SYS_ADMIN, 0, 1, 2, 5, 7, 12] {
            assert_eq!(kept.permitted >> foreign & 1, 0, "capability {foreign}");
        }
        let own = Sets {
            inheritable: 1 << CAP_SYS_PTRACE,
            ..lent
        };
        assert_eq!(own.without_lent().permitted, KEPT | 1 << CAP_SYS_PTRACE);
    }

    /// Check that nothing is lent to a process whose capabilities are its own, as those of tests are.
    #[test]
    fn own_rights_stay() {
        let sets = Sets::get().unwrap();
        assert!(!are_lent());
        assert!(lent_to_all().is_none());
        let inside = as_caller(|| Sets::get().unwrap()).unwrap();
        assert_eq!(inside, sets);
        settle().unwrap();
        give_back().unwrap();
        assert_eq!(Sets::get().unwrap(), sets);
    }
}
