//! Somebody at a browser without scripts: keeps cookies, opens pages and sends their forms.

use crate::{Connection, Response};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// A visitor of one server.
#[derive(Clone)]
pub struct Visitor {
    address: SocketAddr,
    /// What was kept, by name.
    pub cookies: BTreeMap<String, String>,
    /// Whom a trusted proxy would say the visitor is.
    from: Option<IpAddr>,
}

impl Visitor {
    /// Somebody who comes for the first time.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, cookies: BTreeMap::new(), from: None }
    }

    /// The same from another address, as a trusted proxy tells it.
    #[must_use]
    pub fn from(self, ip: IpAddr) -> Self {
        Self { from: Some(ip), ..self }
    }

    /// Opens a page.
    pub fn get(&mut self, target: &str) -> Result<Response> {
        self.send("GET", target, &[], None)
    }

    /// Sends fields to a path, with the secret of no form.
    pub fn post(&mut self, target: &str, fields: &[(&str, &str)]) -> Result<Response> {
        self.send("POST", target, &[], Some(&encode(fields)))
    }

    /// Opens a page, and sends the form on it that goes to `action` with these fields and those that it hides.
    pub fn submit(&mut self, page: &str, action: &str, fields: &[(&str, &str)]) -> Result<Response> {
        let opened = self.get(page)?;
        let hidden = hidden_fields(&opened.body, action)
            .with_context(|| format!("{page} ({}) has no form for {action}", opened.status))?;
        let mut all: Vec<(&str, &str)> =
            hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        all.extend(fields);
        self.post(action, &all)
    }

    /// Goes where a reply leads.
    pub fn follow(&mut self, reply: &Response) -> Result<Response> {
        let location = reply.header("location").context("it leads nowhere")?.to_owned();
        self.get(&location)
    }

    /// Any request, with more header lines.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        form: Option<&str>,
    ) -> Result<Response> {
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: {}\r\naccept: text/html\r\n", self.address);
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            write!(head, "cookie: {}\r\n", cookies.join("; "))?;
        }
        if let Some(from) = self.from {
            write!(head, "x-forwarded-for: {from}\r\n")?;
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        if let Some(form) = form {
            let length = form.len();
            if !headers.iter().any(|(name, _)| *name == "content-type") {
                head.push_str("content-type: application/x-www-form-urlencoded\r\n");
            }
            write!(head, "content-length: {length}\r\n\r\n{form}")?;
        } else {
            head.push_str("\r\n");
        }
        let mut connection = Connection::open(self.address)?;
        connection.send(head.as_bytes())?;
        let reply = connection.receive()?;
        for (_, cookie) in reply.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (pair, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (name, value) = pair.split_once('=').context("a cookie without a name")?;
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(reply)
    }
}

/// The hidden fields of the form that goes to a path.
#[must_use]
pub fn hidden_fields(html: &str, action: &str) -> Option<Vec<(String, String)>> {
    let form = html.split("<form ").skip(1).find(|form| form.contains(&format!("action=\"{action}\"")))?;
    let form = form.split("</form>").next()?;
    let attribute =
        |tag: &str, name: &str| Some(tag.split(&format!("{name}=\"")).nth(1)?.split('"').next()?.to_owned());
    let tags = form.split("<input ").skip(1).filter_map(|tag| tag.split('>').next());
    let hidden = tags.filter(|tag| tag.contains("type=\"hidden\""));
    Some(hidden.filter_map(|tag| Some((attribute(tag, "name")?, attribute(tag, "value")?))).collect())
}

/// Fields as browsers write them.
#[must_use]
pub fn encode(fields: &[(&str, &str)]) -> String {
    let part = |text: &str| {
        text.bytes().fold(String::new(), |mut encoded, byte| {
            if byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                // Writing to a text never fails.
                let _ = write!(encoded, "%{byte:02X}");
            }
            encoded
        })
    };
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", part(name), part(value))).collect();
    pairs.join("&")
}
