//! hyper with nothing above it: one thread, and an answer that was ready before, 760 bytes with its head.

use super::{fixed_body, tell};
use anyhow::Result;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::Ipv4Addr;

/// With the lines that hyper writes, those of type, length and date, it is 760.
const BODY: usize = 651;

pub(super) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        tell(listener.local_addr()?)?;
        let body = Bytes::from(fixed_body(BODY));
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            stream.set_nodelay(true)?;
            let body = body.clone();
            let answer = service_fn(move |_: Request<Incoming>| {
                let mut response = Response::new(Full::new(body.clone()));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                std::future::ready(Ok::<_, Infallible>(response))
            });
            tokio::spawn(async move {
                // A caller that goes is no news.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    })
}
