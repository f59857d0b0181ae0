//! The container that a process is in, by its control groups (cgroups(7)): engines name the group of a container by its id, which has 64 hexadecimal digits
//! (`docker-ID.scope`, `cri-containerd-ID.scope`, `/docker/ID`, `libpod-ID.scope`).

use nix::unistd::Pid;

use super::procfs;

/// Digits of a container's id.
const DIGITS: usize = 64;

/// The id of a process's container; nothing where there is none, or the process is gone.
#[must_use]
pub fn container(pid: Pid) -> Option<String> {
    let groups = procfs::read(pid, pid, "cgroup").ok()?;
    in_groups(&String::from_utf8_lossy(&groups))
}

/// The innermost one.
fn in_groups(groups: &str) -> Option<String> {
    let mut words = groups.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let is_id = |word: &&str| word.len() == DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit());
    words.find(is_id).map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that ids are found as engines write them, and that services have none.
    #[test]
    fn ids_of_containers() {
        let id = "0123456789abcdef".repeat(4);
        for groups in [
            format!("0::/system.slice/docker-{id}.scope\n"),
            format!("12:cpu:/docker/{id}\n0::/\n"),
            format!("0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{id}.scope\n"),
            format!(
                "0::/user.slice/libpod-{}.scope/container\n",
                id.to_uppercase()
            ),
        ] {
            assert_eq!(in_groups(&groups), Some(id.clone()), "{groups}");
        }
        for groups in ["", "0::/\n", "0::/system.slice/sshd.service\n"] {
            assert_eq!(in_groups(groups), None);
        }
        let gone = Pid::from_raw(i32::MAX);
        assert_eq!(container(gone), None);
    }
}
