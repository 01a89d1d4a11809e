//! A form of the site that is sent again and again, each time as somebody else.

use anyhow::{Context, Result};
use ipse_testkit::{Visitor, encode, hidden_fields};
use std::net::{IpAddr, SocketAddr};

/// The cookie of a device from which somebody has signed in before.
pub(crate) const DEVICE: &str = "__Host-ipse-device";

/// A form that was opened once: it may be sent as often as one likes, on any connection.
#[derive(Clone)]
pub(crate) struct Form {
    address: SocketAddr,
    action: &'static str,
    cookies: String,
    csrf: String,
}

/// Who sends it.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    /// As a trusted proxy tells it.
    pub(crate) from: IpAddr,
    /// A cookie of a device, good or not.
    pub(crate) device: Option<&'a str>,
}

impl Form {
    /// Opens the page that the form is on, and goes to.
    pub(crate) fn open(address: SocketAddr, visitor: &mut Visitor, page: &'static str) -> Result<Self> {
        let opened = visitor.get(page)?;
        let hidden = hidden_fields(&opened.body, page);
        let hidden = hidden.with_context(|| format!("{page} ({}) has no form", opened.status))?;
        let csrf =
            hidden.into_iter().find(|(name, _)| name == "csrf").context("a form without its secret")?.1;
        let kept = visitor.cookies.iter().filter(|(name, _)| *name != DEVICE);
        let cookies: Vec<String> = kept.map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Self { address, action: page, cookies: cookies.join("; "), csrf })
    }

    /// The request that sends it.
    pub(crate) fn written(&self, sender: Sender<'_>, fields: &[(&str, &str)]) -> String {
        let Self { address, action, cookies, csrf } = self;
        let device = sender.device.map(|mark| format!("; {DEVICE}={mark}")).unwrap_or_default();
        let form = encode(&[&[("csrf", csrf.as_str())], fields].concat());
        format!(
            "POST {action} HTTP/1.1\r\nhost: {address}\r\naccept: text/html\r\ncookie: {cookies}{device}\r\n\
             x-forwarded-for: {}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
            sender.from,
            form.len()
        )
    }
}
