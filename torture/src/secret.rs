//! The certificate of a server, and how clients trust it.

use anyhow::{Context, Result};
use rcgen::generate_simple_self_signed;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

/// A certificate for 127.0.0.1 with its key, in files, and the one root that says it is good.
pub(crate) struct Secret {
    certificate: PathBuf,
    key: PathBuf,
    roots: Arc<RootCertStore>,
}

impl Secret {
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let made = generate_simple_self_signed(vec![Ipv4Addr::LOCALHOST.to_string()])?;
        let (certificate, key) = (folder.join("it.pem"), folder.join("it.key"));
        std::fs::write(&certificate, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        Ok(Self { certificate, key, roots: Arc::new(roots) })
    }

    /// Lets a server show it, on a free port.
    pub(crate) fn show_by(&self, command: &mut Command) {
        command.args(["--tls-listen", "127.0.0.1:0"]);
        command.arg("--tls-cert").arg(&self.certificate).arg("--tls-key").arg(&self.key);
    }

    /// What a server is told of it that runs in this process.
    pub(crate) fn settings(&self) -> Result<[(&str, &str); 2]> {
        let [certificate, key] = [&self.certificate, &self.key].map(|path| path.to_str());
        let unreadable = "the folder's name is no text";
        Ok([("tls_cert", certificate.context(unreadable)?), ("tls_key", key.context(unreadable)?)])
    }

    /// How a client that speaks this protocol trusts it.
    pub(crate) fn client(&self, protocol: &str) -> Result<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        Ok(config)
    }
}
