//! The address of a server.

use std::net::IpAddr;

use ureq::http::Uri;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Without a slash at the end. A path may be what opens the server to some only.
    address: String,
    /// What messages call it: scheme, host and port.
    pub name: String,
    /// What is sent can be read on the way.
    pub is_plain: bool,
    /// It is this machine.
    pub is_here: bool,
}

impl Server {
    /// The server of this address.
    ///
    /// # Errors
    /// What to do about it, which does not repeat it.
    pub fn new(address: &str) -> Result<Self, &'static str> {
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
            is_plain: scheme == "http",
            is_here: is_here(authority.host()),
        })
    }

    /// The address of what it has at a path, which is written without a slash at its beginning.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }
}

/// Whether a host is the machine itself, by its name: who asks for another name is told by others where that is.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which servers are this machine, and to which ones others can read what is sent.
    #[test]
    fn plain_and_here() {
        for (address, is_plain, is_here) in [
            ("http://localhost:7174", true, true),
            ("https://127.1.2.3/below/", false, true),
            ("http://[::1]:80", true, true),
            ("http://localhost.example.org", true, false),
            ("https://races.example.org", false, false),
            ("http://10.0.0.1", true, false),
        ] {
            let server = Server::new(address).unwrap();
            assert_eq!(
                (server.is_plain, server.is_here),
                (is_plain, is_here),
                "{address}"
            );
            assert!(server.at("v1").ends_with("/v1") && !server.at("v1").contains("//v1"));
        }
        for address in [
            "races.example.org",
            "ftp://host",
            "https://",
            "https://me:word@host",
        ] {
            assert!(Server::new(address).is_err(), "{address}");
        }
    }
}
