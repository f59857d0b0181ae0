//! How programs end under `run`, and that nothing is started or disturbed where it is refused.

use anyhow::{Result, bail, ensure};
use gwp_race_tests::{Until, Watch, Who};

use crate::{
    catching::{Came, Way, watch},
    kernel::Kernel,
};

/// Exit codes and ends by a signal are the program's.
pub fn pass_through(_: &Kernel) -> Result<String> {
    for (script, expected) in [
        ("exit 7", 7),
        ("kill -TERM $$", 128 + 15),
        ("kill -SEGV $$", 128 + 11),
        ("trap 'exit 9' URG; kill -URG $$; while :; do :; done", 9),
    ] {
        let watch = Watch::aggressive();
        let outcome = watch.run("/bin/sh".as_ref(), &["-c", script], Until::End)?;
        let code = outcome.status.code();
        ensure!(
            code == Some(expected),
            "{script}: {code:?}, {}",
            outcome.stderr
        );
    }
    Ok("as without gwp-race".to_owned())
}

fn is_refused(way: Way, code: i32) -> Result<String> {
    let Came::Refused(refused, said) = watch(Who::Ourselves, way, &[])? else {
        bail!("it works, which was not expected");
    };
    eprintln!("too old: {said}");
    ensure!(refused == Some(code), "exit code {refused:?}: {said}");
    ensure!(
        said.contains("Linux 6.10") || said.contains("gwp-race doctor"),
        "it does not say what to do: {said}"
    );
    Ok("refused, with what to do; the program is let alone".to_owned())
}

/// `run` on a kernel that lacks too much.
pub fn run_is_refused(_: &Kernel) -> Result<String> {
    is_refused(Way::Run, 125)
}

/// `attach` on such a kernel.
pub fn attach_is_refused(_: &Kernel) -> Result<String> {
    is_refused(Way::Attach, 1)
}
