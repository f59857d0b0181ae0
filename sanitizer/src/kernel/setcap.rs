//! The commands that lend gwp-race's file what it needs (setcap(8)), for messages.

/// The file of gwp-race, for commands.
fn file() -> String {
    std::env::current_exe().map_or("gwp-race".into(), |exe| exe.display().to_string())
}

/// The commands that let users watch processes of their own.
#[must_use]
pub fn for_own() -> String {
    let file = file();
    format!(
        "run gwp-race as root (sudo), or once: sudo setcap \
         cap_bpf,cap_perfmon,cap_checkpoint_restore+ep {file} (then whoever may execute {file} can watch processes of his own)"
    )
}

/// The commands that let a group watch processes of others.
#[must_use]
pub fn for_others() -> String {
    let file = file();
    format!(
        "run gwp-race as root (sudo), or let a group execute its file, and nobody else, who can watch and stop every process then: sudo chgrp \
         GROUP {file}; sudo chmod 750 {file}; sudo setcap \
         cap_bpf,cap_perfmon,cap_sys_ptrace,cap_kill,cap_checkpoint_restore+ep {file}"
    )
}
