//! TLS on a connection: how it is spoken, and what a handshake tells about the caller.

mod certificates;
mod channel;

pub use certificates::{CertificateError, CertificateFiles, Certificates};
pub(crate) use certificates::{Named, read_certificates};

pub(crate) use channel::Channel;

use certificates::PROOF_PROTOCOL;

use ipse_model::TlsVersion;
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    self, ProtocolVersion, ServerConfig, ServerConnection, SupportedCipherSuite, SupportedProtocolVersion,
};

/// How long a caller may take for the handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first byte of every handshake; no request of HTTP begins with it.
pub(crate) const HANDSHAKE: u8 = 0x16;

/// How a door speaks TLS.
#[derive(Clone)]
pub struct Tls {
    tcp: Arc<ServerConfig>,
    quic: Arc<ServerConfig>,
}

/// What a handshake agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFacts {
    pub(crate) version: TlsVersion,
    pub(crate) cipher: Option<Cow<'static, str>>,
}

impl Tls {
    /// TLS 1.2 and 1.3 with these certificates, for HTTP/2 and HTTP/1, and TLS 1.3 within QUIC for HTTP/3. Sessions are resumed with tickets, under keys
    /// that change every few hours and are kept nowhere.
    pub fn new(certificates: &Arc<Certificates>) -> Result<Self, rustls::Error> {
        let ticketer = aws_lc_rs::Ticketer::new()?;
        let config = |versions: &[&'static SupportedProtocolVersion], protocols: &[&[u8]]| {
            let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(versions)?
                .with_no_client_auth()
                .with_cert_resolver(Arc::clone(certificates) as _);
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            config.ticketer = Arc::clone(&ticketer);
            // What is sent before the handshake is done can be sent again by anybody who saw it.
            config.max_early_data_size = 0;
            Ok::<_, rustls::Error>(Arc::new(config))
        };
        let mut protocols: Vec<&[u8]> = vec![b"h2", b"http/1.1", b"http/1.0"];
        // The last choice, and none at all where no authority has anything to look for.
        protocols.extend(certificates.has_an_authority().then_some(PROOF_PROTOCOL));
        let tcp = config(&[&TLS13, &TLS12], &protocols)?;
        Ok(Self { tcp, quic: config(&[&TLS13], &[b"h3"])? })
    }

    /// How handshakes within QUIC are made.
    pub(crate) fn of_quic(&self) -> &Arc<ServerConfig> {
        &self.quic
    }

    /// What hands are to be shaken over.
    pub(crate) fn channel<T>(&self, socket: T) -> io::Result<Box<Channel<T>>> {
        let session = ServerConnection::new(Arc::clone(&self.tcp)).map_err(io::Error::other)?;
        Ok(Box::new(Channel { socket, session }))
    }
}

/// Whether the other side is an authority, which has seen its proof with the handshake and wants nothing else.
pub(crate) fn was_a_proof(connection: &ServerConnection) -> bool {
    connection.alpn_protocol() == Some(PROOF_PROTOCOL)
}

/// What a caller begins with, which is left where it is.
pub(crate) async fn first_byte_of(stream: &TcpStream) -> io::Result<u8> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0]),
    }
}

impl TlsFacts {
    /// The facts of a connection whose handshake is done.
    pub(crate) fn of(connection: &ServerConnection) -> Option<Self> {
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => TlsVersion::Tls12,
            ProtocolVersion::TLSv1_3 => TlsVersion::Tls13,
            _ => return None,
        };
        Some(Self { version, cipher: connection.negotiated_cipher_suite().and_then(Self::cipher_of) })
    }

    /// What a suite is called.
    pub(crate) fn cipher_of(suite: SupportedCipherSuite) -> Option<Cow<'static, str>> {
        suite.suite().as_str().map(iana_name)
    }
}

/// The registered name of a suite: rustls calls those of TLS 1.3 by a version that the registry leaves out.
fn iana_name(suite: &'static str) -> Cow<'static, str> {
    match suite {
        "TLS13_AES_128_GCM_SHA256" => "TLS_AES_128_GCM_SHA256".into(),
        "TLS13_AES_256_GCM_SHA384" => "TLS_AES_256_GCM_SHA384".into(),
        "TLS13_CHACHA20_POLY1305_SHA256" => "TLS_CHACHA20_POLY1305_SHA256".into(),
        _ => match suite.strip_prefix("TLS13_") {
            Some(rest) => format!("TLS_{rest}").into(),
            None => suite.into(),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    /// A door for `localhost`, and how a client speaks who trusts it.
    pub(crate) fn tls() -> (Tls, Arc<ClientConfig>) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("it.pem"), folder.path().join("it.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let certificates = Certificates::read(&[CertificateFiles { certificate, key }]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Tls::new(&Arc::new(certificates)).unwrap(), Arc::new(client))
    }

    #[test]
    fn suites_have_their_registered_names() {
        for suite in aws_lc_rs::default_provider().cipher_suites {
            let name = iana_name(suite.suite().as_str().unwrap());
            assert!(name.starts_with("TLS_") && !name.contains("TLS13"), "{name}");
        }
        assert_eq!(iana_name("TLS13_AES_256_GCM_SHA384"), "TLS_AES_256_GCM_SHA384");
        assert_eq!(
            iana_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        );
    }
}
