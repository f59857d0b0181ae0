//! Which kind of file system a mount has, by `/proc/PID/mountinfo` (proc_pid_mountinfo(5)). statfs(2) would tell as well, but it asks
//! the file system.

mod layers;

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::{major, makedev},
    },
    unistd::geteuid,
};

use super::{about::About, error::ForeignError};
use crate::kernel::{KernelError, limits::is_shortage};

/// Types of file systems that hold files and have no device of their own. Those with one all do. Any other type is taken for an
/// interface of the kernel (procfs, sysfs, tracefs, functionfs, ...), where opening a file may do something. It is this list and not one of
/// those because what is missing here costs symbols, and is told with its name. A machine's own host counts as the machine (9p, virtiofs):
/// all files of many guests come from it.
const HOLD_FILES: [&str; 17] = [
    "9p",
    "aufs",
    "bcachefs",
    "btrfs",
    "ecryptfs",
    "erofs",
    "hugetlbfs",
    "overlay",
    "ramfs",
    "rootfs",
    "shiftfs",
    "tmpfs",
    "ubifs",
    "vboxsf",
    "virtiofs",
    "vmhgfs",
    "zfs",
];

/// The type of those that have layers in other ones.
const OVERLAY: &str = "overlay";
/// So many of them may be upon each other (`FILESYSTEM_MAX_STACK_DEPTH` in `include/linux/fs.h`).
const DEEPEST: usize = 2;

/// Those whose files are on other machines, and for which the kernel waits as long as those are silent.
const REMOTE: [&str; 11] = [
    "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "smb3", "wekafs",
];

/// What can be expected of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It holds files, and the kernel answers for them.
    Files,
    /// It holds files, and another machine answers for them.
    Remote(String),
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
    /// Where it is.
    point: PathBuf,
    kind: String,
    /// Who serves it, by the user's id.
    server: Option<u32>,
    /// Of an overlay.
    layers: Vec<PathBuf>,
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
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub(super) fn kind_of(&mut self, about: &About) -> Result<Kind, ForeignError> {
        if major(about.device) == 0 || self.is_served_device(about.device)? {
            self.kind_by_mounts(about)
        } else {
            Ok(Kind::Files)
        }
    }

    /// Whether a process serves what is on a block device (`fuseblk`): only root mounts devices, but by any driver. What was found is
    /// kept for a moment, for whoever looks at many files.
    fn is_served_device(&mut self, device: u64) -> Result<bool, ForeignError> {
        static KNOWN: Mutex<Option<HashMap<u64, (Instant, bool)>>> = Mutex::new(None);
        const KEPT: Duration = Duration::from_secs(1);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        known.retain(|_, (since, _)| since.elapsed() < KEPT);
        if let Some(&(_, is_served)) = known.get(&device) {
            return Ok(is_served);
        }
        let is_served = self.serve(device)?;
        known.insert(device, (Instant::now(), is_served));
        Ok(is_served)
    }

    fn serve(&mut self, device: u64) -> Result<bool, ForeignError> {
        let (ours, theirs) = self.both()?;
        let mut mounts = ours.iter().chain(theirs);
        Ok(mounts.any(|mount| mount.device == device && mount.is_served()))
    }

    /// Those that this process sees, read by now.
    fn ours(&mut self) -> Result<&[Mount], ForeignError> {
        if self.ours.is_none() {
            self.ours = Some(read("self")?);
        }
        Ok(self.ours.as_deref().unwrap_or_default())
    }

    /// The mounts of both, read by now.
    fn both(&mut self) -> Result<(&[Mount], &[Mount]), ForeignError> {
        self.ours()?;
        if let (None, Some(id)) = (&self.theirs, self.id) {
            self.theirs = Some(read(&id.to_string())?);
        }
        let ours = self.ours.as_deref().unwrap_or_default();
        Ok((ours, self.theirs.as_deref().unwrap_or_default()))
    }

    fn kind_by_mounts(&mut self, about: &About) -> Result<Kind, ForeignError> {
        let has_id = |mount: &&Mount| mount.id == about.mount;
        let same = |mount: &&Mount| mount.device == about.device;
        let ours = self.ours()?;
        if let Some(mount) = ours.iter().find(has_id) {
            return Ok(mount.kind_among(ours, true));
        }
        let (ours, theirs) = self.both()?;
        if let Some(mount) = theirs.iter().find(has_id) {
            // Names of layers are those of whoever has mounted it, here as a rule.
            let here = ours.iter().find(same).filter(|_| mount.kind == OVERLAY);
            return Ok(match here {
                Some(here) => here.kind_among(ours, true),
                None => worse(
                    mount.kind_among(theirs, false),
                    mount.kind_among(ours, false),
                ),
            });
        }
        // The mount is hidden below another one, or gone; the file system may be mounted elsewhere.
        Ok(match ours.iter().chain(theirs).find(same) {
            Some(mount) => worse(
                mount.kind_among(theirs, false),
                mount.kind_among(ours, false),
            ),
            None if Some(about.device) == memory_files() => Kind::Files,
            None => Kind::Unknown,
        })
    }
}

impl Mount {
    /// Its kind, where these are the others that were there when it was mounted: an overlay is what its layers are.
    fn kind_among(&self, mounts: &[Self], are_ours: bool) -> Kind {
        self.kind_of_layers(mounts, are_ours, DEEPEST)
    }

    fn kind_of_layers(&self, mounts: &[Self], are_ours: bool, deepest: usize) -> Kind {
        let kind = self.kind(are_ours);
        if self.layers.is_empty() || deepest == 0 || !mounts.iter().any(Self::is_others) {
            return kind;
        }
        let of_layer = |layer: &PathBuf| {
            let mount = layers::mount_of(layer, mounts);
            // In a container nothing may be seen of its layers: their names would be those of files in itself.
            let other = mount.filter(|mount| mount.device != self.device)?;
            Some(other.kind_of_layers(mounts, are_ours, deepest - 1))
        };
        let layers = self.layers.iter().filter_map(of_layer);
        layers.fold(kind, |all, layer| match layer {
            Kind::Served { .. } | Kind::Remote(_) => worse(all, layer),
            Kind::Files | Kind::Other(_) | Kind::Unknown => all,
        })
    }

    /// Whether another process or another machine answers for it.
    fn is_others(&self) -> bool {
        self.is_served() || REMOTE.contains(&&*self.kind)
    }

    fn is_served(&self) -> bool {
        let kind = self.kind.as_str();
        kind == "fuse" || kind.starts_with("fuse.") || kind.starts_with("fuseblk")
    }

    fn kind(&self, is_ours: bool) -> Kind {
        let kind = self.kind.as_str();
        if self.is_served() {
            let is_trusted = |user| user == 0 || user == geteuid().as_raw();
            return Kind::Served {
                is_trusted: is_ours && self.server.is_some_and(is_trusted),
            };
        }
        if HOLD_FILES.contains(&kind) {
            Kind::Files
        } else if REMOTE.contains(&kind) {
            Kind::Remote(kind.to_owned())
        } else {
            Kind::Other(kind.to_owned())
        }
    }

    fn parse(line: &str) -> Option<Self> {
        // id parent major:minor root mountpoint options fields... - type source options; blanks in names are escaped.
        let (mount, system) = line.split_once(" - ")?;
        let mut words = mount.split(' ');
        let id = words.next()?.parse().ok()?;
        let (high, low) = words.nth(1)?.split_once(':')?;
        let point = PathBuf::from(layers::plain(words.nth(1)?));
        let mut system = system.split(' ');
        let kind = system.next()?.to_owned();
        let options = system.nth(1).unwrap_or_default();
        let servers = options.split(',');
        let mut servers = servers.filter_map(|option| option.strip_prefix("user_id="));
        Some(Self {
            id,
            device: makedev(high.parse().ok()?, low.parse().ok()?),
            point,
            layers: match &*kind {
                OVERLAY => layers::named(options),
                _ => Vec::new(),
            },
            kind,
            server: servers.next().and_then(|id| id.parse().ok()),
        })
    }
}

/// That of which less can be expected.
fn worse(one: Kind, other: Kind) -> Kind {
    let badness = |kind: &Kind| match kind {
        Kind::Files => 0,
        Kind::Remote(_) => 1,
        Kind::Served { is_trusted: true } => 2,
        Kind::Served { is_trusted: false } => 3,
        Kind::Other(_) => 4,
        Kind::Unknown => 5,
    };
    if badness(&other) > badness(&one) {
        other
    } else {
        one
    }
}

/// Nothing where they cannot be read: what is unknown is not asked.
///
/// # Errors
/// Descriptors or memory have run out.
fn read(id: &str) -> Result<Vec<Mount>, ForeignError> {
    let object = format!("/proc/{id}/mountinfo");
    let text = match fs::read(&object) {
        Err(source) if is_shortage(&source) => {
            return Err(ForeignError::Call(KernelError {
                call: "open",
                object,
                source,
            }));
        }
        text => text.unwrap_or_default(),
    };
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(Mount::parse).collect())
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
mod tests;
