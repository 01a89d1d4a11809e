//! The alphabet of the columns: numbers of variable length, texts, and numbers of fixed width.

use crate::error::Error;

/// What is wrong with an index that is too large.
pub(crate) const POINTS_NOWHERE: &str = "it points to what does not exist";

/// What a column is written into.
#[derive(Default)]
pub(crate) struct Sink(pub(crate) Vec<u8>);

impl Sink {
    /// Seven bits a byte, the lowest first.
    #[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    pub(crate) fn number(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// The length plus one, and the bytes; 0 for nothing.
    pub(crate) fn text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.number(text.len() as u128 + 1);
                self.0.extend_from_slice(text.as_bytes());
            }
            None => self.number(0),
        }
    }

    /// The lowest three bytes, the highest of them first: neighbours share it, and packing thrives on that.
    pub(crate) fn three_bytes(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes()[1..]);
    }
}

/// A column that is read from its beginning to its end.
pub(crate) struct Cursor<'a> {
    name: &'static str,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(name: &'static str, bytes: &'a [u8]) -> Self {
        Self { name, rest: bytes }
    }

    pub(crate) fn wrong(&self, what: &'static str) -> Error {
        Error::Column { column: self.name, what }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may be left over.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.is_at_end() { Ok(()) } else { Err(self.wrong("it goes on after its last value")) }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.wrong("it ends too early"))?;
        self.rest = rest;
        Ok(*first)
    }

    /// A number of up to 64 bits.
    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.wrong("a number is too large"))
    }

    /// A number of up to 128 bits, for lengths of IPv6 ranges.
    pub(crate) fn wide_number(&mut self) -> Result<u128, Error> {
        if let Some((first, rest)) = self.rest.split_first().filter(|(first, _)| **first < 0x80) {
            self.rest = rest;
            return Ok((*first).into());
        }
        let mut number = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if shift == 126 && bits > 3 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.wrong("a number is too large"))
    }

    /// A number that is an index below `limit`.
    pub(crate) fn index(&mut self, limit: usize) -> Result<u32, Error> {
        let number = self.number()?;
        self.below(number, limit)
    }

    /// The same number, if it is an index below `limit`.
    pub(crate) fn below(&self, number: u64, limit: usize) -> Result<u32, Error> {
        let is_below = number < limit as u64;
        u32::try_from(number).ok().filter(|_| is_below).ok_or_else(|| self.wrong(POINTS_NOWHERE))
    }

    pub(crate) fn text(&mut self) -> Result<Option<&'a str>, Error> {
        let Some(length) = self.number()?.checked_sub(1) else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (text, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| self.wrong("it ends too early"))?;
        self.rest = rest;
        std::str::from_utf8(text).map(Some).map_err(|_| self.wrong("a text is no UTF-8"))
    }

    pub(crate) fn three_bytes(&mut self) -> Result<u32, Error> {
        let (bytes, rest) =
            self.rest.split_first_chunk::<3>().ok_or_else(|| self.wrong("it ends too early"))?;
        self.rest = rest;
        Ok(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
    }
}

/// A column of 32-bit numbers as four planes, one for each byte, the lowest first: bytes that are alike stand together.
pub(crate) fn planes(numbers: &[i32]) -> Vec<u8> {
    (0..4).flat_map(|plane| numbers.iter().map(move |number| number.to_le_bytes()[plane])).collect()
}

/// What `planes` was made of.
pub(crate) fn from_planes(name: &'static str, bytes: &[u8]) -> Result<Vec<i32>, Error> {
    if !bytes.len().is_multiple_of(4) {
        return Err(Error::Column { column: name, what: "its planes have different lengths" });
    }
    let (a, rest) = bytes.split_at(bytes.len() / 4);
    let (b, rest) = rest.split_at(a.len());
    let (c, d) = rest.split_at(a.len());
    Ok(a.iter().zip(b).zip(c).zip(d).map(|(((a, b), c), d)| i32::from_le_bytes([*a, *b, *c, *d])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            narrow in any::<u64>(), wide in any::<u128>(), text in any::<Option<String>>(), small in 0u32..1 << 24,
        ) {
            let mut sink = Sink::default();
            sink.number(narrow.into());
            sink.number(wide);
            sink.text(text.as_deref());
            sink.three_bytes(small);
            let mut cursor = Cursor::new("test", &sink.0);
            prop_assert_eq!(cursor.number().unwrap(), narrow);
            prop_assert_eq!(cursor.wide_number().unwrap(), wide);
            prop_assert_eq!(cursor.text().unwrap(), text.as_deref());
            prop_assert_eq!(cursor.three_bytes().unwrap(), small);
            prop_assert!(cursor.end().is_ok());
        }

        #[test]
        fn planes_come_back(numbers in any::<Vec<i32>>()) {
            prop_assert_eq!(from_planes("test", &planes(&numbers)).unwrap(), numbers);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let mut cursor = Cursor::new("test", &bytes);
            while !cursor.is_at_end() && cursor.wide_number().is_ok() && cursor.text().is_ok() && cursor.number().is_ok() {}
        }
    }
}
