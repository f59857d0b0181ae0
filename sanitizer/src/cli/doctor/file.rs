//! Whether a program can be watched, judged by its file.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use nix::unistd::Uid;

use super::metadata::{Carried, has_lines, lines_check};
use super::{Check, metadata};
use crate::image::{Image, ImageError, Machine};
use crate::symbols::{DebugDirs, ModuleInfo};

/// Set-user-id and set-group-id bits of a file's mode.
const SET_ID: u32 = 0o6000;

/// Looks at a program's file.
pub(super) fn checks(path: &Path, debug_dirs: &Arc<DebugDirs>) -> Vec<Check> {
    let name = "program";
    let image = match Image::open(path) {
        Ok(image) => image,
        Err(error) => return vec![Check::fail(name, error.to_string(), mend(&error, path))],
    };
    if image.machine() != Machine::X86_64 {
        return vec![Check::fail(
            name,
            format!("{}: built for another machine", path.display()),
            "build it for x86-64",
        )];
    }
    let info = ModuleInfo {
        path: std::path::absolute(path).map_or_else(
            |_| String::new(),
            |path| path.to_string_lossy().into_owned(),
        ),
        via: path.to_owned().into(),
        ..ModuleInfo::default()
    };
    let mut checks = vec![
        Check::ok(
            name,
            format!("{}: 64-bit x86, {}", path.display(), linking(&image)),
        ),
        match Carried::of(&image) {
            Ok(carried) => carried.check(),
            Err(error) => Check::fail("metadata", error, metadata::BUILD),
        },
        lines_check(has_lines(&image, &info, debug_dirs)),
    ];
    let set_id = std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & SET_ID != 0);
    if set_id && !Uid::effective().is_root() {
        checks.push(Check::warn(
            "set-user-id",
            "a traced program does not change its user",
            format!("sudo gwp-race run -- {}", path.display()),
        ));
    }
    checks
}

fn linking(image: &Image) -> &'static str {
    match (image.is_dynamic(), image.is_position_independent()) {
        (true, true) => "position-independent, dynamically linked or static-pie",
        (true, false) => "at a fixed address, dynamically linked",
        (false, _) => "statically linked",
    }
}

fn mend(error: &ImageError, path: &Path) -> String {
    match error {
        ImageError::Read { .. } => format!("ls -l {}", path.display()),
        ImageError::NotElf { .. } => format!(
            "give the executable itself: `file {0}` tells what {0} is, `head -1 {0}` names a \
             script's interpreter",
            path.display()
        ),
        _ => "build it for x86-64 Linux, or copy it again".to_owned(),
    }
}
