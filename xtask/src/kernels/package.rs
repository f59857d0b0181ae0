//! Debian's kernels: which package has the wanted one, and the image in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::{
    apt::Lists,
    steps::{answer, step},
};

/// Suites that have kernels of different ages; each has its own newest.
const SUITES: [&str; 5] = ["bullseye", "bookworm", "trixie", "trixie-backports", "sid"];
const IMAGE: &str = "linux-image-";
/// From 7.0 on the image is in a package that this one depends on.
const BINARY: &str = "linux-binary-";
const ARCHITECTURE: &str = "-amd64";

/// Which kernel somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The newest that there is.
    Newest,
    /// The newest whose version begins with these numbers.
    Version(Vec<u32>),
}

impl FromStr for Wanted {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "newest" {
            return Ok(Self::Newest);
        }
        let numbers = text.split('.').map(str::parse).collect::<Result<_, _>>();
        numbers.map(Self::Version).map_err(|_| {
            anyhow!("{text} is no version of Linux: give one as 6.1 or 6.12.90, or `newest`")
        })
    }
}

impl Wanted {
    fn is(&self, version: &[u32]) -> bool {
        match self {
            Self::Newest => true,
            Self::Version(wanted) => version.starts_with(wanted),
        }
    }
}

/// A kernel that can be booted.
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// The file.
    pub image: PathBuf,
}

/// All packages with kernels.
pub struct Packages {
    lists: Lists,
    names: Vec<String>,
    directory: PathBuf,
}

impl Packages {
    /// Reads which there are.
    pub fn read(directory: &Path) -> Result<Self> {
        let sources =
            SUITES.map(|suite| format!("deb http://deb.debian.org/debian {suite} main\n"));
        let lists = Lists::read(directory, &sources.concat())?;
        let found = answer(lists.command("apt-cache").args([
            "search",
            "--names-only",
            "^linux-image-[0-9].*-amd64$",
        ]));
        let found = found.context("apt-cache search fails; try `apt-get update`")?;
        let names = found.lines().filter_map(|line| line.split(' ').next());
        Ok(Self {
            names: names.map(str::to_owned).collect(),
            lists,
            directory: directory.to_owned(),
        })
    }

    /// Downloads and unpacks one, unless that was done before.
    pub fn kernel(&self, wanted: &Wanted) -> Result<Kernel> {
        let names = self.names.iter().map(String::as_str);
        let package = newest(names, wanted).with_context(|| {
            format!("none of Debian's packages has the kernel that is wanted ({wanted:?})")
        })?;
        let release = package.strip_prefix(IMAGE).unwrap_or(package).to_owned();
        let image = self.directory.join(format!("images/vmlinuz-{release}"));
        if !image.is_file() {
            self.fetch(&release, &image)?;
        }
        Ok(Kernel { release, image })
    }

    fn fetch(&self, release: &str, image: &Path) -> Result<()> {
        // What is in there is not worth keeping.
        let room = self.directory.join("unpacked");
        let places = [
            (IMAGE, format!("boot/vmlinuz-{release}")),
            (BINARY, format!("usr/lib/modules/{release}/vmlinuz")),
        ];
        for (kind, place) in places {
            let _ = fs::remove_dir_all(&room);
            fs::create_dir_all(&room).with_context(|| format!("making {}", room.display()))?;
            let package = format!("{kind}{release}");
            let mut apt_get = self.lists.command("apt-get");
            apt_get.args(["download", &package]).current_dir(&room);
            step(&format!("downloading {package}"), &mut apt_get)?;
            step(
                "unpacking it",
                Command::new("dpkg-deb")
                    .arg("-x")
                    .arg(package_file(&room)?)
                    .arg(&room),
            )?;
            let unpacked = room.join(place);
            if !unpacked.is_file() {
                continue;
            }
            if let Some(directory) = image.parent() {
                fs::create_dir_all(directory)?;
            }
            fs::rename(&unpacked, image)
                .with_context(|| format!("moving {}", unpacked.display()))?;
            let _ = fs::remove_dir_all(&room);
            return Ok(());
        }
        bail!("the packages of Linux {release} have no kernel where Debian's have it")
    }
}

fn package_file(room: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(room)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    bail!("apt-get has left no package in {}", room.display())
}

/// The newest wanted one of some packages: of the usual kernel, not of those for clouds or in real time.
fn newest<'a>(names: impl Iterator<Item = &'a str>, wanted: &Wanted) -> Option<&'a str> {
    names
        .filter_map(|name| Some((version(name)?, name)))
        .filter(|(version, _)| wanted.is(version))
        .max()
        .map(|(_, name)| name)
}

/// `linux-image-6.12.90+deb12.1-amd64` as 6, 12, 90, 12, 1; `None` for other packages.
fn version(package: &str) -> Option<Vec<u32>> {
    let release = package.strip_prefix(IMAGE)?.strip_suffix(ARCHITECTURE)?;
    let numbers = release.replace("+deb", ".");
    numbers
        .split(['.', '-'])
        .map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 9] = [
        "linux-image-6.1.0-47-amd64",
        "linux-image-6.1.0-50-amd64",
        "linux-image-6.1.0-9-amd64",
        "linux-image-6.1.0-51-cloud-amd64",
        "linux-image-6.1.0-51-rt-amd64",
        "linux-image-6.12-amd64",
        "linux-image-6.12.90+deb12-amd64",
        "linux-image-6.12.90+deb12.1-amd64",
        "linux-image-6.9.7+deb13-amd64-unsigned",
    ];

    fn chosen(wanted: &str) -> Option<&'static str> {
        newest(NAMES.into_iter(), &wanted.parse().unwrap())
    }

    /// Check that numbers are compared as numbers, and that other flavours are no kernels.
    #[test]
    fn the_newest_is_chosen() {
        assert_eq!(chosen("6.1"), Some("linux-image-6.1.0-50-amd64"));
        assert_eq!(chosen("6.12"), Some("linux-image-6.12.90+deb12.1-amd64"));
        assert_eq!(chosen("newest"), chosen("6.12"));
        assert_eq!(chosen("6.9"), None);
        assert_eq!(chosen("6"), chosen("newest"));
    }

    /// Check that what is no version is refused, with what would be one.
    #[test]
    fn versions_are_numbers() {
        for text in ["", "6.", "latest", "v6.1"] {
            let error = text.parse::<Wanted>().unwrap_err().to_string();
            assert!(error.contains("`newest`"), "{error}");
        }
    }
}
