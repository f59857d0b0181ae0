//! Which kind of file system a mount has, by `/proc/PID/mountinfo` (proc_pid_mountinfo(5)). statfs(2) would tell as well, but it asks
//! the file system.

use std::{fs, io, sync::OnceLock};

use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::{major, makedev},
    },
    unistd::geteuid,
};

use super::about::About;

/// Types of file systems that hold files and have no device of their own. Those with one all do. Any other type is taken for an
/// interface of the kernel (procfs, sysfs, tracefs, functionfs, ...), where opening a file may do something. It is this list and not one of
/// those because what is missing here costs symbols, and is told with its name.
const HOLD_FILES: [&str; 28] = [
    "9p",
    "afs",
    "aufs",
    "bcachefs",
    "beegfs",
    "btrfs",
    "ceph",
    "cifs",
    "ecryptfs",
    "erofs",
    "gpfs",
    "hugetlbfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "overlay",
    "ramfs",
    "rootfs",
    "shiftfs",
    "smb3",
    "tmpfs",
    "ubifs",
    "vboxsf",
    "virtiofs",
    "vmhgfs",
    "wekafs",
    "zfs",
];

/// What can be expected of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It holds files, and the kernel answers for them.
    Files,
    /// A process answers (FUSE).
    Served {
        /// It is root's or the user's, and was mounted where this process is: others cannot do that.
        is_trusted: bool,
    },
    /// Anything else.
    Other(String),
    /// It is mounted nowhere that can be seen.
    Unknown,
}

/// The mounts that this process and another one see, read when first needed.
pub(super) struct Mounts {
    id: Option<u32>,
    ours: Option<Vec<Mount>>,
    theirs: Option<Vec<Mount>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    device: u64,
    kind: String,
    /// Who serves it, by the user's id.
    server: Option<u32>,
}

impl Mounts {
    /// `id`: the other process, or a thread of it.
    pub(super) const fn seen_by(id: Option<u32>) -> Self {
        Self {
            id,
            ours: None,
            theirs: None,
        }
    }

    /// The kind of file system in which something is.
    pub(super) fn kind_of(&mut self, about: &About) -> Kind {
        // Only root mounts devices.
        if major(about.device) != 0 {
            return Kind::Files;
        }
        let has_id = |mount: &&Mount| mount.id == about.mount;
        let ours = self.ours.get_or_insert_with(|| read("self"));
        if let Some(mount) = ours.iter().find(has_id) {
            return mount.kind(true);
        }
        let id = self.id;
        let theirs = self
            .theirs
            .get_or_insert_with(|| id.map_or_else(Vec::new, |id| read(&id.to_string())));
        if let Some(mount) = theirs.iter().find(has_id) {
            return mount.kind(false);
        }
        // The mount is hidden below another one, or gone; the file system may be mounted elsewhere.
        let same = |mount: &&Mount| mount.device == about.device;
        match ours.iter().chain(theirs.iter()).find(same) {
            Some(mount) => mount.kind(false),
            None if Some(about.device) == memory_files() => Kind::Files,
            None => Kind::Unknown,
        }
    }
}

impl Mount {
    fn kind(&self, is_ours: bool) -> Kind {
        let kind = self.kind.as_str();
        if kind == "fuse" || kind.starts_with("fuse.") || kind == "fuseblk" {
            let is_trusted = |user| user == 0 || user == geteuid().as_raw();
            return Kind::Served {
                is_trusted: is_ours && self.server.is_some_and(is_trusted),
            };
        }
        match HOLD_FILES.contains(&kind) {
            true => Kind::Files,
            false => Kind::Other(kind.to_owned()),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        // id parent major:minor root mountpoint options fields... - type source options; blanks in names are escaped.
        let (mount, system) = line.split_once(" - ")?;
        let mut words = mount.split(' ');
        let id = words.next()?.parse().ok()?;
        let (high, low) = words.nth(1)?.split_once(':')?;
        let mut system = system.split(' ');
        let kind = system.next()?.to_owned();
        let options = system.nth(1).unwrap_or_default().split(',');
        let mut servers = options.filter_map(|option| option.strip_prefix("user_id="));
        Some(Self {
            id,
            device: makedev(high.parse().ok()?, low.parse().ok()?),
            kind,
            server: servers.next().and_then(|id| id.parse().ok()),
        })
    }
}

/// Nothing where they cannot be read: what is unknown is not asked.
fn read(id: &str) -> Vec<Mount> {
    let text = fs::read(format!("/proc/{id}/mountinfo")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(Mount::parse).collect()
}

/// The device of what memfd_create(2), shmget(2) and shared memory without a name give, a tmpfs that is mounted nowhere.
fn memory_files() -> Option<u64> {
    static DEVICE: OnceLock<Option<u64>> = OnceLock::new();
    *DEVICE.get_or_init(|| {
        let device = || -> io::Result<u64> {
            let file = memfd_create(c"gwp-race", MFdFlags::MFD_CLOEXEC)?;
            Ok(About::of(&file)?.device)
        };
        device().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check lines of the kernel's documentation and of real systems.
    #[test]
    fn lines() {
        let mount = Mount::parse(
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:3 - ext3 /dev/root rw,errors=continue",
        );
        let expected = Mount {
            id: 36,
            device: makedev(98, 0),
            kind: "ext3".to_owned(),
            server: None,
        };
        assert_eq!(mount, Some(expected));
        for broken in ["", "36", "36 35 98 /", "36 35 98:0 / / rw -"] {
            assert_eq!(Mount::parse(broken), None, "{broken}");
        }
    }

    /// Check which file systems are asked: whose files the kernel answers for, and those that root or the user serves where this
    /// process is.
    #[test]
    fn kinds() {
        let own = geteuid().as_raw();
        let kind = |kind: &str, options: &str, is_ours| {
            let line = format!("5 1 0:7 / /mnt rw shared:1 - {kind} source {options}");
            Mount::parse(&line).expect("a line").kind(is_ours)
        };
        let served = |is_trusted| Kind::Served { is_trusted };
        assert_eq!(kind("overlay", "rw,lowerdir=/a:/b", false), Kind::Files);
        assert_eq!(kind("tmpfs", "rw", false), Kind::Files);
        let options = |user: u32| format!("rw,user_id={user},group_id=0,allow_other");
        assert_eq!(kind("fuse", &options(0), true), served(true));
        assert_eq!(kind("fuse.sshfs", &options(own), true), served(true));
        assert_eq!(kind("fuse.sshfs", &options(own + 77), true), served(false));
        assert_eq!(kind("fuse", "rw", true), served(false));
        // Who is root there need not be root here.
        assert_eq!(kind("fuse", &options(0), false), served(false));
        for interface in [
            "proc", "sysfs", "devtmpfs", "devpts", "tracefs", "bpf", "fusectl",
        ] {
            assert_eq!(kind(interface, "rw", true), Kind::Other(interface.into()));
        }
    }
}
