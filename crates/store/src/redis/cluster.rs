//! Who has which slots of a cluster.

use super::reach::{Entry, Plan, connect, in_words};
use super::url::{Place, place as place_of};
use redis::Value;
use std::time::Duration;
use tokio::time::timeout;

/// How many slots every cluster has.
pub(super) const SLOTS: u16 = 16_384;
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Slots that lie beside each other, and who has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) place: Place,
}

/// The slot of a key: of what stands in its first braces, if anything does.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let inside = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[open..].iter().position(|byte| *byte == b'}')?;
        Some(&key[open..open + length]).filter(|inside| !inside.is_empty())
    };
    crc16(inside().unwrap_or(key)) % SLOTS
}

/// The CRC that clusters use: polynomial 0x1021, from zero, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// `host:port`, as redirections name members.
pub(super) fn place(text: &str) -> Option<Place> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(Place { host: host.to_owned(), port: port.parse().ok()? })
}

/// Asks a member of the cluster.
pub(super) async fn slots(plan: &Plan, asked: &Place) -> Result<Vec<SlotRange>, String> {
    let work = async {
        let mut connection = connect(plan, asked, Entry::ToDatabase).await?;
        let command = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let value = connection.send_packed_command(&command).await.map_err(|error| in_words(&error))?;
        let ranges = ranges(&value, asked).ok_or("it does not tell who has which slots")?;
        if ranges.is_empty() { Err("it knows of nobody who has any slots".to_owned()) } else { Ok(ranges) }
    };
    timeout(ANSWER_WITHIN, work).await.unwrap_or_else(|_| Err("it does not answer".to_owned()))
}

fn ranges(value: &Value, asked: &Place) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = value else { return None };
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let range = |range: &Value| {
        let Value::Array(parts) = range else { return None };
        // The first of its servers is the master.
        let [first, last, Value::Array(master), ..] = parts.as_slice() else { return None };
        let host = match master.first()? {
            Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
            // The one that was asked.
            _ => asked.host.clone(),
        };
        let place = place_of(&bracketed(&host), number(master.get(1)?)?)?;
        Some(SlotRange { first: number(first)?, last: number(last)?, place })
    };
    ranges.iter().map(range).collect()
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn a_redirection_names_its_place() {
        assert_eq!(place("10.0.0.1:7001").unwrap().to_string(), "10.0.0.1:7001");
        assert_eq!(place("::1:7001").unwrap().host, "::1");
        assert_eq!(place("nothing"), None);
    }
}
