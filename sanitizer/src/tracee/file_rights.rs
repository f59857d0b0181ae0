//! What a process may do with files at this moment.

use nix::unistd::Pid;

use super::error::TargetError;
use super::{procfs, status, threads};
use crate::kernel::rights::FileRights;

/// Groups of a process at most; with more of them nothing is opened by its rights.
const MOST_GROUPS: usize = 1024;

/// The rights of a process over files; nothing where they cannot be told.
///
/// # Errors
/// Fails when it is gone.
pub fn file_rights(pid: Pid) -> Result<Option<FileRights>, TargetError> {
    // What the status of an exited main thread says is not what the others may do.
    let thread = threads::live_thread(pid)?;
    let text = procfs::read(pid, pid, &format!("task/{thread}/status"))?;
    let mut rights = status::file_rights(pid, &text)?;
    // Capabilities in a user namespace of its own count for nobody else's files.
    let namespace = |id: &str| std::fs::read_link(format!("/proc/{id}/ns/user")).ok();
    let own = namespace("self");
    if own.is_none() || own != namespace(&thread.to_string()) {
        rights.capabilities = 0;
    }
    Ok((rights.groups.len() <= MOST_GROUPS).then_some(rights))
}

#[cfg(test)]
mod tests {
    use nix::unistd::{getegid, geteuid, getgroups};

    use super::*;
    use crate::tracee::testing::Child;

    /// Check the rights of this process, and of one whose thread has changed them.
    #[test]
    fn rights_are_the_kernels() {
        let own = file_rights(Pid::this()).unwrap().unwrap();
        assert_eq!(own.user, geteuid().as_raw());
        assert_eq!(own.group, getegid().as_raw());
        let groups: Vec<u32> = getgroups().unwrap().iter().map(|id| id.as_raw()).collect();
        assert_eq!(own.groups, groups);
        if !geteuid().is_root() {
            return;
        }
        let child = Child::run(
            "#define _GNU_SOURCE\n#include <stdio.h>\n#include <grp.h>\n#include <sys/fsuid.h>\n#include <unistd.h>\n\
             int main() { gid_t groups[2] = {7, 9}; setgroups(2, groups); setfsgid(12); setfsuid(34);\n\
               puts(\"ready\"); fflush(stdout); pause(); }",
            &[],
        );
        child.wait_for_line("ready");
        let rights = file_rights(child.pid()).unwrap().unwrap();
        assert_eq!((rights.user, rights.group), (34, 12));
        assert_eq!(rights.groups, [7, 9]);
        // It has given up what root may do with files by that.
        assert_eq!(rights.capabilities & 0b110, 0);
    }
}
