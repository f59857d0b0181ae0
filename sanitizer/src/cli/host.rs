//! What this machine is called in what is kept and sent.

use std::{env, ffi::OsString};

use nix::unistd::gethostname;

/// The variable that says it, for whoever runs in a container that has a name of its own.
const HOST: &str = "GWP_RACE_HOST";

/// Its name: as the environment says, or its own one.
pub fn host() -> String {
    called(env::var_os(HOST))
}

fn called(said: Option<OsString>) -> String {
    let said = said.filter(|said| !said.is_empty());
    let host = said.or_else(|| gethostname().ok()).unwrap_or_default();
    host.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the machine's own name counts unless another one is said.
    #[test]
    fn what_the_machine_is_called() {
        let own = gethostname().unwrap().into_string().unwrap();
        assert_eq!(called(None), own);
        assert_eq!(called(Some(OsString::new())), own);
        assert_eq!(called(Some("node-7".into())), "node-7");
    }
}
