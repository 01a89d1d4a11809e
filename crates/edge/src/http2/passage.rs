//! The way from the front to the library that speaks HTTP/2, for a connection on which something was asked already.
//!
//! The library knows nothing of what came before. It is shown a connection that begins: with the settings and the room of the
//! peer as they are now, and with blocks of fields that refer to nothing. What it says to such a beginning, the peer has heard
//! before, and does not hear again.

use super::frame::{
    BROKEN_BLOCK, Begins, CONTINUATION, END_HEADERS, END_STREAM, Frame, GO_AWAY, HEADERS, PADDED, PRIORITIZE,
    PRIORITY, PRIORITY_BYTES, RESET, RESET_BYTES, SETTINGS, WINDOW_UPDATE, number, write_block,
};
use super::hpack::{Block, Decoder};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As much of a block is shown: more than any that is answered, so that it is refused as too large.
pub(crate) const MOST_SHOWN: usize = 256 * 1024;
/// As much of a block may come before it is whole, in as many frames.
const LONGEST_BLOCK: usize = 1024 * 1024;
const MOST_FRAMES: usize = 256;
/// With as much to be shown nothing more is looked at.
const ENOUGH: usize = 64 * 1024;
/// As much is read at once.
const READ_BYTES: usize = 4096;

/// What a connection brings along.
pub(crate) struct Passage {
    decoder: Decoder,
    block: Block,
    /// The last stream that was answered before. What comes about it or those before it comes too late, and is no fault.
    answered: u32,
    /// What the library is shown next, from there on.
    shown: Vec<u8>,
    shown_at: usize,
    /// What came and was not looked at yet.
    came: Vec<u8>,
    begun: Option<Begun>,
    /// Nothing is looked at any more: what comes next is a fault, which the library finds.
    is_lost: bool,
    /// How many settings are still to be said that were said before: its own, and that it has heard those of the peer.
    unheard: u8,
    /// The last stream that was answered before, until the library has answered one itself: up to then it knows of none, and
    /// would say at the end that none was.
    untold: u32,
    /// What the library said and was not looked at yet.
    said: Vec<u8>,
    /// What of it the peer is told.
    told: Vec<u8>,
}

/// A block of which a part has come.
struct Begun {
    flags: u8,
    stream: u32,
    block: Vec<u8>,
    frames: usize,
}

impl Passage {
    /// Shows this first, and then what came and was not read.
    pub(crate) fn new(decoder: Decoder, answered: u32, shown: Vec<u8>, came: &[u8]) -> Self {
        let mut passage = Self {
            decoder,
            block: Block::default(),
            answered,
            shown,
            shown_at: 0,
            came: came.to_vec(),
            begun: None,
            is_lost: false,
            unheard: 2,
            untold: answered,
            said: Vec::new(),
            told: Vec::new(),
        };
        passage.show();
        passage
    }

    /// Shows what came, as far as it is whole.
    fn show(&mut self) {
        let came = std::mem::take(&mut self.came);
        let mut at = 0;
        while !self.is_lost
            && self.shown.len() < ENOUGH
            && let next = Frame::read(&came[at..])
            && next != Begins::InPart
        {
            match next {
                Begins::With(frame, length) if self.show_frame(frame) => at += length,
                _ => {
                    // What was held back is as wrong as the rest.
                    if let Some(Begun { flags, stream, block, .. }) = self.begun.take() {
                        let flags = flags & END_STREAM;
                        Frame { kind: HEADERS, flags, stream, payload: &block }.write(&mut self.shown);
                    }
                    self.is_lost = true;
                }
            }
        }
        self.came = came[at..].to_vec();
        if self.is_lost {
            self.shown.append(&mut self.came);
        }
    }

    /// Shows a frame, or says that it is not what may come next.
    fn show_frame(&mut self, frame: Frame<'_>) -> bool {
        match (frame.kind, self.begun.take()) {
            (CONTINUATION, Some(mut begun)) if frame.stream == begun.stream => {
                begun.block.extend_from_slice(frame.payload);
                begun.frames += 1;
                self.show_fields(begun, frame.has(END_HEADERS))
            }
            (_, None) if self.was_answered(frame.stream) && is_harmless(&frame) => true,
            (HEADERS, None) if self.was_answered(frame.stream) => {
                // Nothing may begin there again: the library is shown something that is as wrong.
                Frame { stream: 0, ..frame }.write(&mut self.shown);
                true
            }
            (HEADERS, None) => {
                let Some(block) = block_of(&frame) else { return false };
                let begun =
                    Begun { flags: frame.flags, stream: frame.stream, block: block.to_vec(), frames: 1 };
                self.show_fields(begun, frame.has(END_HEADERS))
            }
            (_, None) => {
                frame.write(&mut self.shown);
                true
            }
            (_, begun) => {
                self.begun = begun;
                false
            }
        }
    }

    fn show_fields(&mut self, begun: Begun, is_whole: bool) -> bool {
        if !is_whole {
            let fits = begun.block.len() <= LONGEST_BLOCK && begun.frames <= MOST_FRAMES;
            // More of it would not be shown.
            self.begun = fits.then_some(begun);
            return fits;
        }
        let Begun { flags, stream, block, .. } = begun;
        // Of what is too much something is left out, and what is shown is too much even so: it is refused as everywhere.
        let read = self.decoder.read(&block, MOST_SHOWN, &mut self.block);
        let shown = if read.is_ok() { &self.block.bytes } else { BROKEN_BLOCK };
        write_block(&mut self.shown, flags, stream, shown);
        true
    }

    /// Takes what the library says, and keeps what the peer is to be told.
    fn hear(&mut self, said: &[u8]) {
        self.said.extend_from_slice(said);
        let said = std::mem::take(&mut self.said);
        let mut at = 0;
        while self.listens() {
            match Frame::read(&said[at..]) {
                Begins::With(frame, length) => {
                    self.hear_frame(&frame);
                    at += length;
                }
                Begins::InPart => break,
                // None of those that are listened for.
                Begins::TooLong => (self.unheard, self.untold) = (0, 0),
            }
        }
        let rest = &said[at..];
        if self.listens() { &mut self.said } else { &mut self.told }.extend_from_slice(rest);
    }

    fn hear_frame(&mut self, frame: &Frame<'_>) {
        match (frame.kind, frame.payload.split_first_chunk()) {
            // The first are those that it begins with, or answers the beginning with.
            (SETTINGS, _) if self.unheard > 0 => self.unheard -= 1,
            (GO_AWAY, Some((last, why))) => {
                let last = number(*last).max(self.untold);
                let payload = [&last.to_be_bytes(), why].concat();
                Frame { payload: &payload, ..*frame }.write(&mut self.told);
            }
            (kind, _) => {
                if kind == HEADERS && frame.stream > self.untold {
                    self.untold = 0;
                }
                frame.write(&mut self.told);
            }
        }
    }

    /// Whether something of what the library says may have to be said otherwise.
    fn listens(&self) -> bool {
        self.unheard > 0 || self.untold > 0
    }

    fn was_answered(&self, stream: u32) -> bool {
        stream % 2 == 1 && stream <= self.answered
    }

    fn is_over(&self) -> bool {
        !self.listens() && self.told.is_empty()
    }
}

/// Whether a frame about an answer that has left comes only too late.
fn is_harmless(frame: &Frame<'_>) -> bool {
    match frame.kind {
        RESET => frame.payload.len() == RESET_BYTES,
        WINDOW_UPDATE => frame.payload.try_into().is_ok_and(|more| number(more) > 0),
        PRIORITIZE => frame.payload.len() == PRIORITY_BYTES,
        _ => false,
    }
}

/// The block that a frame brings, without what stands around it.
fn block_of<'a>(frame: &Frame<'a>) -> Option<&'a [u8]> {
    let mut block = frame.payload;
    if frame.has(PADDED) {
        let (padding, rest) = block.split_first()?;
        block = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
    }
    if frame.has(PRIORITY) {
        (_, block) = block.split_first_chunk::<PRIORITY_BYTES>()?;
    }
    Some(block)
}

/// What the library speaks through: a wire, and a passage before it if there is one.
pub(super) struct Passed<W> {
    wire: W,
    passage: Option<Box<Passage>>,
}

impl<W> Passed<W> {
    pub(super) fn new(wire: W, passage: Option<Box<Passage>>) -> Self {
        Self { wire, passage }
    }
}

impl<W: AsyncRead + Unpin> AsyncRead for Passed<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { wire, passage } = self.get_mut();
        let Some(passage) = passage else { return Pin::new(wire).poll_read(cx, buffer) };
        if passage.shown_at == passage.shown.len() {
            passage.shown.clear();
            passage.shown_at = 0;
            // Some may have come already.
            passage.show();
        }
        while passage.shown.is_empty() {
            if passage.is_lost {
                return Pin::new(wire).poll_read(cx, buffer);
            }
            let mut room = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut *wire).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            passage.came.extend_from_slice(read.filled());
            passage.show();
        }
        let shown = &passage.shown[passage.shown_at..];
        let length = shown.len().min(buffer.remaining());
        buffer.put_slice(&shown[..length]);
        passage.shown_at += length;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> Passed<W> {
    /// Tells the peer what it is to be told.
    fn poll_told(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(passage) = &mut self.passage else { return Poll::Ready(Ok(())) };
        while !passage.told.is_empty() {
            let written = ready!(Pin::new(&mut self.wire).poll_write(cx, &passage.told))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            passage.told.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// The passage, as long as what is said goes through it.
    fn hearing(&mut self) -> Option<&mut Passage> {
        self.passage.as_deref_mut().filter(|passage| !passage.is_over())
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Passed<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_told(cx))?;
        match self.hearing() {
            Some(passage) => {
                passage.hear(bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            None => Pin::new(&mut self.wire).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_told(cx))?;
        match self.hearing() {
            Some(passage) => {
                buffers.iter().for_each(|buffer| passage.hear(buffer));
                Poll::Ready(Ok(buffers.iter().map(|buffer| buffer.len()).sum()))
            }
            None => Pin::new(&mut self.wire).poll_write_vectored(cx, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_told(cx))?;
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_told(cx))?;
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
