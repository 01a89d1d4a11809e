//! Servers that cannot prove who they are.

use crate::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

#[tokio::test]
async fn a_certificate_that_nobody_signed_is_refused_at_once() {
    let cache = Cache::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            assert!(acceptor.accept(stream).await.is_err(), "the client went on");
        }
    });
    let url = format!("https://localhost:{port}/city");
    let said = cache.fetch(&cache.download(&url)).await.unwrap_err();
    let expected =
        format!("no secure connection to the server of {url}: invalid peer certificate: UnknownIssuer");
    assert_eq!(said, expected);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    cache.holds_only_the_old();
    server.abort();
}

#[tokio::test]
async fn plain_http_where_https_was_asked_for_is_refused() {
    let cache = Cache::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/city", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let said = cache.fetch(&cache.download(&url)).await.unwrap_err();
    let expected =
        "no secure connection to the server of https://HOST/city: received corrupt message of type ";
    assert!(said.starts_with(expected), "{said}");
    cache.holds_only_the_old();
    server.abort();
}
