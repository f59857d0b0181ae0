//! The container that a process is in, by its control groups (cgroups(7)): engines name the group of a container by its id, which has 64 hexadecimal digits
//! (`docker-ID.scope`, `cri-containerd-ID.scope`, `/docker/ID`, `libpod-ID.scope`).

use nix::unistd::Pid;

use super::procfs;

/// Digits of a container's id.
const DIGITS: usize = 64;

/// The id of a process's container; nothing where there is none, or the process is gone.
#[must_use]
pub fn container(pid: Pid) -> Option<String> {
    in_groups(&groups(pid)?)
}

/// The control groups of a process, as proc_pid_cgroup(5) has them.
#[must_use]
pub fn groups(pid: Pid) -> Option<String> {
    let groups = procfs::read(pid, pid, "cgroup").ok()?;
    Some(String::from_utf8_lossy(&groups).into_owned())
}

/// The control group that a process is known by, of those that it is in: that of the unified hierarchy; where that is the root, that of the first
/// other one that is not.
#[must_use]
pub fn group(groups: &str) -> &str {
    const ROOT: &str = "/";
    let paths = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let is_unified = fields.next()? == "0";
        Some((is_unified, fields.nth(1)?))
    });
    let below: Vec<_> = paths.filter(|&(_, path)| path != ROOT).collect();
    let unified = below.iter().find(|(is_unified, _)| *is_unified);
    let chosen = unified.or(below.first());
    chosen.map_or(ROOT, |&(_, path)| path)
}

/// The group where it says something of what a process is there for: nothing where it is the root, or that of a session, which has another name each time that somebody logs in.
#[must_use]
pub fn lasting(group: &str) -> Option<&str> {
    let is_session = group.starts_with("/user.slice/");
    (group != "/" && !is_session).then_some(group)
}

/// The innermost one.
pub fn in_groups(groups: &str) -> Option<String> {
    let mut words = groups.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let is_id = |word: &&str| word.len() == DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit());
    words.find(is_id).map(str::to_ascii_lowercase)
}

/// The id of the pod that a control group belongs to, as Kubernetes names them: `kubepods-burstable-podID.slice`, where hyphens of the id are underscores, or
/// `/kubepods/burstable/podID`.
#[must_use]
pub fn pod(cgroup: &str) -> Option<String> {
    let parts = cgroup.rsplit('/').filter(|part| part.len() > UUID);
    let mut ids = parts.filter_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let (before, id) = part.split_at_checked(part.len().checked_sub(UUID)?)?;
        let id = id.replace('_', "-").to_ascii_lowercase();
        (before.ends_with("pod") && is_uuid(&id)).then_some(id)
    });
    ids.next()
}

/// Characters of a UUID in its usual form.
const UUID: usize = 36;

/// Whether it has that form (RFC 9562, section 4).
fn is_uuid(text: &str) -> bool {
    let mut groups = text.split('-');
    let has = |group: Option<&str>, digits| {
        group.is_some_and(|group| {
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    [8, 4, 4, 4, 12]
        .into_iter()
        .all(|digits| has(groups.next(), digits))
        && groups.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that pods are found as both drivers of control groups name them, and nothing else is taken for one.
    #[test]
    fn ids_of_pods() {
        let id = "01234567-89ab-cdef-0123-456789abcdef";
        for cgroup in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-x.scope",
                id.replace('-', "_")
            ),
            format!("/kubepods/besteffort/pod{id}/0123"),
            format!("/kubepods.slice/kubepods-pod{}.slice", id.to_uppercase()),
        ] {
            assert_eq!(pod(&cgroup).as_deref(), Some(id), "{cgroup}");
        }
        for cgroup in [
            "",
            "/",
            "/system.slice/sshd.service",
            "/pod",
            &format!("/{id}"),
            &format!("/pod{}", "é".repeat(18)),
        ] {
            assert_eq!(pod(cgroup), None, "{cgroup}");
        }
    }

    /// Check which control group counts.
    #[test]
    fn which_group_counts() {
        for (groups, expected, is_kept) in [
            (
                "0::/system.slice/a.service\n",
                "/system.slice/a.service",
                true,
            ),
            (
                "12:cpu:/docker/x\n1:name=systemd:/y\n0::/\n",
                "/docker/x",
                true,
            ),
            ("1:name=systemd:/y\n0::/z:a\n", "/z:a", true),
            (
                "0::/user.slice/user-0.slice/session-1.scope\n",
                "/user.slice/user-0.slice/session-1.scope",
                false,
            ),
            ("0::/\n", "/", false),
            ("", "/", false),
            ("nonsense", "/", false),
        ] {
            assert_eq!(group(groups), expected);
            assert_eq!(lasting(expected).is_some(), is_kept, "{groups}");
        }
    }

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
