//! What is asked: a key and an address for each request, out of lists that are dealt one behind the other.

use super::Plan;
use anyhow::{Context, Result, ensure};
use ipse_model::KeyText;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

/// Both lists, and how far they are dealt.
pub(super) struct Requests {
    keys: Vec<String>,
    /// Texts of the same room each: a million addresses lie close together.
    addresses: Vec<[u8; 16]>,
    next: usize,
}

/// One request.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) key: &'a str,
    pub(super) address: &'a str,
    pub(super) number: usize,
}

/// Writes the lists for generators to read.
pub(crate) fn write_lists(keys: (&Path, &[KeyText]), addresses: (&Path, &[Ipv4Addr])) -> Result<()> {
    let mut lines = String::new();
    for key in keys.1 {
        writeln!(lines, "{}", key.reveal())?;
    }
    std::fs::write(keys.0, &lines)?;
    lines.clear();
    for address in addresses.1 {
        writeln!(lines, "{address}")?;
    }
    Ok(std::fs::write(addresses.0, lines)?)
}

impl Requests {
    pub(super) fn read(plan: &Plan) -> Result<Self> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let keys: Vec<String> = read(&plan.keys)?.lines().map(str::to_owned).collect();
        let addresses: Vec<[u8; 16]> = read(&plan.addresses)?.lines().map(with_length).collect();
        ensure!(!keys.is_empty() && !addresses.is_empty(), "there is nothing to ask with");
        Ok(Self { keys, addresses, next: plan.first })
    }

    /// The next one.
    pub(super) fn deal(&mut self) -> Request<'_> {
        self.next += 1;
        self.of(self.next - 1)
    }

    /// The one of a number.
    pub(super) fn of(&self, number: usize) -> Request<'_> {
        let address = &self.addresses[number % self.addresses.len()];
        let text = &address[..usize::from(address[15])];
        Request {
            key: &self.keys[number % self.keys.len()],
            // Only texts were put there.
            address: std::str::from_utf8(text).unwrap_or_default(),
            number,
        }
    }
}

/// The length stands in the last byte, which no address reaches.
fn with_length(text: &str) -> [u8; 16] {
    let mut room = [0; 16];
    let length = text.len().min(15);
    room[..length].copy_from_slice(&text.as_bytes()[..length]);
    room[15] = u8::try_from(length).unwrap_or(15);
    room
}
