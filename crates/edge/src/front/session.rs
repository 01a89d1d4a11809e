//! HTTP/2 with one caller, as far as it is as plain as a lookup: requests without a body, each answered at once.
//!
//! So no stream is ever open from one frame to the next, and little has to be remembered of a connection: the fields that can be
//! named by their number, and how much the peer has room for. Whatever else comes goes to the library, and the connection with
//! it: as it began, if nothing was said on it yet, and else through a [`Passage`].

use super::guest::Beginning;
use crate::http2::frame::{self, Begins, Frame, PREFACE};
use crate::http2::hpack::{Block, Decoder, MEMORY_BYTES, write_literal};
use crate::http2::{HEADER_LIST_BYTES, MOST_SHOWN, Passage, WINDOW_BYTES};
use crate::serve::HTTP_STREAMS;
use memchr::memchr;
use memchr::memmem::find;

/// The longest body that is answered here, which fits into a frame.
pub(super) const LONGEST_BODY: usize = frame::LONGEST;
/// What a peer has room for beside what it says.
const FIRST_ROOM: u32 = 65_535;
/// The most that it can have room for.
const MOST_ROOM: u32 = 0x7fff_ffff;
/// More settings than this are not plain, in bytes.
const MOST_SETTINGS: usize = 256;
const SETTING_BYTES: usize = 6;
const STATUS: &[u8] = b":status";
/// Settings by their numbers.
const TABLE_BYTES: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_STREAMS: u16 = 3;
const INITIAL_WINDOW: u16 = 4;
const MAX_FRAME: u16 = 5;
const MAX_LIST: u16 = 6;

/// A connection on which HTTP/2 is spoken.
pub(crate) struct Session {
    decoder: Decoder,
    /// What came and was not read: no whole frame, or more than one turn has time for.
    pub(super) rest: Vec<u8>,
    /// Everything that the peer has set, one behind the other; nothing before it has said so for the first time.
    settings: Option<Vec<u8>>,
    /// Whether something was said to the peer.
    pub(super) is_begun: bool,
    /// Whether it has heard our settings.
    is_heard: bool,
    last_stream: u32,
    /// How much the peer has room for, on the connection, beyond what every peer has. That much is never used, so that
    /// somebody who takes over can begin with it.
    more_room: u32,
    /// How much it has room for on a stream.
    stream_room: u32,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A request, whose fields were read.
    Request(Stream),
    /// What is left is no whole frame.
    Nothing,
    /// Something that is for somebody else to read.
    Unknown,
    /// Fields that cannot be read.
    Broken(Stream),
}

/// Where a request came, and where it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    number: u32,
    /// Whether it is all that comes on it.
    pub(super) is_whole: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            decoder: Decoder::default(),
            rest: Vec::new(),
            settings: None,
            is_begun: false,
            is_heard: false,
            last_stream: 0,
            more_room: 0,
            stream_room: FIRST_ROOM,
        }
    }
}

impl Session {
    /// Reads on from there to the next request. What is to be said to what stands before it is added to `said`.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        block: &mut Block,
        said: &mut Vec<u8>,
    ) -> Next {
        if !self.is_begun && *at == 0 {
            match bytes.get(..PREFACE.len()) {
                Some(PREFACE) => *at = PREFACE.len(),
                None if PREFACE.starts_with(bytes) => return Next::Nothing,
                _ => return Next::Unknown,
            }
        }
        loop {
            let (next, length) = match Frame::read(&bytes[*at..]) {
                Begins::With(next, length) => (next, length),
                Begins::InPart => return Next::Nothing,
                Begins::TooLong => return Next::Unknown,
            };
            if next.kind == frame::HEADERS && self.settings.is_some() {
                let Some(fields) = self.fields_of(&next) else { return Next::Unknown };
                self.last_stream = next.stream;
                *at += length;
                let stream = Stream { number: next.stream, is_whole: next.has(frame::END_STREAM) };
                return match self.decoder.read(fields, MOST_SHOWN, block) {
                    Ok(()) => Next::Request(stream),
                    Err(_) => Next::Broken(stream),
                };
            }
            if self.take(&next, said).is_none() {
                return Next::Unknown;
            }
            *at += length;
        }
    }

    /// The fields of a request that is plain as far as its frame tells.
    fn fields_of<'a>(&self, next: &Frame<'a>) -> Option<&'a [u8]> {
        let is_new = next.stream % 2 == 1 && next.stream > self.last_stream;
        if !is_new || !next.has(frame::END_HEADERS) || next.has(frame::PADDED) {
            return None;
        }
        if !next.has(frame::PRIORITY) {
            return Some(next.payload);
        }
        let ([a, b, c, d, _], fields) = next.payload.split_first_chunk::<{ frame::PRIORITY_BYTES }>()?;
        (frame::number([*a, *b, *c, *d]) != next.stream).then_some(fields)
    }

    /// Takes a frame that is about the connection, unless there is something unusual about it.
    fn take(&mut self, next: &Frame<'_>, said: &mut Vec<u8>) -> Option<()> {
        let Frame { kind, stream, payload, .. } = *next;
        let is_closed = stream % 2 == 1 && stream <= self.last_stream;
        match kind {
            frame::SETTINGS if stream == 0 && next.has(frame::ACKNOWLEDGED) => {
                let is_due = self.is_begun && !self.is_heard && payload.is_empty();
                self.is_heard = is_due.then_some(true)?;
            }
            frame::SETTINGS if stream == 0 => self.set(payload, said)?,
            _ if self.settings.is_none() => return None,
            frame::WINDOW_UPDATE => {
                let more = frame::number(payload.try_into().ok()?);
                if more == 0 || (stream != 0 && !is_closed) {
                    return None;
                }
                if stream == 0 {
                    let room = self.more_room.checked_add(more)?;
                    self.more_room = (room <= MOST_ROOM - FIRST_ROOM).then_some(room)?;
                }
            }
            frame::PING if stream == 0 && payload.len() == 8 && !next.has(frame::ACKNOWLEDGED) => {
                Frame { flags: frame::ACKNOWLEDGED, ..*next }.write(said);
            }
            // What it says about an answer that has left comes too late.
            frame::RESET if is_closed && payload.len() == frame::RESET_BYTES => {}
            _ => return None,
        }
        Some(())
    }

    /// Takes settings of the peer.
    fn set(&mut self, payload: &[u8], said: &mut Vec<u8>) -> Option<()> {
        let (settings, rest) = payload.as_chunks::<SETTING_BYTES>();
        let before = self.settings.as_ref().map_or(0, Vec::len);
        if !rest.is_empty() || before + payload.len() > MOST_SETTINGS {
            return None;
        }
        let mut stream_room = self.stream_room;
        for [high, low, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            let is_usual = match u16::from_be_bytes([*high, *low]) {
                // We say nothing by numbers; but who wants to remember less wants to be told that this was heard.
                TABLE_BYTES => value >= MEMORY_BYTES,
                ENABLE_PUSH => value <= 1,
                INITIAL_WINDOW => {
                    stream_room = value;
                    value <= MOST_ROOM
                }
                MAX_FRAME => (16_384..=16_777_215).contains(&value),
                _ => true,
            };
            is_usual.then_some(())?;
        }
        self.stream_room = stream_room;
        self.settings.get_or_insert_default().extend_from_slice(payload);
        Frame { kind: frame::SETTINGS, flags: frame::ACKNOWLEDGED, stream: 0, payload: &[] }.write(said);
        Some(())
    }

    /// Whether the peer has room for any answer that is given here.
    pub(super) fn has_room(&self) -> bool {
        self.more_room.min(self.stream_room) as usize >= LONGEST_BODY
    }

    /// Whether the connection goes on here: its beginning was read.
    pub(super) fn begins(&self, at: usize) -> bool {
        self.is_begun || at >= PREFACE.len()
    }

    /// Says what is to be said beside answers, and before it what has to be said first.
    pub(super) fn say(&mut self, said: &mut Vec<u8>, output: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_begun, true) {
            write_settings(output);
        }
        output.append(said);
    }

    /// Writes an answer that was drafted as HTTP/1 has it: the lines of its head, and its body.
    pub(super) fn write(&mut self, stream: Stream, head: &[u8], body: &[u8], output: &mut Vec<u8>) {
        self.spend(body.len());
        write_answer(stream.number, head, body, output);
    }

    /// Writes an answer of HTTP/1.
    pub(super) fn write_whole(&mut self, stream: Stream, answer: &[u8], output: &mut Vec<u8>) {
        let (head, body) = answer.split_at(end_of_head(answer));
        self.write(stream, head, body, output);
    }

    /// Notes that so much was sent.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.more_room = self.more_room.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// What somebody begins with who takes over, behind the fields that were read last, if nobody has answered them, and before
    /// what was not read.
    pub(super) fn leave(self, unanswered: Option<(Stream, Option<&[u8]>)>, came: &[u8]) -> Beginning {
        let mut shown = PREFACE.to_vec();
        let mut show = |kind, flags, payload| Frame { kind, flags, stream: 0, payload }.write(&mut shown);
        show(frame::SETTINGS, 0, self.settings.as_deref().unwrap_or_default());
        if self.is_heard {
            show(frame::SETTINGS, frame::ACKNOWLEDGED, &[]);
        }
        if self.more_room > 0 {
            show(frame::WINDOW_UPDATE, 0, &self.more_room.to_be_bytes());
        }
        if let Some((stream, block)) = unanswered {
            let flags = if stream.is_whole { frame::END_STREAM } else { 0 };
            let block = block.unwrap_or(frame::BROKEN_BLOCK);
            frame::write_block(&mut shown, flags, stream.number, block);
        }
        let answered = unanswered.map_or(self.last_stream, |(stream, _)| stream.number - 1);
        let passage = Box::new(Passage::new(self.decoder, answered, shown, came));
        Beginning { passage: Some(passage), ..Beginning::default() }
    }

    /// The same at rest.
    pub(super) fn leave_at_rest(mut self) -> Beginning {
        let rest = std::mem::take(&mut self.rest);
        match self.is_begun {
            true => self.leave(None, &rest),
            false => Beginning { bytes: rest, ..Beginning::default() },
        }
    }

    /// The last word: which request was the last that was answered.
    pub(super) fn last_word(&self) -> Option<Vec<u8>> {
        let mut said = Vec::new();
        let payload = [self.last_stream.to_be_bytes(), [0; 4]].concat();
        Frame { kind: frame::GO_AWAY, flags: 0, stream: 0, payload: &payload }.write(&mut said);
        self.is_begun.then_some(said)
    }
}

/// What has to be said first.
fn write_settings(output: &mut Vec<u8>) {
    let mut payload = Vec::new();
    for (setting, value) in
        [(MAX_STREAMS, HTTP_STREAMS), (INITIAL_WINDOW, WINDOW_BYTES), (MAX_LIST, HEADER_LIST_BYTES)]
    {
        payload.extend_from_slice(&setting.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    Frame { kind: frame::SETTINGS, flags: 0, stream: 0, payload: &payload }.write(output);
}

fn write_answer(stream: u32, head: &[u8], body: &[u8], output: &mut Vec<u8>) {
    let ends = if body.is_empty() { frame::END_STREAM } else { 0 };
    frame::begin(output, frame::HEADERS, frame::END_HEADERS | ends, stream);
    let begin = output.len();
    write_lines(output, head);
    let length = output.len() - begin;
    frame::end(output, length);
    if !body.is_empty() {
        Frame { kind: frame::DATA, flags: frame::END_STREAM, stream, payload: body }.write(output);
    }
}

/// Writes lines of a head of HTTP/1 as fields of HTTP/2.
fn write_lines(block: &mut Vec<u8>, lines: &[u8]) {
    /// `:status` 200 among the fields that everybody knows.
    const STATUS_200: u8 = 0x88;
    for (name, value) in answer_fields(lines) {
        match (name, value) {
            (STATUS, b"200") => block.push(STATUS_200),
            _ => write_literal(block, name, value),
        }
    }
}

/// Lines of a head of HTTP/1 as fields of later versions.
pub(crate) fn answer_fields(mut lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let end = memchr(b'\n', lines)?;
        let line = &lines[..end.saturating_sub(1)];
        lines = &lines[end + 1..];
        if let Some(status) = line.strip_prefix(b"HTTP/1.1 ") {
            return Some((STATUS, status.get(..3).unwrap_or(status)));
        }
        let colon = memchr(b':', line)?;
        Some((&line[..colon], line.get(colon + 2..).unwrap_or_default()))
    })
}

/// Where the head of an answer of HTTP/1 ends.
pub(crate) fn end_of_head(answer: &[u8]) -> usize {
    const END: &[u8] = b"\r\n\r\n";
    find(answer, END).map_or(answer.len(), |end| end + END.len())
}

/// The same frames with another answer, as HTTP/1 has it, in the place of each. Says too how much more room they take.
pub(super) fn replace_answers(said: &[u8], answer: &[u8]) -> (Vec<u8>, usize) {
    let (mut replaced, mut at, mut before, mut after) = (Vec::new(), 0, 0, 0);
    let head = end_of_head(answer);
    while let Begins::With(next, length) = Frame::read(&said[at..]) {
        match next.kind {
            frame::HEADERS => {
                write_answer(next.stream, &answer[..head], &answer[head..], &mut replaced);
                after += answer.len() - head;
            }
            frame::DATA => before += next.payload.len(),
            _ => replaced.extend_from_slice(&said[at..at + length]),
        }
        at += length;
    }
    (replaced, after.saturating_sub(before))
}
