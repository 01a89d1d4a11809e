//! One record of an MMDB, whatever its shape, gathered without building it.
//!
//! Every value is visited and counted, also those nobody asked for, so that the caller can bound the work of a whole
//! file: the decoder bounds that of one record only, and a hostile file has millions of them.

use super::field::{self, Gather, Scalar};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// No vendor nests deeper than four.
const MAXIMUM_DEPTH: usize = 16;

/// No name that we know is longer.
const MAXIMUM_NAME: usize = 48;

#[derive(Debug, Default)]
pub(super) struct Record<'de> {
    pub(super) gather: Gather<'de>,
    /// How much work it was: one for each value and for every 16 bytes of text.
    pub(super) cost: u64,
}

impl<'de> Deserialize<'de> for Record<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut record = Self::default();
        let mut path = String::new();
        Walk { record: &mut record, path: &mut path, depth: 0, unread: false }.deserialize(deserializer)?;
        Ok(record)
    }
}

struct Walk<'a, 'de> {
    record: &'a mut Record<'de>,
    path: &'a mut String,
    depth: usize,
    /// Whether the value is counted but not looked at: a name in another language, a second subdivision.
    unread: bool,
}

impl<'de> Walk<'_, 'de> {
    fn take<E>(self, value: Scalar<'de>) -> Result<(), E> {
        self.record.cost += 1;
        if let Scalar::Text(text) = value {
            self.record.cost += text.len() as u64 / 16;
        }
        if !self.unread
            && let Some((field, rank)) = field::named(self.path)
        {
            self.record.gather.take(field, rank, value);
        }
        Ok(())
    }

    fn enter<E: Error>(&mut self) -> Result<(), E> {
        self.record.cost += 1;
        if self.depth >= MAXIMUM_DEPTH {
            return Err(E::custom(format_args!("a record is nested deeper than {MAXIMUM_DEPTH} levels")));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a record")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.take(Scalar::Flag(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "the format has 32 bits for it")]
        self.take(Scalar::Number(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.take(Scalar::Integer(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<(), E> {
        self.take(Scalar::Integer(u64::try_from(value).unwrap_or(u64::MAX)))
    }

    fn visit_f32<E: Error>(self, value: f32) -> Result<(), E> {
        self.take(Scalar::Number(f64::from(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.take(Scalar::Number(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<(), E> {
        self.take(Scalar::Text(value))
    }

    fn visit_borrowed_bytes<E: Error>(self, value: &'de [u8]) -> Result<(), E> {
        self.record.cost += 1 + value.len() as u64 / 16;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.enter()?;
        let length = self.path.len();
        // Of the many languages English is read.
        let names = self.path == "names" || self.path.ends_with(".names");
        while let Some(key) = map.next_key::<&'de str>()? {
            self.record.cost += 1 + key.len() as u64 / 16;
            let unread = self.unread || key.len() > MAXIMUM_NAME || (names && key != "en");
            if !unread {
                if length > 0 {
                    self.path.push('.');
                }
                self.path.push_str(key);
            }
            let walk = Walk { record: self.record, path: self.path, depth: self.depth + 1, unread };
            map.next_value_seed(walk)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        self.enter()?;
        let length = self.path.len();
        let mut unread = self.unread;
        self.path.push_str(".0");
        loop {
            let walk = Walk { record: self.record, path: self.path, depth: self.depth + 1, unread };
            if sequence.next_element_seed(walk)?.is_none() {
                break;
            }
            // The first level of subdivision stands first; nothing else is asked of lists.
            unread = true;
        }
        self.path.truncate(length);
        Ok(())
    }
}
