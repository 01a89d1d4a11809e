//! HTTPS to a certificate authority: whom it trusts, and how much it bears.

use super::AcmeError;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How long an authority may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read: chains of certificates have a few kilobytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Carries requests to an authority.
pub(super) struct Messenger(Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>);

impl Messenger {
    /// One that trusts whom the system trusts, and these as well. The system's list is read anew each time, because it
    /// changes while a server runs.
    pub(super) fn new(trusted: &[CertificateDer<'static>]) -> Result<Self, AcmeError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(AcmeError::NobodyTrusted);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(AcmeError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_all_versions();
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector.build())))
    }
}

impl HttpClient for Messenger {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let answer = self.0.request(request);
        let whole = async move {
            let (parts, body) = answer.await.map_err(|error| Error::Other(error.into()))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(Error::Other)?;
            Ok(BytesResponse { parts, body: Box::new(body.to_bytes()) })
        };
        Box::pin(async move {
            let late = |_| Error::Other("it does not answer".into());
            tokio::time::timeout(ANSWER_TIMEOUT, whole).await.map_err(late)?
        })
    }
}
