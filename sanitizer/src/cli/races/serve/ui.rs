//! What `races serve --ui` is told.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::Router;

use crate::{
    page::{Desk, Names, router},
    store::Address,
};

/// Where the pages are, if nothing else is said.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7173);

/// See the module.
#[derive(Clone, Debug, clap::Args)]
pub struct UiArgs {
    /// Where pages are served
    ///
    /// An address and a port; with port 0 a free one, which is told.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = USUAL)]
    pub ui: SocketAddr,

    /// Another name of this machine for them
    ///
    /// Pages are given to those who ask for an address or for localhost, so that a page elsewhere in the browser cannot read them under a name of its own. Behind a proxy, which passes another name on, name that. Can be given several times.
    #[arg(long, value_name = "NAME")]
    pub ui_name: Vec<String>,

    /// Serve them to other machines, too
    ///
    /// In plain text, and to everybody who can connect. Rather have a proxy before it that asks who it is, or use `ssh -L`.
    #[arg(long)]
    pub ui_insecure: bool,
}

impl UiArgs {
    /// The pages of a store that is there.
    ///
    /// # Errors
    /// They would be served to everybody, or the store cannot be used.
    pub fn pages(&self, store: &Address) -> anyhow::Result<Router> {
        anyhow::ensure!(
            self.ui.ip().is_loopback() || self.ui_insecure,
            "everybody who can connect to {} could read the store, in plain text; name an address of the machine itself (127.0.0.1:{}) and use `ssh -L` or a proxy that asks who it is, or say --ui-insecure",
            self.ui,
            self.ui.port()
        );
        let desk = Desk::open(store.clone())?;
        Ok(router(Arc::new(desk), Names::new(&self.ui_name)))
    }
}
