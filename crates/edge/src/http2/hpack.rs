//! Blocks of fields (RFC 7541), read.
//!
//! What is read is written out at once in the plainest way, in which nothing refers to anything that was said before: so it can be
//! read by somebody who knows nothing of the connection, and every field stands somewhere as it is.

use super::huffman::unpack;
use crate::fields::{Field, Part};
use std::collections::VecDeque;

/// How large the memory of a connection is if nobody says otherwise, and we never do.
pub(crate) const MEMORY_BYTES: u32 = 4096;
/// What every field in it takes beside its texts.
const FIELD_BYTES: usize = 32;

/// A block that cannot be read, and nothing behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Reads the blocks of a connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The fields that can be named by their number, the last one first.
    memory: VecDeque<Known>,
    bytes: usize,
    most_bytes: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug)]
struct Known {
    /// The name, and the value behind it.
    text: Box<[u8]>,
    name: usize,
}

/// A block as it was written out.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    /// Whether there was more than fits.
    pub(crate) is_cut: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            memory: VecDeque::new(),
            bytes: 0,
            most_bytes: MEMORY_BYTES as usize,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Decoder {
    /// Reads a block. What is beyond so many bytes is understood and left out.
    pub(crate) fn read(
        &mut self,
        mut input: &[u8],
        most_bytes: usize,
        block: &mut Block,
    ) -> Result<(), Broken> {
        block.clear();
        let mut may_resize = true;
        while let Some(first) = input.first() {
            let is_resize = first & 0xe0 == 0x20;
            match first {
                0x80.. => {
                    let (name, value) = self.known(number(&mut input, 7)?)?;
                    block.add(name, value, most_bytes);
                }
                _ if is_resize => {
                    let most = number(&mut input, 5)?;
                    if !may_resize || most > MEMORY_BYTES as usize {
                        return Err(Broken);
                    }
                    self.most_bytes = most;
                    self.forget(most);
                }
                _ => {
                    let is_kept = first & 0xc0 == 0x40;
                    let index = number(&mut input, if is_kept { 6 } else { 4 })?;
                    let (mut name_room, mut value_room) =
                        (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
                    let named = match index {
                        0 => text(&mut input, 7, &mut name_room)?,
                        index => self.known(index)?.0,
                    };
                    let value = text(&mut input, 7, &mut value_room)?;
                    block.add(named, value, most_bytes);
                    let kept = is_kept.then(|| Known {
                        text: [named, value].concat().into_boxed_slice(),
                        name: named.len(),
                    });
                    if let Some(kept) = kept {
                        self.keep(kept);
                    }
                    (self.name, self.value) = (name_room, value_room);
                }
            }
            may_resize &= is_resize;
        }
        Ok(())
    }

    /// The field of this number.
    fn known(&self, number: usize) -> Result<(&[u8], &[u8]), Broken> {
        let index = number.checked_sub(1).ok_or(Broken)?;
        if let Some((name, value)) = EVERYBODYS.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let known = self.memory.get(index - EVERYBODYS.len()).ok_or(Broken)?;
        Ok(known.text.split_at(known.name))
    }

    fn keep(&mut self, known: Known) {
        let bytes = known.text.len() + FIELD_BYTES;
        // One that is larger than all of it takes everything else with it, and is not kept.
        self.forget(self.most_bytes.saturating_sub(bytes));
        if bytes <= self.most_bytes {
            self.bytes += bytes;
            self.memory.push_front(known);
        }
    }

    /// Forgets the oldest until no more than this is left.
    fn forget(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes
            && let Some(oldest) = self.memory.pop_back()
        {
            self.bytes -= oldest.text.len() + FIELD_BYTES;
        }
    }
}

impl Block {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.is_cut = false;
    }

    /// Adds a field, unless there are more than so many bytes already.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8], most_bytes: usize) {
        if self.bytes.len() > most_bytes {
            self.is_cut = true;
            return;
        }
        write_literal(&mut self.bytes, name, value);
        let value_at = self.bytes.len() - value.len();
        let name_at = value_at - length_bytes(value.len()) - name.len();
        // What stands too far away for it is in no plain request.
        match (Part::new(name, name_at), Part::new(value, value_at)) {
            (Some(name), Some(value)) => self.fields.push(Field { name, value }),
            _ => self.is_cut = true,
        }
    }
}

/// Writes a field as it is, to be kept by nobody.
pub(crate) fn write_literal(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    for text in [name, value] {
        write_number(block, 0, 7, text.len());
        block.extend_from_slice(text);
    }
}

/// Writes a number whose first bits stand in the last ones of a byte, so many, behind what else that byte says.
pub(crate) fn write_number(block: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let most = u8::MAX >> (u8::BITS - bits);
    let Some(mut rest) = number.checked_sub(most.into()) else {
        return block.push(first | u8::try_from(number).unwrap_or_default());
    };
    block.push(first | most);
    while rest >= 0x80 {
        block.push(0x80 | u8::try_from(rest & 0x7f).unwrap_or_default());
        rest >>= 7;
    }
    block.push(u8::try_from(rest).unwrap_or_default());
}

/// How many bytes a length takes.
fn length_bytes(length: usize) -> usize {
    let Some(mut rest) = length.checked_sub(0x7f) else { return 1 };
    let mut bytes = 2;
    while rest >= 0x80 {
        rest >>= 7;
        bytes += 1;
    }
    bytes
}

/// A number whose first bits stand in so many bits of the next byte.
pub(crate) fn number(input: &mut &[u8], bits: u32) -> Result<usize, Broken> {
    let (first, mut rest) = input.split_first().ok_or(Broken)?;
    let most = (1_usize << bits) - 1;
    let mut number = usize::from(*first) & most;
    if number == most {
        let mut shift = 0;
        loop {
            let next;
            (next, rest) = rest.split_first().ok_or(Broken)?;
            number += usize::from(next & 0x7f) << shift;
            shift += 7;
            if next & 0x80 == 0 {
                break;
            }
            // More than any length or number that is used.
            if shift > 21 {
                return Err(Broken);
            }
        }
    }
    *input = rest;
    Ok(number)
}

/// A text, which stands in the input or, if it was packed, in the room for it. Its length begins in so many bits of a byte, and
/// the bit before them says whether it is packed.
pub(crate) fn text<'a, 'b: 'a>(
    input: &mut &'b [u8],
    bits: u32,
    room: &'a mut Vec<u8>,
) -> Result<&'a [u8], Broken> {
    let is_packed = input.first().ok_or(Broken)? & (1 << bits) != 0;
    let length = number(input, bits)?;
    let (text, rest) = input.split_at_checked(length).ok_or(Broken)?;
    *input = rest;
    if !is_packed {
        return Ok(text);
    }
    room.clear();
    unpack(text, room)?;
    Ok(room)
}

/// The fields that everybody knows.
const EVERYBODYS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a block says, in the words of HTTP/1.
    fn said(block: &Block) -> String {
        let text = |part: Part| String::from_utf8(part.of(&block.bytes).to_vec()).unwrap();
        block.fields.iter().map(|field| format!("{}: {}\n", text(field.name), text(field.value))).collect()
    }

    fn bytes(digits: &str) -> Vec<u8> {
        let digits: String = digits.split_whitespace().collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    #[track_caller]
    fn check(decoder: &mut Decoder, digits: &str, expected: &str, memory: usize) {
        let mut block = Block::default();
        decoder.read(&bytes(digits), 10_000, &mut block).unwrap();
        assert_eq!(said(&block), expected);
        assert_eq!((decoder.bytes, block.is_cut), (memory, false));
        // Whoever knows nothing reads the same.
        let mut again = Block::default();
        Decoder::default().read(&block.bytes, 10_000, &mut again).unwrap();
        assert_eq!((said(&again), &again.bytes), (expected.to_owned(), &block.bytes));
    }

    const FIRST: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
    const THIRD: &str = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n";

    /// The examples of RFC 7541, C.3 and C.4.
    #[test]
    fn requests_are_read_as_the_standard_tells() {
        let mut plain = Decoder::default();
        check(&mut plain, "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, 57);
        check(
            &mut plain,
            "8286 84be 5808 6e6f 2d63 6163 6865",
            &format!("{FIRST}cache-control: no-cache\n"),
            110,
        );
        check(
            &mut plain,
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            THIRD,
            164,
        );
        let mut packed = Decoder::default();
        check(&mut packed, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57);
        check(
            &mut packed,
            "8286 84be 5886 a8eb 1064 9cbf",
            &format!("{FIRST}cache-control: no-cache\n"),
            110,
        );
        check(&mut packed, "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, 164);
    }

    #[test]
    fn what_is_forgotten_cannot_be_named() {
        let mut decoder = Decoder::default();
        check(&mut decoder, "4001 6101 62 4001 6301 64", "a: b\nc: d\n", 68);
        check(&mut decoder, "be bf", "c: d\na: b\n", 68);
        // Less room, then more: only the last is still there.
        check(&mut decoder, "3f 04 3f e1 1f be", "c: d\n", 34);
        let mut block = Block::default();
        assert_eq!(decoder.read(&[0xbf], 1_000, &mut block), Err(Broken));
        // One that is too large for all of it.
        let large = [&[0x40, 1, b'a', 0x7f, 0x81, 0x20][..], &[b'x'; 4224]].concat();
        decoder.read(&large, 10_000, &mut block).unwrap();
        assert_eq!((decoder.bytes, block.fields.len()), (0, 1));
    }

    #[test]
    fn what_cannot_be_read_is_broken() {
        for broken in [
            &[0x80][..],
            &[0xbe],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x82, 0x20],
            &[0x3f, 0xe2, 0x1f],
            &[0x00],
            &[0x00, 0x02, b'a'],
            &[0x00, 0x01, b'a', 0x05, b'b'],
            // Packed: the end of all, a byte of nothing, zeros at the end.
            &[0x00, 0x01, b'a', 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x00, 0x01, b'a', 0x82, 0x1f, 0xff],
            &[0x00, 0x01, b'a', 0x81, 0x18],
        ] {
            assert_eq!(
                Decoder::default().read(broken, 1_000, &mut Block::default()),
                Err(Broken),
                "{broken:x?}"
            );
        }
    }

    #[test]
    fn what_is_too_much_is_left_out_and_understood() {
        let mut decoder = Decoder::default();
        let mut block = Block::default();
        let named = [0x40, 1, b'a', 0x7f, 0x00].into_iter().chain([b'x'; 127]).collect::<Vec<_>>();
        decoder.read(&[&named[..], &[0xbe; 1_000]].concat(), 500, &mut block).unwrap();
        assert!(block.is_cut && block.bytes.len() < 700, "{}", block.bytes.len());
        check(&mut decoder, "4001 6301 64", "c: d\n", 160 + 34);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_broken(input in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut block = Block::default();
            if Decoder::default().read(&input, 2_000, &mut block).is_ok() && !block.is_cut {
                let mut again = Block::default();
                prop_assert_eq!(Decoder::default().read(&block.bytes, 100_000, &mut again), Ok(()));
                prop_assert_eq!(&again.bytes, &block.bytes);
            }
        }

        #[test]
        fn texts_of_any_length_are_read_as_written(name in ".{0,300}", value in ".{0,5000}") {
            let mut block = Vec::new();
            write_literal(&mut block, name.as_bytes(), value.as_bytes());
            let mut read = Block::default();
            prop_assert_eq!(Decoder::default().read(&block, 100_000, &mut read), Ok(()));
            prop_assert_eq!(said(&read), format!("{name}: {value}\n"));
        }
    }
}
