//! One connection, clear or with TLS. Nothing here ever waits.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme, version,
};

/// How a peer is spoken to.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Manner {
    Clear,
    /// HTTP/1.1 with TLS 1.3.
    Tls,
    /// HTTP/2 with TLS 1.3.
    Http2,
    /// HTTP/3.
    Http3,
}

/// What all connections of a run share.
pub(super) struct Dialing {
    door: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

impl Dialing {
    /// With `resumes`, connections come back with the tickets of those before.
    pub(super) fn new(door: SocketAddr, manner: Manner, resumes: bool) -> Result<Self> {
        let protocol = match manner {
            Manner::Clear => return Ok(Self { door, tls: None }),
            Manner::Tls => "http/1.1",
            Manner::Http2 => "h2",
            Manner::Http3 => bail!("QUIC is no TCP"),
        };
        let config = client_config(protocol, resumes)?;
        Ok(Self { door, tls: Some(Arc::new(config)) })
    }

    pub(super) fn dial(&self) -> Result<Channel> {
        let stream = TcpStream::connect(self.door).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let Some(config) = &self.tls else { return Ok(Channel::Clear(stream)) };
        let name = ServerName::IpAddress(self.door.ip().into());
        let session = Box::new(ClientConnection::new(Arc::clone(config), name)?);
        let mut channel = Channel::Tls(stream, session);
        channel.flush()?;
        Ok(channel)
    }
}

pub(super) enum Channel {
    Clear(TcpStream),
    Tls(TcpStream, Box<ClientConnection>),
}

impl Channel {
    /// Sends; what is said before hands are shaken waits until they are.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Clear(stream) => stream.write_all(bytes).context("cannot send"),
            Self::Tls(_, session) => {
                session.writer().write_all(bytes)?;
                self.flush()
            }
        }
    }

    /// What has come, if anything has: how many bytes.
    pub(super) fn receive(&mut self, room: &mut [u8]) -> Result<Option<usize>> {
        let read = match self {
            Self::Clear(stream) => stream.read(room),
            Self::Tls(..) => {
                if !self.pull()? {
                    return Ok(None);
                }
                let Self::Tls(_, session) = self else { return Ok(None) };
                session.reader().read(room)
            }
        };
        match read {
            Ok(0) => bail!("the connection was closed"),
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("cannot read"),
        }
    }

    /// Whether hands are shaken and a ticket has come; says whether an older ticket was used.
    pub(super) fn has_ticket(&mut self) -> Result<Option<bool>> {
        self.pull()?;
        let Self::Tls(_, session) = self else { bail!("there is no TLS") };
        let is_done = !session.is_handshaking() && session.tls13_tickets_received() > 0;
        Ok(is_done.then(|| session.handshake_kind() == Some(HandshakeKind::Resumed)))
    }

    /// Whether the connection came with a ticket of an older one.
    pub(super) fn is_resumed(&self) -> bool {
        matches!(self, Self::Tls(_, session) if session.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// Says good-bye as clients do.
    pub(super) fn close(mut self) {
        if let Self::Tls(_, session) = &mut self {
            session.send_close_notify();
            let _ = self.flush();
        }
    }

    /// Takes in what has come; says whether anything has.
    fn pull(&mut self) -> Result<bool> {
        let Self::Tls(stream, session) = self else { return Ok(true) };
        match session.read_tls(stream) {
            Ok(0) => bail!("the connection was closed"),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("cannot read"),
        }
        session.process_new_packets()?;
        self.flush()?;
        Ok(true)
    }

    fn flush(&mut self) -> Result<()> {
        let Self::Tls(stream, session) = self else { return Ok(()) };
        while session.wants_write() {
            session.write_tls(stream).context("cannot send")?;
        }
        Ok(())
    }
}

/// How everybody shakes hands: by the same curve and the same cipher.
pub(super) fn client_config(protocol: &str, resumes: bool) -> Result<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unasked))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    config.resumption = if resumes { Resumption::in_memory_sessions(256) } else { Resumption::disabled() };
    Ok(config)
}

/// Whoever asks wants to be quick, and asks nobody for who they are: that is the client's cost, and not the server's.
#[derive(Debug)]
struct Unasked;

impl ServerCertVerifier for Unasked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
