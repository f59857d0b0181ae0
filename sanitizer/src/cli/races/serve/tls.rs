//! TLS of a listener: its certificate, and those that it wants of who connects.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use super::secret;
use crate::kernel::{named, rights::as_caller};

/// Of files in PEM: the certificate with those that lead to its authority, its key, and the authorities of clients where these must have certificates.
///
/// # Errors
/// Says which file is of no use, and what to name.
pub fn acceptor(
    certificate: &Path,
    key: &Path,
    clients: Option<&Path>,
) -> anyhow::Result<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let chain = certificates(certificate)?;
    let text = secret::read(key)?;
    let private = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| {
        anyhow::anyhow!(
            "{} has no private key in PEM ({error}); name the file of one",
            key.display()
        )
    })?;
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                let name = path.display();
                roots.add(certificate).with_context(|| {
                    format!("{name} has a certificate that is none of an authority")
                })?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build()?)
        }
    };
    let mut config = config.with_single_cert(chain, private).with_context(|| {
        format!(
            "the certificate {} and the key {} are of no use together; name the key that the certificate was made for",
            certificate.display(),
            key.display()
        )
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let name = path.display();
    let text = as_caller(|| named::read_text(path))?;
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let all = all.map_err(|error| {
        anyhow::anyhow!("{name} has something that is no certificate in PEM ({error})")
    })?;
    anyhow::ensure!(
        !all.is_empty(),
        "{name} has no certificate in PEM; name a file that has one"
    );
    Ok(all)
}
