//! HTTP/2, as much of it as one request at a time needs. What does not change from request to request is named by its number in
//! the table of the connection, as clients do it; the key and the address are written out.

use crate::load::requests::Request;
use anyhow::{Result, bail, ensure};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACKNOWLEDGED: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
/// No pushes, and a window that no answer fills.
const OUR_SETTINGS: &[u8] = &[0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];
/// What makes the window of the connection as large.
const MORE_WINDOW: [u8; 4] = (0x7fff_ffff_u32 - 65_535).to_be_bytes();
/// `GET`, `https`, and the four fields of `FIRST_FIELDS` where the table of the connection has them.
const SAME_FIELDS: [u8; 6] = [0x82, 0x87, 0xc1, 0xc0, 0xbf, 0xbe];
/// Names by their number in the table that everybody has, and values, to be kept in the connection's.
const FIRST_FIELDS: [(u8, &str); 4] =
    [(0x41, "localhost"), (0x44, "/api/v1/ip"), (0x7a, "ipse-bench"), (0x53, "*/*")];
/// `authorization`, never to be kept.
const AUTHORIZATION: [u8; 2] = [0x1f, 0x08];
const FORWARDED: &[u8] = b"x-forwarded-for";
/// `:status` 200 by its number.
const STATUS_200: u8 = 0x88;

/// A connection.
#[derive(Default)]
pub(super) struct Http2 {
    streams: u32,
    /// Bytes that are no whole frame yet.
    part: Vec<u8>,
    body: Vec<u8>,
    is_answered: bool,
    fields: Vec<u8>,
}

impl Http2 {
    /// The request, behind what begins a connection if it is the first.
    pub(super) fn write(&mut self, request: Request<'_>, bytes: &mut Vec<u8>) {
        let fields = &mut self.fields;
        fields.clear();
        if self.streams == 0 {
            bytes.extend_from_slice(PREFACE);
            frame(bytes, SETTINGS, 0, 0, OUR_SETTINGS);
            frame(bytes, WINDOW_UPDATE, 0, 0, &MORE_WINDOW);
            fields.extend_from_slice(&SAME_FIELDS[..2]);
            for (name, value) in FIRST_FIELDS {
                fields.push(name);
                text(fields, value.as_bytes());
            }
        } else {
            fields.extend_from_slice(&SAME_FIELDS);
        }
        fields.extend_from_slice(&AUTHORIZATION);
        let bearer = b"Bearer ";
        fields.push(short(bearer.len() + request.key.len()));
        fields.extend_from_slice(bearer);
        fields.extend_from_slice(request.key.as_bytes());
        fields.push(0);
        text(fields, FORWARDED);
        text(fields, request.address.as_bytes());
        frame(bytes, HEADERS, END_STREAM | END_HEADERS, 2 * self.streams + 1, fields);
        self.streams += 1;
        self.body.clear();
        self.is_answered = false;
    }

    /// Takes in what came; says whether the answer is whole. What has to be said to it is written to `say`.
    pub(super) fn read(&mut self, came: &[u8], say: &mut Vec<u8>) -> Result<bool> {
        self.part.extend_from_slice(came);
        let mut at = 0;
        let mut is_whole = false;
        while let Some((head, rest)) = self.part[at..].split_first_chunk::<FRAME_HEAD>() {
            let [a, b, c, kind, flags, ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(payload) = rest.get(..length) else { break };
            ensure!(flags & PADDED == 0 || kind > HEADERS, "frames are padded");
            match kind {
                DATA => self.body.extend_from_slice(payload),
                HEADERS => {
                    // Changes of the table's size may stand before the status.
                    let status = payload.iter().find(|byte| **byte & 0xe0 != 0x20);
                    ensure!(status == Some(&STATUS_200), "not answered with 200");
                    self.is_answered = true;
                }
                SETTINGS if flags & ACKNOWLEDGED == 0 => frame(say, SETTINGS, ACKNOWLEDGED, 0, &[]),
                PING if flags & ACKNOWLEDGED == 0 => frame(say, PING, ACKNOWLEDGED, 0, payload),
                RESET => bail!("the request was given up"),
                GO_AWAY => bail!("the connection was given up"),
                _ => {}
            }
            if kind <= HEADERS && flags & END_STREAM != 0 {
                is_whole = true;
            }
            at += FRAME_HEAD + length;
        }
        self.part.drain(..at);
        ensure!(!is_whole || self.is_answered, "a body came without a head");
        Ok(is_whole)
    }

    /// The body of the last answer.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}

/// A text that is not packed.
fn text(fields: &mut Vec<u8>, text: &[u8]) {
    fields.push(short(text.len()));
    fields.extend_from_slice(text);
}

/// Lengths that fit into seven bits.
fn short(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(0).min(0x7e)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request<'_> = Request { key: "k", address: "192.0.2.1", number: 0 };

    fn asked() -> Http2 {
        let mut http2 = Http2::default();
        http2.write(REQUEST, &mut Vec::new());
        http2
    }

    #[test]
    fn what_was_said_once_is_said_by_number() {
        let mut http2 = asked();
        let mut second = Vec::new();
        http2.write(REQUEST, &mut second);
        assert_eq!(second[..FRAME_HEAD][3..], [HEADERS, END_STREAM | END_HEADERS, 0, 0, 0, 3]);
        assert_eq!(second[FRAME_HEAD..][..6], SAME_FIELDS);
    }

    #[test]
    fn answers_may_come_in_pieces() {
        let mut bytes = Vec::new();
        frame(&mut bytes, SETTINGS, 0, 0, &[]);
        frame(&mut bytes, HEADERS, END_HEADERS, 1, &[0x20, STATUS_200]);
        frame(&mut bytes, DATA, END_STREAM, 1, b"{}");
        let (mut http2, mut say) = (asked(), Vec::new());
        let whole: Vec<bool> =
            bytes.chunks(5).map(|piece| http2.read(piece, &mut say).expect("all is well")).collect();
        assert_eq!(whole.iter().filter(|whole| **whole).count(), 1);
        assert!(whole[whole.len() - 1] && http2.body() == b"{}");
        assert_eq!(say[3..5], [SETTINGS, ACKNOWLEDGED]);
    }

    #[test]
    fn other_answers_are_refused() {
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, 1, &[0x89]);
        assert!(asked().read(&bytes, &mut Vec::new()).is_err());
    }
}
