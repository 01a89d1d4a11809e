//! The same over HTTP/3: connections that stay, one request at a time on each. Libraries speak, because nobody counts what they cost.

use super::channel::client_config;
use super::closed::Measurement;
use super::requests::Requests;
use super::{Plan, Rhythm, Seen};
use anyhow::{Context, Result, ensure};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::error::Code;
use h3_quinn::OpenStreams;
use http::Request;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, VarInt};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// What all connections share.
struct Shared<'a> {
    plan: &'a Plan,
    requests: &'a mut Requests,
    answered: usize,
    begun: Option<Measurement>,
    seen: Seen,
}

pub(super) fn run(plan: &Plan, requests: &mut Requests) -> Result<Seen> {
    ensure!(plan.rhythm == Rhythm::KeepAlive, "only connections that stay are asked over HTTP/3");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seen = Seen { answers: plan.requests, ..Seen::default() };
    let shared = RefCell::new(Shared { plan, requests, answered: 0, begun: None, seen });
    runtime.block_on(async {
        let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let tls = QuicClientConfig::try_from(client_config("h3", plan.resumes)?)?;
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(tls)));
        let callers = (0..plan.connections).map(|_| call(&endpoint, &shared));
        futures_util::future::try_join_all(callers).await?;
        // Who does not say goodbye is waited for: a server would keep the connections of all rounds, and ask after them.
        endpoint.close(VarInt::from_u64(Code::H3_NO_ERROR.value())?, b"");
        endpoint.wait_idle().await;
        anyhow::Ok(())
    })?;
    Ok(shared.into_inner().seen)
}

/// One connection, until all requests are answered.
async fn call(endpoint: &Endpoint, shared: &RefCell<Shared<'_>>) -> Result<()> {
    let door = shared.borrow().plan.door;
    let connection = endpoint.connect(door, "localhost")?.await.context("cannot connect")?;
    let (mut driver, mut asking) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let asked = async {
        while ask(&mut asking, shared).await? {}
        anyhow::Ok(())
    };
    tokio::select! {
        asked = asked => asked,
        _ = std::future::poll_fn(|context| driver.poll_close(context)) => anyhow::bail!("the connection was closed"),
    }
}

/// One request; says whether there are more to come.
async fn ask(asking: &mut SendRequest<OpenStreams, Bytes>, shared: &RefCell<Shared<'_>>) -> Result<bool> {
    let (request, number) = {
        let shared = &mut *shared.borrow_mut();
        let request = shared.requests.deal();
        let built = Request::get("https://localhost/api/v1/ip")
            .header("user-agent", "ipse-bench")
            .header("accept", "*/*")
            .header("authorization", format!("Bearer {}", request.key))
            .header("x-forwarded-for", request.address)
            .body(())?;
        (built, request.number)
    };
    let mut stream = asking.send_request(request).await?;
    stream.finish().await?;
    let head = stream.recv_response().await?;
    ensure!(head.status() == 200, "not answered with 200: {}", head.status());
    let mut body = Vec::new();
    while let Some(mut part) = stream.recv_data().await? {
        while part.has_remaining() {
            let piece = part.chunk();
            body.extend_from_slice(piece);
            let read = piece.len();
            part.advance(read);
        }
    }
    let shared = &mut *shared.borrow_mut();
    let plan = shared.plan;
    if shared.seen.wants_sample(plan, shared.answered) {
        let address = shared.requests.of(number).address.to_owned();
        shared.seen.samples.push((address, String::from_utf8_lossy(&body).into_owned()));
    }
    shared.seen.answer_bytes = body.len();
    shared.answered += 1;
    if shared.answered == plan.warm_up {
        shared.begun = Some(Measurement::begin(plan)?);
    }
    if shared.answered == plan.warm_up + plan.requests
        && let Some(begun) = &shared.begun
    {
        begun.end(&mut shared.seen)?;
    }
    Ok(shared.answered < plan.warm_up + plan.requests)
}
