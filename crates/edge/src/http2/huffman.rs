//! The code of RFC 7541 in which texts of fields are packed.
//!
//! Codes of one length are successive numbers, and so are the symbols that they stand for in this table: so a code is found by its
//! length and its distance from the first of that length.

use super::hpack::Broken;

/// How many symbols have codes of so many bits, the end of all among those of 30.
const COUNTS: [u8; 31] =
    [0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4];

/// The symbols by their codes, shorter ones first.
#[rustfmt::skip]
const SYMBOLS: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116,
    32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95, 98, 100, 102, 103, 104, 108, 109, 110, 112, 114, 117,
    58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 89, 106, 107, 113, 118,
    119, 120, 121, 122,
    38, 42, 44, 59, 88, 90,
    33, 34, 40, 41, 63,
    39, 43, 124,
    35, 62,
    0, 36, 64, 91, 93, 126,
    94, 125,
    60, 96, 123,
    92, 195, 208,
    128, 130, 131, 162, 184, 194, 224, 226,
    153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230,
    129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190, 196, 198,
    228, 232, 233,
    1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183,
    188, 191, 197, 231, 239,
    9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237,
    199, 207, 234, 235,
    192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255,
    203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254,
    2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220, 249,
    10, 13, 22,
];

/// Codes of one length.
#[derive(Clone, Copy)]
struct Codes {
    bits: u32,
    /// Behind the last of them, with as many bits as a code can have at most.
    end: u32,
    /// The first of them, and where its symbol stands.
    first: u32,
    symbol: usize,
}

const MOST_BITS: u32 = 30;
const LENGTHS: usize = 21;

static CODES: [Codes; LENGTHS] = {
    let mut codes = [Codes { bits: 0, end: 0, first: 0, symbol: 0 }; LENGTHS];
    let (mut bits, mut first, mut symbol, mut at) = (1, 0_u32, 0, 0);
    while bits <= MOST_BITS {
        let count = COUNTS[bits as usize];
        if count > 0 {
            let end = (first + count as u32) << (MOST_BITS - bits);
            codes[at] = Codes { bits, end, first, symbol };
            at += 1;
        }
        first = (first + count as u32) << 1;
        symbol += count as usize;
        bits += 1;
    }
    codes
};

/// Unpacks a text.
pub(super) fn unpack(packed: &[u8], text: &mut Vec<u8>) -> Result<(), Broken> {
    let (mut waiting, mut count) = (0_u64, 0);
    let mut bytes = packed.iter();
    loop {
        while count <= 56 {
            let Some(byte) = bytes.next() else { break };
            waiting |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        if count < 5 {
            break;
        }
        let next = u32::try_from(waiting >> (64 - MOST_BITS)).unwrap_or_default();
        let Some(codes) = CODES.iter().find(|codes| next < codes.end) else {
            // Nothing but ones: the end, or what fills the last byte.
            break;
        };
        if codes.bits > count {
            break;
        }
        let distance = (next >> (MOST_BITS - codes.bits)) - codes.first;
        text.push(*SYMBOLS.get(codes.symbol + distance as usize).ok_or(Broken)?);
        waiting <<= codes.bits;
        count -= codes.bits;
    }
    // The last byte is filled with ones, and they are fewer than a byte.
    let filled = if count == 0 { 0 } else { waiting >> (64 - count) };
    if count > 7 || bytes.len() > 0 || filled != (1 << count) - 1 { Err(Broken) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let symbol = SYMBOLS.iter().position(|symbol| symbol == byte).unwrap();
            let codes = CODES.iter().rfind(|codes| codes.symbol <= symbol).unwrap();
            let code = codes.first + u32::try_from(symbol - codes.symbol).unwrap();
            bits += &format!("{code:0width$b}", width = codes.bits as usize);
        }
        bits += &"1".repeat(bits.len().next_multiple_of(8) - bits.len());
        (0..bits.len()).step_by(8).map(|at| u8::from_str_radix(&bits[at..at + 8], 2).unwrap()).collect()
    }

    #[test]
    fn every_symbol_stands_once_in_the_table() {
        let mut symbols = SYMBOLS;
        symbols.sort_unstable();
        assert!(symbols.into_iter().eq(0..=255));
        assert_eq!(CODES[LENGTHS - 1].end, 1 << MOST_BITS, "all codes are used");
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        assert_eq!(pack(b"302"), [0x64, 0x02]);
        assert_eq!(pack(b"www.example.com"), *b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff");
        let date =
            b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff";
        assert_eq!(pack(b"Mon, 21 Oct 2013 20:13:21 GMT"), date);
        assert_eq!(pack(&[249]), [0xff, 0xff, 0xff, 0xef], "28 bits");
        assert_eq!(pack(&[22]), [0xff, 0xff, 0xff, 0xfb], "30 bits");
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(text in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut unpacked = Vec::new();
            prop_assert_eq!(unpack(&pack(&text), &mut unpacked), Ok(()));
            prop_assert_eq!(unpacked, text);
        }

        #[test]
        fn any_bytes_are_unpacked_as_they_were_packed_or_broken(packed in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut unpacked = Vec::new();
            if unpack(&packed, &mut unpacked).is_ok() {
                prop_assert_eq!(pack(&unpacked), packed);
            }
        }
    }
}
