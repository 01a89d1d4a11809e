//! Spreads what is random already, or was numbered by us, over a table: nobody outside chooses what is in it, so it needs no
//! secret, and takes a few instructions.

use std::hash::{BuildHasher, Hasher};

/// Makes the hashes of keys' texts, and of their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread;

impl BuildHasher for Spread {
    type Hasher = Spreading;

    fn build_hasher(&self) -> Spreading {
        Spreading(0)
    }
}

/// One hash in the making.
#[derive(Debug)]
pub(crate) struct Spreading(u64);

impl Spreading {
    /// The odd number that is nearest to the golden section of all: its multiples lie far apart.
    const FAR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn mix(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(Self::FAR);
    }
}

impl Hasher for Spreading {
    /// Of many bytes the first eight are enough: they come from SHA-256.
    fn write(&mut self, bytes: &[u8]) {
        let mut first = [0; 8];
        first.iter_mut().zip(bytes).for_each(|(first, byte)| *first = *byte);
        self.mix(u64::from_le_bytes(first));
    }

    fn write_i64(&mut self, number: i64) {
        self.mix(number.cast_unsigned());
    }

    fn write_isize(&mut self, number: isize) {
        self.write_i64(number as i64);
    }

    /// The length of what always has the same one.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;
    use ipse_model::{KeyId, KeyText};
    use std::collections::HashSet;

    #[test]
    fn neither_numbers_nor_texts_fall_together() {
        let numbers: HashSet<u64> =
            (1..=100_000).map(|number| Spread.hash_one(Subject::Key(KeyId(number)))).collect();
        assert_eq!(numbers.len(), 100_000);
        // All parts of a hash are used by a table.
        for shift in [0, 28, 57] {
            let places: HashSet<u64> = numbers.iter().map(|hash| (hash >> shift) & 0x7f).collect();
            assert_eq!(places.len(), 128, "{shift}");
        }
        let texts = (0..=255_u8).map(|byte| {
            let text = KeyText::from_random(|bytes| {
                bytes.fill(byte % 248);
                Ok::<_, ()>(())
            });
            Spread.hash_one(text.unwrap().hash())
        });
        assert!(texts.collect::<HashSet<_>>().len() >= 62, "as many as there are different texts");
    }
}
