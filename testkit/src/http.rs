//! A plain HTTP/1.1 client on one connection: nothing between the campaign and the bytes.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An open connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// As many bytes as `content-length` says.
    pub body: String,
}

impl Response {
    /// A header's value by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A header that holds a number.
    pub fn number(&self, name: &str) -> Result<i64> {
        self.header(name)
            .with_context(|| format!("no {name}"))?
            .parse()
            .with_context(|| format!("{name} is no number"))
    }
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Self> {
        Self::over(TcpStream::connect(address).context("cannot connect")?)
    }

    /// Speaks over a stream that somebody else has connected.
    pub fn over(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Waits so long for what comes, instead of the minute that most things may take.
    pub fn wait_for(&self, patience: Duration) -> Result<()> {
        Ok(self.reader.get_ref().set_read_timeout(Some(patience))?)
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(bytes).context("cannot send")
    }

    /// `GET target` with a key, or without one.
    pub fn get(&mut self, target: &str, key: Option<&str>) -> Result<Response> {
        self.send_get(target, key)?;
        self.receive()
    }

    /// Sends a request without waiting for what comes back.
    pub fn send_get(&mut self, target: &str, key: Option<&str>) -> Result<()> {
        let authorization = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        self.send(format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\n").as_bytes())
    }

    /// Reads one response to a request that was not HEAD.
    pub fn receive(&mut self) -> Result<Response> {
        let mut response = self.receive_head()?;
        let length: usize = response.header("content-length").map_or(Ok(0), str::parse)?;
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).context("the body is cut")?;
        response.body = String::from_utf8(body)?;
        Ok(response)
    }

    /// Reads a status line and headers, and no body.
    pub fn receive_head(&mut self) -> Result<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("no status in {status_line:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').with_context(|| format!("no header in {line:?}"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response { status, headers, body: String::new() })
    }

    /// Whether the server has closed the connection; waits until it does or something comes.
    pub fn is_closed(&mut self) -> bool {
        self.reader.fill_buf().map_or(true, <[u8]>::is_empty)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).context("cannot read")?;
        ensure!(read > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}
