//! TLS within QUIC, as quinn asks for it, with one thing more than its own: it tells which cipher was agreed on.

use crate::tls::TlsFacts;
use ipse_model::TlsVersion;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn::{ConnectionId, Side};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{TransportError, TransportErrorCode};
use std::any::Any;
use std::sync::Arc;
use tokio_rustls::rustls;
use tokio_rustls::rustls::quic::{Connection, KeyChange, Secrets, ServerConnection, Version};

/// The number of QUIC version 1, the only one that is spoken here.
const VERSION_1: u32 = 1;

/// How sessions are begun.
pub(super) struct Sessions {
    config: Arc<rustls::ServerConfig>,
    /// Quinn's own, for what comes before a session.
    before: QuicServerConfig,
}

impl Sessions {
    pub(super) fn new(config: Arc<rustls::ServerConfig>) -> Result<Self, NoInitialCipherSuite> {
        let before = QuicServerConfig::try_from(Arc::clone(&config))?;
        Ok(Self { config, before })
    }
}

impl ServerConfig for Sessions {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION_1 {
            return Err(UnsupportedVersion);
        }
        self.before.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.before.retry_tag(version, id, packet)
    }

    fn start_session(self: Arc<Self>, _version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let connection =
            ServerConnection::new(Arc::clone(&self.config), Version::V1, encoded).map(Connection::Server);
        Box::new(TlsSession { sessions: self, connection, next: None, told: false })
    }
}

/// One handshake, and the keys that follow from it.
struct TlsSession {
    sessions: Arc<Sessions>,
    /// An error if the configuration is not one for QUIC; the first message from the peer then ends the connection.
    connection: Result<Connection, rustls::Error>,
    next: Option<Secrets>,
    /// Whether quinn knows that there is something to be told.
    told: bool,
}

impl Session for TlsSession {
    fn initial_keys(&self, id: &ConnectionId, _side: Side) -> Keys {
        match self.sessions.initial_keys(VERSION_1, id) {
            Ok(keys) => keys,
            Err(UnsupportedVersion) => unreachable!("version 1 is the one that is spoken"),
        }
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let connection = self.connection.as_ref().ok().filter(|_| self.told)?;
        let suite = connection.negotiated_cipher_suite();
        Some(Box::new(TlsFacts { version: TlsVersion::Tls13, cipher: suite.and_then(TlsFacts::cipher_of) }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        // What is sent before the handshake is done can be sent again by anybody who saw it, and be charged again.
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.connection.as_ref().is_ok_and(|connection| connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let failure =
            |error: &rustls::Error, code| TransportError { code, frame: None, reason: error.to_string() };
        let connection = match &mut self.connection {
            Ok(connection) => connection,
            Err(error) => return Err(failure(error, TransportErrorCode::INTERNAL_ERROR)),
        };
        if let Err(error) = connection.read_hs(bytes) {
            let alert = connection.alert().map(|alert| TransportErrorCode::crypto(alert.into()));
            return Err(failure(&error, alert.unwrap_or(TransportErrorCode::PROTOCOL_VIOLATION)));
        }
        let news = !self.told && (connection.alpn_protocol().is_some() || !connection.is_handshaking());
        self.told |= news;
        Ok(news)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let encoded =
            self.connection.as_ref().ok().and_then(|connection| connection.quic_transport_parameters());
        let Some(mut encoded) = encoded else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut encoded)?))
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        let keys = match self.connection.as_mut().ok()?.write_hs(bytes)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        // Only clients are asked to come back.
        false
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let connection = self.connection.as_ref().map_err(|_| ExportKeyingMaterialError)?;
        connection
            .export_keying_material(output, label, Some(context))
            .map(drop)
            .map_err(|_| ExportKeyingMaterialError)
    }
}
