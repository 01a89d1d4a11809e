//! From one server to the next without losing a caller.

use crate::commands::ipse;
use crate::tls::output;
use ipse_testkit::{Connection, Server, Sockets, http3_client};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

fn start(folder: &Path, sockets: &Sockets) -> Server {
    let mut command = ipse(folder, &["serve"]);
    sockets.hand_to(&mut command).unwrap();
    Server::start(command, &folder.join("ipse-data")).unwrap()
}

#[test]
fn sockets_that_are_handed_over_are_served() {
    let (dir, sockets) = (tempfile::tempdir().unwrap(), Sockets::open().unwrap());
    let _server = start(dir.path(), &sockets);
    let response = Connection::open(sockets.http().unwrap()).unwrap().get("/api/v1/ip/demo", None).unwrap();
    assert_eq!(response.status, 200);
    let url = format!("https://{}/api/v1/ip/demo", sockets.https().unwrap());
    let body = output(Command::new("curl").args(["-sSk", "--noproxy", "*", &url]));
    assert!(body.contains(r#""http_protocol":"HTTP/2""#), "{body}");
    let (python, script) = http3_client().unwrap();
    let body = output(Command::new(python).arg(script).args(["--insecure", &url]));
    assert!(body.contains("HTTP/3"), "{body}");
}

#[test]
fn callers_who_come_while_nobody_serves_are_answered_by_the_next() {
    let (dir, sockets) = (tempfile::tempdir().unwrap(), Sockets::open().unwrap());
    let server = start(dir.path(), &sockets);
    assert_eq!(server.stop("TERM").unwrap().0, Some(0));
    let mut waiting = Connection::open(sockets.http().unwrap()).unwrap();
    waiting.send_get("/api/v1/ip/demo", None).unwrap();
    let _next = start(dir.path(), &sockets);
    assert_eq!(waiting.receive().unwrap().status, 200);
}

#[test]
fn whoever_asks_again_while_the_server_stops_is_answered_and_told_that_it_ends() {
    let (dir, sockets) = (tempfile::tempdir().unwrap(), Sockets::open().unwrap());
    let server = start(dir.path(), &sockets);
    let mut connection = Connection::open(sockets.http().unwrap()).unwrap();
    connection.get("/api/v1/meta", None).unwrap();
    let stopping = std::thread::spawn(move || server.stop("TERM").unwrap());
    loop {
        let response = connection.get("/api/v1/meta", None).unwrap();
        assert_eq!(response.status, 200);
        if response.header("connection") == Some("close") {
            break;
        }
    }
    assert!(connection.is_closed());
    assert_eq!(stopping.join().unwrap().0, Some(0));
}

#[test]
fn a_server_that_shares_its_port_takes_over_when_the_other_stops() {
    let dir = tempfile::tempdir().unwrap();
    let start = |port: u16| {
        let mut command = ipse(dir.path(), &["serve"]);
        let listen = format!("127.0.0.1:{port}");
        command.args(["--reuse-port", "--listen", &listen]);
        Server::start(command, &dir.path().join("ipse-data"))
    };
    let first = start(0).unwrap();
    let address = first.address;
    std::thread::scope(|scope| {
        let second = scope.spawn(|| start(address.port()));
        assert_eq!(first.stop("TERM").unwrap().0, Some(0));
        let second = second.join().unwrap().unwrap();
        assert_eq!(second.address, address);
        let mut connection = Connection::open(address).unwrap();
        assert_eq!(connection.get("/api/v1/ip/demo", None).unwrap().status, 200);
    });
}

#[test]
fn a_socket_that_nobody_handed_over_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let error = crate::commands::fail(dir.path(), &["serve", "--listen", "systemd:http"], 1);
    assert!(error.contains("FileDescriptorName=http"), "{error}");
}

#[test]
fn nobody_who_has_asked_for_nothing_holds_up_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ipse(dir.path(), &["serve", "--tls-listen", "127.0.0.1:0", "--tls-self-signed"]);
    command.args(["--drain-seconds", "3600"]);
    let server = Server::start(command, &dir.path().join("ipse-data")).unwrap();
    let (clear, tls) = (server.address, server.https().unwrap());
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let begun: Vec<TcpStream> = [
        (clear, &b""[..]),
        (clear, b"GET / HTTP/1.1\r\nhost"),
        (clear, b"PRI * HT"),
        (clear, preface),
        (tls, b"\x16\x03\x01"),
    ]
    .into_iter()
    .map(|(door, bytes)| {
        let mut stream = TcpStream::connect(door).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    })
    .collect();
    let mut asked = Connection::open(clear).unwrap();
    asked.get("/api/v1/meta", None).unwrap();
    asked.send(b"GET /api/v1/meta HTTP/1.1\r\n").unwrap();
    // With one of them it would take an hour.
    assert_eq!(server.stop("TERM").unwrap().0, Some(0));
    drop(begun);
}
