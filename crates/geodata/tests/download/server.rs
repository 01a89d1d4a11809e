//! An HTTP/1.1 server that says, connection by connection, exactly what a test has written down for it, faults included.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What happens on one connection.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then nothing for as long as the server lives.
    ThenSilence(Vec<u8>),
    /// These bytes, then the letter `x` without end.
    ThenEndless(Vec<u8>),
}

/// A head, given by its lines, and a body.
pub(crate) fn answer(status: &str, headers: &[&str], body: &str) -> Answer {
    Answer::Bytes(written(status, headers, body))
}

/// The same as bytes.
pub(crate) fn written(status: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// A whole file, whatever its bytes are.
pub(crate) fn file(etag: &str, content: &[u8]) -> Answer {
    let length = format!("Content-Length: {}", content.len());
    let head = written("200 OK", &[&length, &format!("ETag: \"{etag}\"")], "");
    Answer::Bytes([&head, content].concat())
}

/// A request's head.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Seen {
    fn read(head: &str) -> Self {
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Self { line, headers }
    }

    /// The request in one line, with the headers that make a difference.
    pub(crate) fn short(&self) -> String {
        let telling = ["authorization", "range", "if-range", "if-none-match", "if-modified-since"];
        let mut text = self.line.clone();
        for name in telling {
            if let Some(value) = self.headers.get(name) {
                text.push_str(&format!(" | {name}: {value}"));
            }
        }
        text
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers one connection after the other as written; further ones are closed after their request.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, answers)
    }

    pub(crate) fn on(listener: TcpListener, answers: Vec<Answer>) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let book = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut answers = answers.into_iter();
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                book.lock().unwrap().push(Seen::read(&head));
                match answers.next() {
                    None => {}
                    // The other side may have left in the middle, which is then what the test is about.
                    Some(Answer::Bytes(bytes)) => {
                        let _ = stream.write_all(&bytes).await;
                        let _ = stream.shutdown().await;
                    }
                    Some(Answer::ThenSilence(bytes)) => {
                        let _ = stream.write_all(&bytes).await;
                        silent.push(stream);
                    }
                    Some(Answer::ThenEndless(bytes)) => {
                        let _ = stream.write_all(&bytes).await;
                        while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
                    }
                }
            }
        });
        Self { address, seen, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Every request so far, in one line each.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen().iter().map(Seen::short).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}
