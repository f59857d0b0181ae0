//! `gwp-race fleet agent prepare`: the folder of the outbox, made by root for the agent's user.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;

use crate::cli::{
    args::AgentPrepareArgs,
    fleet::{config::Config, socket::make_folder},
};

/// Carries out the command.
pub(super) fn run(args: &AgentPrepareArgs) -> anyhow::Result<ExitCode> {
    let config = Config::read(args.config.config.as_deref())?;
    prepare(&config.agent.outbox, args.owner)?;
    Ok(ExitCode::SUCCESS)
}

/// Has the folder of an outbox be this user's alone.
fn prepare(outbox: &Path, owner: u32) -> anyhow::Result<()> {
    let folder = outbox.parent().context(
        "the outbox is in no folder of its own: name another one in [agent] of the configuration",
    )?;
    let name = folder.display();
    make_folder(outbox).with_context(|| format!("cannot make {name}; make it as root"))?;
    let about = fs::symlink_metadata(folder).with_context(|| format!("cannot look at {name}"))?;
    anyhow::ensure!(
        about.is_dir(),
        "{name} is no folder: name another outbox in [agent] of the configuration"
    );
    if about.uid() == owner {
        return Ok(());
    }
    // What is in it stays whose it is, and he could not use it.
    let mut inside = fs::read_dir(folder).with_context(|| format!("cannot look into {name}"))?;
    anyhow::ensure!(
        inside.next().is_none(),
        "{name} belongs to user {} and is not empty: say --owner {0}, or give it away with all that is in it: chown -R {owner} {name}",
        about.uid()
    );
    fs::set_permissions(folder, Permissions::from_mode(0o700))
        .and_then(|()| lchown(folder, Some(owner), None))
        .with_context(|| format!("cannot give {name} to user {owner}; do it as root"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::geteuid;

    /// Check that a folder is made for the user alone, that his own one stays as it is, and that one with somebody else's files in it is refused, with the command that mends it.
    #[test]
    fn the_folder_is_the_agents() {
        let own = geteuid().as_raw();
        let other = if own == 0 { 65532 } else { own };
        let scratch = tempfile::tempdir().unwrap();
        let outbox = scratch.path().join("agent/outbox.db");
        let folder = outbox.parent().unwrap();
        let about = || {
            let about = fs::symlink_metadata(folder).unwrap();
            (about.uid(), about.mode() & 0o7777)
        };
        prepare(&outbox, other).unwrap();
        assert_eq!(about(), (other, 0o700));
        fs::write(&outbox, "").unwrap();
        fs::set_permissions(folder, Permissions::from_mode(0o750)).unwrap();
        prepare(&outbox, other).unwrap();
        assert_eq!(about(), (other, 0o750));
        let error = prepare(&outbox, other + 1).unwrap_err().to_string();
        let mend = format!("chown -R {} {}", other + 1, folder.display());
        assert!(error.contains(&mend), "{error}");
        assert_eq!(about(), (other, 0o750));
        fs::remove_file(&outbox).unwrap();
        if own == 0 {
            prepare(&outbox, other + 1).unwrap();
            assert_eq!(about(), (other + 1, 0o700));
            // A folder of the pod's own: everybody's, with the pod's group.
            fs::remove_dir(folder).unwrap();
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, Permissions::from_mode(0o2777)).unwrap();
            prepare(&outbox, other).unwrap();
            assert_eq!(about(), (other, 0o700));
        }
    }
}
