//! A plain HTTP/1.1 client on one connection: nothing between the campaign and the bytes.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An open connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    /// A header's value by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A header that holds a number.
    pub(crate) fn number(&self, name: &str) -> Result<i64> {
        self.header(name)
            .with_context(|| format!("no {name}"))?
            .parse()
            .with_context(|| format!("{name} is no number"))
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(bytes).context("cannot send")
    }

    /// `GET target` with a key, or without one.
    pub(crate) fn get(&mut self, target: &str, key: Option<&str>) -> Result<Response> {
        self.send_get(target, key)?;
        self.receive()
    }

    /// Sends a request without waiting for what comes back.
    pub(crate) fn send_get(&mut self, target: &str, key: Option<&str>) -> Result<()> {
        let authorization = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        self.send(format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\n").as_bytes())
    }

    /// Reads one response to a request that was not HEAD.
    pub(crate) fn receive(&mut self) -> Result<Response> {
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
        let mut response = Response { status, headers, body: String::new() };
        let length: usize = response.header("content-length").map_or(Ok(0), str::parse)?;
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).context("the body is cut")?;
        response.body = String::from_utf8(body)?;
        Ok(response)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).context("cannot read")?;
        ensure!(read > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}
