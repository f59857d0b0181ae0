//! What a watched process may do with files, and how files are opened with no more rights than that (credentials(7), setfsuid(2)).
//!
//! A thread takes on the ids by which the process asks for files, and ends: nothing is ever to be given back. The kernel itself then decides, at each
//! folder on the way and at the file, by modes and lists alike. What a security module, Landlock or a filter of system calls forbids the process besides is not known here.

use nix::unistd::getgroups;
use serde::{Deserialize, Serialize};

use super::{Sets, are_lent};
use crate::kernel::{KernelError, process::keep_private};

/// Numbers of `include/uapi/linux/capability.h`: to read and search whatever the mode says, and to do all.
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;

/// By what a process asks for files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRights {
    /// The user (`fsuid`), as this process knows him.
    pub user: u32,
    /// The group (`fsgid`).
    pub group: u32,
    /// All other groups.
    pub groups: Vec<u32>,
    /// Effective capabilities, as far as they count outside of namespaces of its own: bit N is capability N.
    pub capabilities: u64,
}

impl FileRights {
    /// Does something in a thread that has these rights over files, and no others: those of the calling process only where it has them itself.
    ///
    /// # Errors
    /// Fails where this process may not take on these ids: it is neither of the same user and groups, nor has it the capabilities for that. Nothing was done then.
    pub fn with<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
        // SAFETY: prctl with these arguments touches no memory.
        let before = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
        let done = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("others' files".to_owned())
                .spawn_scoped(scope, || self.take_on().map(|()| work()))
                .map_err(|source| KernelError {
                    call: "clone",
                    object: "a thread".to_owned(),
                    source,
                })?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // Another user of files makes the whole process what `fs.suid_dumpable` says (`commit_creds` in the kernel's `kernel/cred.c`).
        if before != 1 {
            keep_private();
        }
        done
    }

    /// For the calling thread alone, for good. The functions of the C library would change all threads.
    fn take_on(&self) -> Result<(), KernelError> {
        const OF_FILES: u64 = 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH;
        let had = Sets::get()?.effective;
        if !self.has_own_groups() {
            // SAFETY: the numbers are readable, and as many as is said.
            let result = unsafe {
                let (count, groups) = (self.groups.len(), self.groups.as_ptr());
                libc::syscall(libc::SYS_setgroups, count, groups)
            };
            if result < 0 {
                return Err(KernelError::last("setgroups", "a thread"));
            }
        }
        become_one("setfsgid", libc::SYS_setfsgid, self.group)?;
        become_one("setfsuid", libc::SYS_setfsuid, self.user)?;
        let sets = Sets::get()?;
        let theirs = if are_lent() { 0 } else { self.capabilities };
        let less = Sets {
            effective: sets.permitted & had & theirs & OF_FILES,
            ..sets
        };
        less.set()
    }

    fn has_own_groups(&self) -> bool {
        let sorted = |mut groups: Vec<u32>| {
            groups.sort_unstable();
            groups.dedup();
            groups
        };
        let own = getgroups().map(|groups| groups.iter().map(|group| group.as_raw()).collect());
        own.is_ok_and(|own| sorted(own) == sorted(self.groups.clone()))
    }
}

/// Sets an id of the calling thread. These calls tell the one of before, and of a failure nothing.
fn become_one(call: &'static str, number: libc::c_long, id: u32) -> Result<(), KernelError> {
    /// No id: it is not taken.
    const NONE: u32 = u32::MAX;
    // SAFETY: these calls touch no memory.
    let is = unsafe {
        libc::syscall(number, id);
        libc::syscall(number, NONE)
    };
    if u32::try_from(is) == Ok(id) {
        Ok(())
    } else {
        Err(KernelError {
            call,
            object: format!("id {id}"),
            source: std::io::Error::from_raw_os_error(libc::EPERM),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use nix::unistd::{Gid, Uid, chown, geteuid};

    use super::*;

    fn of(user: u32, groups: &[u32]) -> FileRights {
        FileRights {
            user,
            group: user,
            groups: groups.to_vec(),
            capabilities: 0,
        }
    }

    /// Check that files are read with the rights of another user alone: his own, those of his groups and of everybody, in folders that he may search; that
    /// capabilities count only where he has them; and that the rights of this process are what they were.
    #[test]
    fn files_of_others() {
        if !geteuid().is_root() {
            println!("only root can take on other ids");
            return;
        }
        const USER: u32 = 1234;
        const GROUP: u32 = 4321;
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        fs::create_dir(&closed).unwrap();
        let modes = [(folder.path(), 0o755), (closed.as_path(), 0o700)];
        for (folder, mode) in modes {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        let made = |name: &str, user: u32, group: u32, mode| {
            let path = folder.path().join(name);
            fs::write(&path, "text").unwrap();
            chown(&path, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let files = [
            made("everybody", 0, 0, 0o644),
            made("roots", 0, 0, 0o600),
            made("his", USER, 0, 0o600),
            made("group", 0, GROUP, 0o640),
            made("not-his-group", 0, GROUP, 0o604),
            made("closed/everybody", 0, 0, 0o644),
        ];
        let readable = |rights: &FileRights| {
            let readable = || files.each_ref().map(|path| fs::read(path).is_ok());
            rights.with(readable).unwrap()
        };
        let all = [true; 6];
        let own = Sets::get().unwrap();
        let alone = [true, false, true, false, true, false];
        assert_eq!(readable(&of(USER, &[])), alone);
        let grouped = [true, false, true, true, false, false];
        assert_eq!(readable(&of(USER, &[7, GROUP])), grouped);
        let mighty = FileRights {
            capabilities: 1 << CAP_DAC_READ_SEARCH,
            ..of(USER, &[])
        };
        assert_eq!(readable(&mighty), all);
        // Root without capabilities is the owner of his files.
        let root = [true, true, false, true, true, true];
        assert_eq!(readable(&of(0, &[])), root);
        assert_eq!(files.each_ref().map(|path| fs::read(path).is_ok()), all);
        assert_eq!(Sets::get().unwrap(), own);
    }

    /// Check that whoever has no right to take on an id does nothing with his own in its place.
    #[test]
    fn ids_that_cannot_be_taken_on() {
        let rights = of(1234, &[]);
        let tried = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let none = Sets {
                    effective: 0,
                    permitted: 0,
                    inheritable: 0,
                };
                none.set().unwrap();
                rights.with(|| true)
            });
            thread.join().unwrap()
        });
        let error = tried.unwrap_err();
        assert!(
            error.to_string().contains("setfsgid") || error.to_string().contains("setgroups"),
            "{error}"
        );
    }
}
