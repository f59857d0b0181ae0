//! What processes take of the machine's memory, as `smaps_rollup` tells it (proc_pid_smaps(5)).

use nix::unistd::Pid;

use super::{descendants::children, procfs};

/// What a process takes, bytes: its share of each page (PSS). Where that may not be known, as of another process that keeps itself private, what it has written or shares by memory alone
/// (`RssAnon` and `RssShmem` of proc_pid_status(5)), each page counted whole. Nothing of one that has ended.
#[must_use]
pub fn memory_of(pid: Pid) -> Option<u64> {
    let text = |file| {
        let bytes = procfs::read(pid, pid, file).ok()?;
        String::from_utf8(bytes).ok()
    };
    let share = text("smaps_rollup").and_then(|text| field(&text, "Pss:"));
    share.or_else(|| {
        let status = text("status")?;
        Some(field(&status, "RssAnon:")? + field(&status, "RssShmem:").unwrap_or(0))
    })
}

/// A process and all below it, as far as the kernel tells children (`CONFIG_PROC_CHILDREN`).
#[must_use]
pub fn all_below(pid: Pid) -> Vec<Pid> {
    /// One that forks all the time is not followed for ever.
    const MOST: usize = 1024;
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&parent) = all.get(next)
        && all.len() < MOST
    {
        all.extend(children(parent));
        next += 1;
    }
    all
}

/// A field of either file, which has it in KiB; bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Check the kernel's forms, and that others are nothing.
    #[test]
    fn forms() {
        let rollup = "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:    9000 kB\nPss:      884 kB\nPss_Dirty:  1 kB\n";
        assert_eq!(field(rollup, "Pss:"), Some(884 << 10));
        for other in [
            "",
            "Pss:",
            "Pss: kB",
            "Pss: 1 MB",
            "Pss: -1 kB",
            "Pss: 18446744073709551615 kB",
        ] {
            assert_eq!(field(other, "Pss:"), None, "{other}");
        }
    }

    /// Check that pages which are written are counted, that children are found, and that nothing is known of a process which has ended.
    #[test]
    fn own_memory() {
        const SIZE: u64 = 32 << 20;
        let own = Pid::this();
        let pages = vec![1_u8; SIZE as usize];
        let after = memory_of(own).unwrap();
        assert_eq!(pages.iter().map(|&byte| u64::from(byte)).sum::<u64>(), SIZE);
        assert!(after >= SIZE, "{after}");
        let mut child = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let all = all_below(own);
        let taken = memory_of(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(all.contains(&own) && all.contains(&pid), "{all:?}");
        assert!(taken > Some(0), "{taken:?}");
        assert_eq!(memory_of(pid), None);
    }
}
