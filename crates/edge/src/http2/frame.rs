//! Frames of HTTP/2, as far as we read and write them ourselves.

/// What every connection begins with.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a payload may be that nobody has agreed on.
pub(crate) const LONGEST: usize = 16_384;

/// Kinds of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITIZE: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags.
pub(crate) const ACKNOWLEDGED: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const PRIORITY: u8 = 0x20;

/// How much is said about a frame before its payload.
const HEAD_BYTES: usize = 9;
/// A block of fields that nobody can read.
pub(crate) const BROKEN_BLOCK: &[u8] = &[0x80];
/// How much a frame says about its priority.
pub(crate) const PRIORITY_BYTES: usize = 5;
/// How much is said of why a stream ends.
pub(crate) const RESET_BYTES: usize = 4;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: &'a [u8],
}

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begins<'a> {
    /// A frame, and how many bytes it is.
    With(Frame<'a>, usize),
    /// A part of one.
    InPart,
    /// One that is too long.
    TooLong,
}

impl<'a> Frame<'a> {
    /// Reads the frame that these bytes begin with.
    pub(crate) fn read(bytes: &'a [u8]) -> Begins<'a> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Begins::InPart };
        let [high, middle, low, kind, flags, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if length > LONGEST {
            return Begins::TooLong;
        }
        let Some(payload) = rest.get(..length) else { return Begins::InPart };
        let stream = number(stream);
        Begins::With(Self { kind, flags, stream, payload }, HEAD_BYTES + length)
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Writes it; its payload is not longer than may be.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        begin(bytes, self.kind, self.flags, self.stream);
        bytes.extend_from_slice(self.payload);
        end(bytes, self.payload.len());
    }
}

/// A number of thirty-one bits; the first bit says nothing.
pub(crate) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// Begins a frame whose payload is written next.
pub(crate) fn begin(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32) {
    bytes.extend_from_slice(&[0, 0, 0, kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
}

/// Ends a frame whose payload is the last that was written.
pub(crate) fn end(bytes: &mut [u8], payload: usize) {
    let [_, length @ ..] = u32::try_from(payload).unwrap_or_default().to_be_bytes();
    if let Some(head) = bytes.len().checked_sub(HEAD_BYTES + payload) {
        bytes[head..head + length.len()].copy_from_slice(&length);
    }
}

/// Writes a block of fields, in as many frames as it needs.
pub(crate) fn write_block(bytes: &mut Vec<u8>, flags: u8, stream: u32, block: &[u8]) {
    let flags = flags & END_STREAM;
    let (first, mut rest) = block.split_at(block.len().min(LONGEST));
    let ends = |rest: &[u8]| if rest.is_empty() { END_HEADERS } else { 0 };
    Frame { kind: HEADERS, flags: flags | ends(rest), stream, payload: first }.write(bytes);
    while !rest.is_empty() {
        let payload;
        (payload, rest) = rest.split_at(rest.len().min(LONGEST));
        Frame { kind: CONTINUATION, flags: ends(rest), stream, payload }.write(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_soon_as_it_is_whole() {
        let frame = Frame { kind: PING, flags: ACKNOWLEDGED, stream: 0x7fff_ffff, payload: b"payload!" };
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Frame::read(&bytes[..length]), Begins::InPart);
        }
        bytes.extend_from_slice(b"next");
        assert_eq!(Frame::read(&bytes), Begins::With(frame, bytes.len() - 4));
    }

    #[test]
    fn what_is_too_long_is_told_by_its_head() {
        let mut bytes = Vec::new();
        begin(&mut bytes, DATA, 0, 1);
        bytes[1..3].copy_from_slice(&[0x40, 0x01]);
        assert_eq!(Frame::read(&bytes), Begins::TooLong);
        bytes[2] = 0;
        assert_eq!(Frame::read(&bytes), Begins::InPart);
    }

    #[test]
    fn a_long_block_is_written_in_several_frames() {
        for (length, expected) in [(0, 1), (LONGEST, 1), (LONGEST + 1, 2), (3 * LONGEST, 3)] {
            let (block, mut bytes) = (vec![7; length], Vec::new());
            write_block(&mut bytes, END_STREAM | PRIORITY, 5, &block);
            let (mut at, mut joined, mut frames) = (0, Vec::new(), 0);
            while let Begins::With(frame, length) = Frame::read(&bytes[at..]) {
                at += length;
                frames += 1;
                joined.extend_from_slice(frame.payload);
                assert_eq!(frame.kind, if frames == 1 { HEADERS } else { CONTINUATION });
                assert_eq!((frame.has(END_HEADERS), frame.stream), (frames == expected, 5));
                assert_eq!(frame.has(END_STREAM), frames == 1);
            }
            assert_eq!((frames, joined, at), (expected, block, bytes.len()));
        }
    }
}
