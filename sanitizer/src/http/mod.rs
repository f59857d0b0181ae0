//! HTTP clients: what is alike for all servers that gwp-race asks, or sends something to.

mod answer;
mod destination;
mod server;

use std::{sync::Arc, time::Duration};

use rustls::{
    RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use ureq::{
    Agent,
    tls::{
        Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
    },
};

pub use answer::{beginning, retry_after, said};
pub use destination::{Destination, DestinationError, Secret};
pub use server::Server;

/// How long a server is waited for; each is for ever where it is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// Until its address is found.
    pub resolve: Option<Duration>,
    /// Until it is connected, and is who it is to be.
    pub connect: Option<Duration>,
    /// Until it has taken what is sent.
    pub send: Option<Duration>,
    /// Until it begins to answer.
    pub answer: Option<Duration>,
    /// Until it goes on.
    pub read: Option<Duration>,
    /// Until its answer has come to its end.
    pub body: Option<Duration>,
}

/// Whom to believe, and who to be. Without anything: whom this machine believes, and nobody.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    roots: Option<RootCerts>,
    own: Option<ClientCert>,
}

/// What cannot be used, as part of a sentence that begins with the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// There is no certificate in it.
    #[error("has no certificate: give one in PEM (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// There is no key in it.
    #[error(
        "has no private key: give one in PEM without a passphrase (-----BEGIN PRIVATE KEY-----)"
    )]
    NoKey,
    /// What it has is none that can be used.
    #[error(
        "has something that cannot be used ({0}): look at it with `openssl x509 -text` or `openssl pkey -text`"
    )]
    Unusable(String),
}

impl Trust {
    /// Only servers are believed that these have signed, in PEM.
    ///
    /// # Errors
    /// There are none, or something is none.
    pub fn believe(&mut self, pem: &[u8]) -> Result<(), TrustError> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            store
                .add(certificate.map_err(unusable)?)
                .map_err(unusable)?;
        }
        self.roots = Some(RootCerts::new_with_certs(&certificates(pem)?));
        Ok(())
    }

    /// To be whom this certificate names, with those behind it that vouch for it, by this key; both in PEM.
    ///
    /// # Errors
    /// One of them is none, or they do not belong together.
    pub fn be(&mut self, certificate: &[u8], key: &[u8]) -> Result<(), TrustError> {
        let chain = certificates(certificate)?;
        let own = PrivateKey::from_pem(key).map_err(|_| TrustError::NoKey)?;
        // The client takes for granted that they can be used.
        let ders = CertificateDer::pem_slice_iter(certificate);
        let ders = ders.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
        let der = PrivateKeyDer::from_pem_slice(key).map_err(|_| TrustError::NoKey)?;
        CertifiedKey::from_der(ders, der, &default_provider()).map_err(unusable)?;
        self.own = Some(ClientCert::new_with_certs(&chain, own));
        Ok(())
    }
}

fn unusable(error: impl ToString) -> TrustError {
    TrustError::Unusable(error.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, TrustError> {
    let mut all = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(unusable)? {
            all.push(certificate);
        }
    }
    if all.is_empty() {
        return Err(TrustError::NoCertificate);
    }
    Ok(all)
}

/// A client of this server, or of any. What is on this machine is not asked for by a proxy of the environment.
#[must_use]
pub fn client(server: Option<&Server>, trust: &Trust, patience: Patience) -> Agent {
    let roots = trust.roots.clone();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(roots.unwrap_or(RootCerts::PlatformVerifier))
        .client_cert(trust.own.clone())
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()));
    let builder = Agent::config_builder();
    let builder = match server {
        Some(server) if server.is_here => builder.proxy(None),
        _ => builder,
    };
    builder
        .tls_config(tls.build())
        .user_agent(concat!("gwp-race/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        // A server may be anybody's, and this process reach what others do not: only what the user has named is asked.
        .max_redirects(0)
        .timeout_resolve(patience.resolve)
        .timeout_connect(patience.connect)
        .timeout_send_request(patience.send)
        .timeout_send_body(patience.send)
        .timeout_recv_response(patience.answer)
        .timeout_per_read(patience.read)
        .timeout_recv_body(patience.body)
        .build()
        .into()
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// Check that what is no certificate or no key is refused with what to give instead, and so is a key of another certificate, which the client would not bear.
    #[test]
    fn what_cannot_be_used() {
        let mut trust = Trust::default();
        for pem in [
            &b""[..],
            b"no PEM",
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        ] {
            assert_eq!(trust.believe(pem), Err(TrustError::NoCertificate));
        }
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(
            trust.believe(broken),
            Err(TrustError::Unusable(_))
        ));
        assert_eq!(trust.be(broken, b""), Err(TrustError::NoKey));
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let [key, certificate] =
                ["key", "pem"].map(|end| folder.path().join(format!("{name}.{end}")));
            let made = Command::new("openssl")
                .args([
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:P-256",
                    "-nodes",
                    "-subj",
                    "/CN=host",
                    "-keyout",
                ])
                .arg(&key)
                .arg("-out")
                .arg(&certificate)
                .output();
            match made {
                Ok(made) => {
                    assert!(made.status.success(), "{made:?}");
                    Some([certificate, key].map(|file| fs::read(file).unwrap()))
                }
                Err(error) => {
                    println!("no openssl(1): {error}");
                    None
                }
            }
        };
        let (Some([certificate, key]), Some([_, foreign])) = (made("one"), made("other")) else {
            return;
        };
        assert_eq!(trust.be(&certificate, &key), Ok(()));
        assert_eq!(trust.believe(&certificate), Ok(()));
        assert!(matches!(
            trust.be(&certificate, &foreign),
            Err(TrustError::Unusable(_))
        ));
        assert_eq!(trust.be(&certificate, &certificate), Err(TrustError::NoKey));
        drop(client(None, &trust, Patience::default()));
    }
}
