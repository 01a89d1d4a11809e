//! HTTP/3: connections of QUIC at a door of datagrams, and the requests on them.

mod capped;
mod plain;
mod qpack;
mod session;
mod upload;

use crate::body::{RequestBody, read_rest, told_bytes};
use crate::crowd::Crowd;
use crate::idle::{Idle, Open};
use crate::prompt::Prompt;
use crate::reply::{Reply, has_a_length, whole};
use crate::serve::{
    HEADER_TIMEOUT, HTTP_STREAMS, House, IDLE_TIMEOUT, Line, Stage, TooMany, Visit, answer, reached,
};
use crate::tls::{HANDSHAKE_TIMEOUT, Tls, TlsFacts};
use crate::traffic::Way;
use crate::wire::WRITE_TIMEOUT;
use bytes::Bytes;
use capped::{Attendant, Capped, Passed};
use futures_util::StreamExt;
use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use h3::error::Code;
use h3::server::RequestResolver;
use http::{Response, header};
use ipse_model::Address;
use plain::{Porter, Slates};
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};
use session::Sessions;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
pub(crate) use upload::Upload;

/// How many requests a connection may bring before its peer is asked to make a new one: h3 keeps a little about each
/// that was never finished.
const REQUESTS: usize = 20_000;
/// How many requests may come to nothing before the peer is taken for one who only wants to make work.
const FAILURES: usize = 200;
/// A request whose head is larger than what is served is refused by us, with a body; beyond this it is refused bare.
const HEADER_LIST_BYTES: u32 = 64 * 1024;
/// The streams that a peer opens for the connection itself; HTTP/3 has three, and some open others that mean nothing.
const CONTROL_STREAMS: u32 = 8;
/// What may be under way to us on all streams of a connection.
const RECEIVE_WINDOW: u32 = 512 * 1024;
/// What may be under way on one stream.
const STREAM_WINDOW: u32 = 64 * 1024;
const SEND_WINDOW: u64 = 512 * 1024;
/// How long the last answers may take to arrive before the connection is closed.
const PARTING: Duration = Duration::from_millis(500);

/// An open door for HTTP/3.
pub struct QuicDoor(Endpoint);

impl QuicDoor {
    /// Takes a socket that is bound. Must be called within a runtime.
    pub fn open(socket: UdpSocket, tls: &Tls) -> io::Result<Self> {
        let sessions = Sessions::new(Arc::clone(tls.of_quic())).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(sessions));
        // An address that changes in the middle of a connection would be believed before it is proven.
        config.migration(false).transport_config(Arc::new(transport()));
        let runtime = Arc::new(TokioRuntime);
        Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime).map(Self)
    }

    /// Where it is.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(HTTP_STREAMS.into())
        .max_concurrent_uni_streams(CONTROL_STREAMS.into())
        .receive_window(RECEIVE_WINDOW.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        // Who is silent for that long without a request is gone. The sum fits: it is a minute.
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok());
    transport
}

/// Lets callers in until it is time to stop.
pub(crate) async fn accept<S, F, P>(
    door: QuicDoor,
    house: Arc<House<S>>,
    crowd: Arc<Crowd>,
    prompt: Option<Arc<P>>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    let QuicDoor(endpoint) = door;
    let slates = prompt.as_ref().and_then(Slates::new);
    loop {
        let incoming = tokio::select! {
            biased;
            () = reached(&mut stages, Stage::LastCall) => break,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        let is_stranger = !incoming.remote_address_validated();
        let stranger = Arc::clone(&crowd.strangers).try_acquire_owned().ok();
        // Where many come at once, each must first show that they are where they say.
        if is_stranger && stranger.is_none() && incoming.may_retry() {
            let _ = incoming.retry();
            continue;
        }
        let Some(place) = crowd.free_place() else {
            house.traffic.full(Way::Quic);
            incoming.refuse();
            continue;
        };
        let (house, crowd, slates) = (Arc::clone(&house), Arc::clone(&crowd), slates.clone());
        let (stages, mut begun) = (stages.clone(), stages.clone());
        tokio::spawn(async move {
            let shaken = tokio::select! {
                biased;
                shaken = shake_hands(incoming) => shaken,
                // Nobody who has only begun to shake hands has asked for anything yet.
                () = reached(&mut begun, Stage::Draining) => None,
            };
            if let Some(connection) = shaken {
                drop(stranger);
                // Only now: whoever takes another's address must not take their seats as well.
                let peer = Address::new(connection.remote_address().ip());
                match house.seat(&crowd, peer) {
                    Ok(seat) => {
                        let presence = house.traffic.enter(Way::Quic);
                        serve(connection, house, slates, stages).await;
                        drop((seat, presence));
                    }
                    Err(TooMany) => {
                        house.traffic.over_limit(Way::Quic);
                        connection.close(code(Code::H3_EXCESSIVE_LOAD), b"too many connections");
                    }
                }
            } else {
                house.traffic.failed_handshake(Way::Quic);
            }
            drop(place);
        });
    }
    // Whoever comes now is neither let in nor sent away: they try again, and whoever takes over this socket answers.
    endpoint.set_server_config(None);
    reached(&mut stages, Stage::Gone).await;
    endpoint.wait_idle().await;
}

async fn shake_hands(incoming: Incoming) -> Option<Connection> {
    let connecting = incoming.accept().ok()?;
    tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await.ok()?.ok()
}

async fn serve<S, F, P>(
    connection: Connection,
    house: Arc<House<S>>,
    slates: Option<Arc<Slates<P>>>,
    mut stages: watch::Receiver<Stage>,
) where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    let tls =
        connection.handshake_data().and_then(|facts| facts.downcast::<TlsFacts>().ok()).map(|facts| *facts);
    let peer = Address::new(connection.remote_address().ip());
    let mut line = Line { tls, ..Line::from(peer) };
    line.told = house.told_on(&line);
    let (line, idle, passed) = (Arc::new(line), Idle::default(), Arc::new(Passed::default()));
    let (tell, mut unsent) = mpsc::unbounded_channel();
    let attendant = slates.map(|slates| -> Box<dyn Attendant> {
        Box::new(Porter::new((&house, &slates), (&connection, &line), (&idle, &passed), tell))
    });
    let mut builder = h3::server::builder();
    builder.max_field_section_size(HEADER_LIST_BYTES.into());
    // A peer that lets us open no stream would be waited for for ever.
    let building = builder.build(Capped::new(connection.clone(), attendant, Arc::clone(&passed)));
    let Ok(Ok(mut http)) = tokio::time::timeout(HEADER_TIMEOUT, building).await else { return };
    let mut requests = FuturesUnordered::new();
    let (mut brought, mut failed) = (0_usize, 0_usize);
    let mut last_call = stages.clone();
    // These are waited for all the time, and asked for anew by no request.
    let mut draining = pin!(reached(&mut stages, Stage::Draining));
    let mut ends = pin!(async {
        tokio::select! {
            () = idle.rest() => PARTING,
            () = reached(&mut last_call, Stage::LastCall) => house.drain,
        }
    });
    // Set when the peer was told that this connection ends: what is on its way is still answered.
    let mut leaving: Option<Pin<Box<Sleep>>> = None;
    loop {
        let told = leaving.is_some();
        let left = async {
            match &mut leaving {
                Some(leaving) => leaving.as_mut().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(outcome) = requests.next(), if !requests.is_empty() => {
                failed += usize::from(outcome == Outcome::Nothing);
                if failed > FAILURES && failed * 2 > brought {
                    return connection.close(code(Code::H3_EXCESSIVE_LOAD), b"too many requests came to nothing");
                }
            }
            () = draining.as_mut() => break,
            () = left => break,
            time = ends.as_mut(), if !told => {
                leaving = Some(Box::pin(tokio::time::sleep(time)));
                if http.shutdown(passed.end() + HTTP_STREAMS as usize).await.is_err() {
                    return;
                }
            }
            Some(unsent) = unsent.recv() => {
                brought += 1;
                requests.push(Either::Left(unsent.send()));
            }
            resolver = http.accept() => {
                let Ok(Some(resolver)) = resolver else { break };
                brought += 1;
                requests.push(Either::Right(request(resolver, idle.asked(), &house, &line, &connection)));
                if brought >= REQUESTS && !told {
                    leaving = Some(Box::pin(tokio::time::sleep(PARTING)));
                    if http.shutdown(passed.end() + HTTP_STREAMS as usize).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
    // Nothing new is taken; what was begun is finished, unless it takes too long.
    let finishing = async {
        let _ = http.shutdown(passed.end()).await;
        while let Ok(unsent) = unsent.try_recv() {
            requests.push(Either::Left(unsent.send()));
        }
        while requests.next().await.is_some() {}
        // What was written is not there yet, and closing a connection throws away what is under way.
        let _ = tokio::time::timeout(PARTING.max(connection.rtt() * 4), connection.closed()).await;
    };
    tokio::select! {
        () = finishing => {}
        () = tokio::time::sleep(house.drain) => {}
    }
}

/// Answers one request.
async fn request<S, F>(
    resolver: RequestResolver<Capped, Bytes>,
    _open: Open,
    house: &Arc<House<S>>,
    line: &Line,
    connection: &Connection,
) -> Outcome
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let resolved = tokio::time::timeout(HEADER_TIMEOUT, resolver.resolve_request()).await;
    let Ok(Ok((request, stream))) = resolved else { return Outcome::Nothing };
    let (request, ()) = request.into_parts();
    let (mut stream, receiving) = stream.split();
    let upload = Upload::begin(receiving, told_bytes(&request.headers)).await;
    let body = upload.as_ref().map_or_else(|_| RequestBody::empty(), |upload| Arc::clone(upload).into());
    let (mut head, body) = whole(answer(house, line, rtt_ms(connection), request, body).await);
    if has_a_length(head.status) {
        head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| body.len().into());
    }
    let answering = async {
        stream.send_response(Response::from_parts(head, ())).await?;
        if !body.is_empty() {
            stream.send_data(body).await?;
        }
        stream.finish().await
    };
    if !matches!(tokio::time::timeout(WRITE_TIMEOUT, answering).await, Ok(Ok(()))) {
        // Else it would end as if it were whole.
        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
        return Outcome::Nothing;
    }
    let Ok(upload) = upload else { return Outcome::Answered };
    if !read_rest(|cx| upload.poll_next(cx)).await {
        upload.stop();
    }
    Outcome::Answered
}

fn rtt_ms(connection: &Connection) -> Option<u32> {
    u32::try_from((connection.rtt().as_micros() + 500) / 1000).ok()
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    Nothing,
}

fn code(code: Code) -> VarInt {
    VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Nobody;
    use crate::client::{AddressHeader, Trust};
    use crate::clock::Clock;
    use crate::crowd::STRANGERS;
    use crate::facts::FactHeaders;
    use crate::serve::{ConnectionLimits, Edge, Secrecy};
    use crate::tls::Certificates;
    use bytes::Buf;
    use futures_util::FutureExt;
    use http::Request;
    use http_body_util::Full;
    use ipnet::IpNet;
    use quinn::ClientConfig;
    use quinn::crypto::rustls::QuicClientConfig;
    use std::future::poll_fn;
    use std::net::{IpAddr, Ipv4Addr};
    use tokio::net::UdpSocket as Socket;
    use tokio_rustls::rustls;
    use tokio_rustls::rustls::crypto::aws_lc_rs;
    use tokio_rustls::rustls::pki_types::CertificateDer;

    /// An edge with one door of HTTP/3 and this service behind it: where it is, and the certificate it shows.
    fn edge<S, F>(service: S) -> (SocketAddr, CertificateDer<'static>)
    where
        S: Fn(Visit) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send + 'static,
    {
        edge_until(std::future::pending(), service, None::<Arc<Nobody>>)
    }

    /// The same with somebody who answers at once, and until then.
    pub(crate) fn edge_until<S, F, P>(
        stop: impl Future<Output = ()> + Send + 'static,
        service: S,
        prompt: Option<Arc<P>>,
    ) -> (SocketAddr, CertificateDer<'static>)
    where
        S: Fn(Visit) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send + 'static,
        P: Prompt,
    {
        let certificates = Arc::new(Certificates::self_signed(vec!["localhost".to_owned()]).unwrap());
        let certificate = certificates.find(None).unwrap().cert[0].clone();
        let tls = Tls::new(&certificates).unwrap();
        let door = QuicDoor::open(UdpSocket::bind("127.0.0.1:0").unwrap(), &tls).unwrap();
        let address = door.local_addr().unwrap();
        let edge = Edge {
            doors: Vec::new(),
            quic_doors: vec![door],
            trust: Trust {
                proxies: vec![IpNet::from(IpAddr::from(Ipv4Addr::LOCALHOST))],
                header: AddressHeader::Auto,
                pretend: None,
                colo: None,
                facts: FactHeaders::default(),
            },
            clock: Clock::system(),
            limits: ConnectionLimits { all: 10 * STRANGERS, each: 10 * STRANGERS },
            drain: Duration::from_secs(5),
            service,
            prompt,
            faults: Arc::new(|fault| Response::new(Full::from(format!("{fault:?}")))),
            secrecy: Secrecy::default(),
            traffic: Arc::default(),
        };
        tokio::spawn(edge.run(stop, std::future::pending()));
        (address, certificate)
    }

    pub(crate) fn client(certificate: &CertificateDer<'static>) -> Endpoint {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint
            .set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap())));
        endpoint
    }

    /// Carries datagrams between a client and the door, and says whether the door ever asked to come back.
    async fn carry(middle: Socket, door: SocketAddr, told: mpsc::UnboundedSender<bool>) {
        let mut client = None;
        let mut datagram = [0; 2048];
        loop {
            let (length, from) = middle.recv_from(&mut datagram).await.unwrap();
            if from == door {
                // The first bits of a packet that asks to come back.
                let _ = told.send(datagram[0] & 0xf0 == 0xf0);
            } else {
                client = Some(from);
            }
            let to = if from == door { client.unwrap() } else { door };
            middle.send_to(&datagram[..length], to).await.unwrap();
        }
    }

    /// Whether a client that connects through somebody in the middle is first asked to come back.
    async fn is_asked_to_come_back(door: SocketAddr, certificate: &CertificateDer<'static>) -> bool {
        let middle = Socket::bind("127.0.0.1:0").await.unwrap();
        let address = middle.local_addr().unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let carrying = tokio::spawn(carry(middle, door, tell));
        client(certificate).connect(address, "localhost").unwrap().await.unwrap();
        carrying.abort();
        told.recv().await.unwrap()
    }

    #[tokio::test]
    async fn where_many_come_at_once_each_must_show_where_they_are() {
        let (door, certificate) = edge(|_: Visit| std::future::ready(Response::new(Full::from("fine"))));
        assert!(!is_asked_to_come_back(door, &certificate).await);
        // Who says hello and reads nothing of what comes back: a handshake that never ends.
        for _ in 0..STRANGERS {
            let deaf = Socket::bind("127.0.0.1:0").await.unwrap();
            let address = deaf.local_addr().unwrap();
            let client = client(&certificate);
            let connecting = client.connect(address, "localhost").unwrap();
            let mut hello = [0; 2048];
            let length = deaf.recv(&mut hello).await.unwrap();
            deaf.send_to(&hello[..length], door).await.unwrap();
            // Their hello is there when something comes back.
            deaf.recv(&mut hello).await.unwrap();
            drop(connecting);
        }
        assert!(is_asked_to_come_back(door, &certificate).await);
    }

    #[tokio::test]
    async fn a_body_is_read_while_it_comes_and_what_is_left_of_it_does_no_harm() {
        const LIMIT: usize = 100;
        let (begun, mut beginnings) = mpsc::unbounded_channel();
        let (door, certificate) = edge(move |visit: Visit| {
            let begun = begun.clone();
            async move {
                let _ = begun.send(());
                let told = match visit.request.uri.path() {
                    "/unread" => "unread".to_owned(),
                    "/given-up" => {
                        let given_up = visit.body.read(LIMIT).now_or_never().is_none();
                        format!("given up: {given_up}")
                    }
                    _ => format!("{:?}", visit.body.read(LIMIT).await),
                };
                Response::new(Full::from(told))
            }
        });
        let connection = client(&certificate).connect(door, "localhost").unwrap().await.unwrap();
        let (mut driver, mut sender) = h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
        let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        let long = "x".repeat(LIMIT);
        for (path, told, parts, expected) in [
            ("/", None, &[][..], "Ok(b\"\")"),
            ("/", Some("0"), &[], "Ok(b\"\")"),
            ("/", None, &["a=b", "&c=d"], "Ok(b\"a=b&c=d\")"),
            ("/", Some("7"), &["a=b", "&c=d"], "Ok(b\"a=b&c=d\")"),
            ("/", Some("8"), &["a=b", "&c=d"], "Err(Broken)"),
            ("/", Some("6"), &["a=b", "&c=d"], "Err(Broken)"),
            ("/", Some("6"), &[], "Err(Broken)"),
            ("/", None, &[&long, "x"], "Err(TooLarge)"),
            ("/", Some("10000000"), &["a=b"], "Err(TooLarge)"),
            ("/unread", None, &["late"], "unread"),
            ("/given-up", None, &["late"], "given up: true"),
        ] {
            let mut request = Request::post(format!("https://localhost{path}"));
            if let Some(told) = told {
                request = request.header(header::CONTENT_LENGTH, told);
            }
            let mut stream = sender.send_request(request.body(()).unwrap()).await.unwrap();
            if !parts.is_empty() {
                // The service has the request before any of its body is sent.
                beginnings.recv().await.unwrap();
            }
            for part in parts {
                stream.send_data(Bytes::copy_from_slice(part.as_bytes())).await.unwrap();
            }
            stream.finish().await.unwrap();
            if parts.is_empty() {
                beginnings.recv().await.unwrap();
            }
            assert_eq!(stream.recv_response().await.unwrap().status(), 200);
            let mut answer = Vec::new();
            while let Some(mut part) = stream.recv_data().await.unwrap() {
                answer.extend(part.copy_to_bytes(part.remaining()));
            }
            assert_eq!(String::from_utf8(answer).unwrap(), expected, "{path} {told:?} {parts:?}");
        }
        driving.abort();
    }
}
