//! The address of a server.

use ureq::http::Uri;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// Without a slash at the end. A path may be what opens the server to some only.
    address: String,
    /// What messages call it: scheme, host and port.
    pub(super) name: String,
}

impl Server {
    /// The server of this address; else what to do about it, which does not repeat it.
    pub(super) fn new(address: &str) -> Result<Self, &'static str> {
        const MEND: &str = "name servers by http:// or https://";
        if !address.starts_with("http://") && !address.starts_with("https://") {
            return Err(MEND);
        }
        let uri: Uri = address.parse().map_err(|_| MEND)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(MEND);
        };
        if authority.as_str().contains('@') {
            return Err("names and passwords are not sent, so leave out what stands before the @");
        }
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            name: format!("{scheme}://{authority}"),
        })
    }

    /// Where it has the debug file of a build id, which is written so.
    pub(super) fn debug_file(&self, build_id: &str) -> String {
        format!("{}/buildid/{build_id}/debuginfo", self.address)
    }
}
