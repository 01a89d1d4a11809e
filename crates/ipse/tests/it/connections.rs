//! How many may be connected, from one address and in all.

use super::tls::output;
use super::{House, Plan};
use crate::commands::ipse;
use ipse_testkit::{Connection, Server};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

const REQUEST: &[u8] = b"GET /api/v1/meta HTTP/1.1\r\nhost: x\r\n\r\n";

fn house(settings: &[(&str, &str)]) -> House {
    let mut all = vec![("max_connections_per_address", "2")];
    all.extend(settings);
    House::build(Plan { settings: &all, ..Plan::default() }).0
}

/// Whether a new connection is answered; it lives as long as what is returned.
fn answered(house: &House) -> Option<Connection> {
    let mut connection = Connection::open(house.address).unwrap();
    // A connection that is closed at once may be so before or after the request was sent.
    connection.get("/api/v1/meta", None).ok().map(|_| connection)
}

#[test]
fn an_address_has_its_share_and_no_more() {
    let house = house(&[("trusted_proxy", "none")]);
    let mut held = vec![answered(&house).unwrap(), answered(&house).unwrap()];
    assert!(answered(&house).is_none());
    // Others do not suffer.
    let other = format!("curl -sS --noproxy '*' --interface 127.0.0.2 http://{}/api/v1/meta", house.address);
    let other = Command::new("sh").args(["-c", &other]).output().unwrap();
    assert!(other.status.success());
    held.pop();
    let again = (0..500).find_map(|_| {
        let answered = answered(&house);
        if answered.is_none() {
            // waits for: the server to see that the connection is closed
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        answered
    });
    assert!(again.is_some(), "a connection that ended counts no more");
}

#[test]
fn a_trusted_proxy_brings_as_many_as_it_likes() {
    let house = house(&[]);
    let held: Vec<_> = (0..5).map(|_| answered(&house).unwrap()).collect();
    assert_eq!(held.len(), 5);
}

/// A connection through the PROXY protocol for this caller, and what is answered there.
fn introduced(door: SocketAddr, caller: &str) -> (TcpStream, bool) {
    let mut stream = TcpStream::connect(door).unwrap();
    stream.write_all(format!("PROXY TCP4 {caller} 192.0.2.1 56324 80\r\n").as_bytes()).unwrap();
    let _ = stream.write_all(REQUEST);
    let read = stream.read(&mut [0; 16]).unwrap_or(0);
    (stream, read > 0)
}

#[test]
fn those_whom_a_proxy_introduces_have_their_share_too() {
    let house = house(&[("proxy_listen", "127.0.0.1:0")]);
    let door = house.addresses[1];
    let one: Vec<_> = (0..3).map(|_| introduced(door, "203.0.113.7")).collect();
    assert_eq!(one.iter().map(|(_, answered)| *answered).collect::<Vec<_>>(), [true, true, false]);
    assert!(introduced(door, "203.0.113.8").1);
}

#[test]
fn a_server_without_descriptors_waits_for_some_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ipse(dir.path(), &["serve"]), &dir.path().join("ipse-data")).unwrap();
    let process = server.process.id();
    let limit = |descriptors: usize| {
        let range = format!("--nofile={descriptors}:");
        output(Command::new("prlimit").args(["--pid", &process.to_string(), &range]));
    };
    let mut first = Connection::open(server.address).unwrap();
    assert_eq!(first.get("/api/v1/meta", None).unwrap().status, 200);
    let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    limit(open);
    let mut waiting = Connection::open(server.address).unwrap();
    waiting.send_get("/api/v1/meta", None).unwrap();
    // Who is connected does not suffer.
    assert_eq!(first.get("/api/v1/meta", None).unwrap().status, 200);
    limit(open + 100);
    assert_eq!(waiting.receive().unwrap().status, 200);
}
