//! Files that are executed as soon as they are there.
//!
//! Other processes write them: while one of ours has a file open for writing, so has whatever another thread of it starts, until that executes something; and
//! what anybody has open for writing is not executed (ETXTBSY of execve(2)).

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
};

/// Copies a program.
///
/// # Panics
/// If that fails.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut cp = Command::new("cp");
    cp.arg("--").arg(from.as_ref()).arg(to.as_ref());
    let output = cp.output().expect("cp");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Writes a script that anybody may execute.
///
/// # Panics
/// If that fails.
pub fn script(path: &Path, text: &str) {
    let written = path.with_extension("text");
    fs::write(&written, text).expect("a script's text");
    copy(&written, path);
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a script's mode");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what is there can be executed at once, whatever other threads start meanwhile.
    #[test]
    fn can_be_executed() {
        const ROUNDS: usize = 50;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let starts = || (0..ROUNDS).all(|_| Command::new("true").status().unwrap().success());
        std::thread::scope(|scope| {
            let others = [scope.spawn(starts), scope.spawn(starts)];
            for round in 0..ROUNDS {
                let [copied, written] =
                    ["copy", "script"].map(|name| folder.join(format!("{name}{round}")));
                copy("/bin/true", &copied);
                script(&written, "#!/bin/sh\nexec true\n");
                for path in [copied, written] {
                    assert!(Command::new(path).status().unwrap().success());
                }
            }
            assert!(others.into_iter().all(|thread| thread.join().unwrap()));
        });
    }
}
