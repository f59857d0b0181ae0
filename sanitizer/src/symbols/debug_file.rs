//! Finds the separate debug file of a stripped module, as GDB's manual describes in
//! "Debugging Information in Separate Files": by build id, then by `.gnu_debuglink`.

use std::path::{Component, Path, PathBuf};

use super::elf_file::ElfFile;
use super::module::ModuleInfo;

/// Where distributions install debug files.
pub(super) const DEFAULT_DEBUG_DIR: &str = "/usr/lib/debug";

/// The debug file of `module`, if one is found that provably belongs to it.
pub(super) fn find(module: &ModuleInfo, file: &ElfFile, debug_dirs: &[PathBuf]) -> Option<ElfFile> {
    let roots = roots(module);
    by_build_id(file.build_id(), &roots, debug_dirs)
        .or_else(|| by_debug_link(module, file, &roots, debug_dirs))
}

/// The supplementary file that dwz moved common DWARF of `debug` to.
pub(super) fn find_supplementary(
    module: &ModuleInfo,
    debug: &ElfFile,
    debug_dirs: &[PathBuf],
) -> Option<ElfFile> {
    let (name, build_id) = debug.debug_alt_link()?;
    let roots = roots(module);
    let name = Path::new(&name);
    let mut candidates = Vec::new();
    for root in &roots {
        if name.is_absolute() {
            candidates.push(below(root, name));
        }
        for dir in debug_dirs {
            // Debian: `../../.dwz/...`, relative to the directory of the debug file.
            if let Some(at) = name.to_str().and_then(|n| n.find(".dwz/"))
                && let Some(tail) = name.to_str().and_then(|n| n.get(at..))
            {
                candidates.push(below(root, dir).join(tail));
            }
        }
    }
    candidates
        .iter()
        .filter_map(|path| ElfFile::open(path).ok())
        .find(|found| found.build_id() == build_id)
        .or_else(|| by_build_id(&build_id, &roots, debug_dirs))
}

/// The file systems to look in: the target's own, then ours.
pub(super) fn roots(module: &ModuleInfo) -> Vec<PathBuf> {
    let mut components = module.open_path.components();
    let proc: PathBuf = components.by_ref().take(3).collect();
    let in_proc = proc.starts_with("/proc") && proc.components().count() == 3;
    let mut roots = Vec::new();
    if in_proc {
        roots.push(proc.join("root"));
    }
    roots.push(PathBuf::from("/"));
    roots
}

/// `path` in the file system whose root directory is `root`.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn by_build_id(build_id: &[u8], roots: &[PathBuf], debug_dirs: &[PathBuf]) -> Option<ElfFile> {
    let (first, rest) = build_id.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
    let name = format!(".build-id/{first:02x}/{rest}.debug");
    roots
        .iter()
        .flat_map(|root| debug_dirs.iter().map(|dir| below(root, dir).join(&name)))
        .filter_map(|path| ElfFile::open(&path).ok())
        .find(|found| found.build_id() == build_id)
}

fn by_debug_link(
    module: &ModuleInfo,
    file: &ElfFile,
    roots: &[PathBuf],
    debug_dirs: &[PathBuf],
) -> Option<ElfFile> {
    let (name, crc) = file.debug_link()?;
    // A bare file name, so that a file cannot send us elsewhere.
    let mut parts = Path::new(&name).components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return None;
    };
    let dir = Path::new(&module.path).parent()?;
    if !dir.is_absolute() {
        return None;
    }
    for root in roots {
        let beside = below(root, dir);
        let mut candidates = vec![beside.join(name), beside.join(".debug").join(name)];
        candidates.extend(
            debug_dirs
                .iter()
                .map(|debug| below(root, &below(debug, dir)).join(name)),
        );
        for path in candidates {
            let Ok(found) = ElfFile::open(&path) else {
                continue;
            };
            if found.identity() == file.identity() {
                continue;
            }
            let ids_agree = !file.build_id().is_empty() && found.build_id() == file.build_id();
            if ids_agree || found.crc32() == Some(crc) {
                return Some(found);
            }
        }
    }
    None
}
