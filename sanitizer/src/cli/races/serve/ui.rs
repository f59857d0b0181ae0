//! What `races serve --ui` is told.

use std::{net::SocketAddr, path::PathBuf};

use axum::Router;

use super::{parse_address, secret};
use crate::page::{Desk, Door, FormKey, Users, router};
use crate::store::Address;

/// Where the pages are, if nothing else is said.
const USUAL: &str = "127.0.0.1:7173";

/// See the module.
#[derive(Clone, Debug, clap::Args)]
pub struct UiArgs {
    /// Show pages to browsers (at 127.0.0.1:7173)
    ///
    /// At this address and port; with port 0 at a free one, which is told.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = USUAL, value_parser = parse_address)]
    pub ui: Option<SocketAddr>,

    /// Names and passwords of those who may read pages
    ///
    /// `NAME:PASSWORD`, one a line; passwords of 16 characters or more. Browsers ask for them. A file that everybody may read is refused.
    #[arg(long, value_name = "FILE", requires = "ui")]
    pub ui_users: Option<PathBuf>,

    /// Another name under which pages are asked for
    ///
    /// Pages are given to those who ask for an address or for localhost, so that a page elsewhere in the browser cannot read them under a name of its own. Where this machine, or a proxy in front of it, has a name, give that. Can be given several times.
    #[arg(long, value_name = "NAME", requires = "ui")]
    pub ui_name: Vec<String>,

    /// Let them say what is to be thought of races
    ///
    /// As `races triage`, `merge` and `split` do, by forms on the pages; who says it is the name that was given to the browser.
    #[arg(long, requires = "ui_users")]
    pub allow_triage: bool,
}

impl UiArgs {
    /// Whether nobody can read who is not to.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if let Some(address) = self.ui {
            anyhow::ensure!(
                address.ip().is_loopback() || self.ui_users.is_some(),
                "whoever reaches {address} could read the store; give --ui-users, or an address of this machine alone (127.0.0.1), which others reach by `ssh -L`"
            );
        }
        Ok(())
    }

    /// The pages of a store that is there.
    pub(super) fn pages(&self, store: &Address) -> anyhow::Result<Router> {
        let users = self.ui_users.as_deref().map(|path| {
            let text = secret::read(path)?;
            Users::parse(&text).map_err(|wrong| anyhow::anyhow!("{}: {wrong}", path.display()))
        });
        let door = Door::new(&self.ui_name, users.transpose()?);
        let desk = Desk::open(store.clone())?;
        let key = self.allow_triage.then(FormKey::new).transpose()?;
        Ok(router(desk, door, key))
    }
}
