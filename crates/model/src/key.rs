//! API keys: their text, the hash by which they are known, and what the hot path must know of one.

use crate::{Scope, hex};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "ipse_";
const RANDOM_CHARACTERS: usize = 32;
const CHECK_CHARACTERS: usize = 6;
const CHECKED_LENGTH: usize = PREFIX.len() + RANDOM_CHARACTERS;
const LENGTH: usize = CHECKED_LENGTH + CHECK_CHARACTERS;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret itself: `ipse_`, 32 random base62 characters, and 6 that check what stands before them. It is shown
/// once and never stored, and its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText([u8; LENGTH]);

impl KeyText {
    /// Makes a key from random bytes. `fill` is called until enough bytes fell below the largest multiple of 62,
    /// so that every character is equally likely.
    pub fn from_random<E>(mut fill: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        const FAIR: u8 = 248;
        let mut text = [0; LENGTH];
        text[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
        let mut filled = PREFIX.len();
        let mut random = [0; 64];
        while filled < CHECKED_LENGTH {
            fill(&mut random)?;
            for byte in random.iter().copied().filter(|byte| *byte < FAIR) {
                if filled == CHECKED_LENGTH {
                    break;
                }
                text[filled] = BASE62[usize::from(byte) % BASE62.len()];
                filled += 1;
            }
        }
        let check = check_characters(&text[..CHECKED_LENGTH]);
        text[CHECKED_LENGTH..].copy_from_slice(&check);
        Ok(Self(text))
    }

    /// The whole secret, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        // Only ASCII gets in, so this never falls back.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The end of the text, by which an owner recognises the key.
    #[must_use]
    pub fn last_four(&self) -> &str {
        &self.reveal()[LENGTH - 4..]
    }

    /// The hash under which the key is stored and found.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(&self.0)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(hidden)")
    }
}

/// A text that cannot be a key: another length, another alphabet, or a wrong check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAKey;

impl FromStr for KeyText {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let bytes: [u8; LENGTH] = text.as_bytes().try_into().map_err(|_| NotAKey)?;
        let (checked, check) = bytes.split_at(CHECKED_LENGTH);
        let well_formed = checked.starts_with(PREFIX.as_bytes())
            && checked[PREFIX.len()..].iter().all(u8::is_ascii_alphanumeric);
        if well_formed && check == check_characters(checked) { Ok(Self(bytes)) } else { Err(NotAKey) }
    }
}

fn check_characters(checked: &[u8]) -> [u8; CHECK_CHARACTERS] {
    let mut rest = crc32fast::hash(checked);
    let mut check = [0; CHECK_CHARACTERS];
    for slot in check.iter_mut().rev() {
        let digit = rest % 62;
        rest /= 62;
        *slot = BASE62[digit as usize];
    }
    check
}

/// SHA-256 of a key's text: all that is ever stored of it, beside its last four characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// The hash of what may be the text of a key: it is as long as one.
    #[must_use]
    pub fn presumed(text: &[u8]) -> Option<Self> {
        (text.len() == LENGTH).then(|| Self::of(text))
    }

    fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Sixty-four hexadecimal digits, as the database holds them.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex::written(&self.0)
    }

    /// Reads what [`KeyHash::to_hex`] wrote.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::read(text).map(Self)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(hidden)")
    }
}

/// The number of a key: what commands, logs and counters call it. It is never given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub i64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for KeyId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Whether a key is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It is served.
    Active,
    /// It went over the burst limit, or was paused by hand, and waits to be resumed.
    Paused,
    /// Its owner or the operator switched it off.
    Inactive,
}

impl KeyState {
    /// The word that commands print.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Inactive => "inactive",
        }
    }
}

/// All that a request needs to know of its key; small, so that a table of a million stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key's number.
    pub id: KeyId,
    /// The widest scope it may ask for.
    pub scope: Scope,
    /// Whether it is served, as far as the records know.
    pub state: KeyState,
    /// Answers per day.
    pub daily_limit: u32,
    /// How often the key was resumed. A higher number than the counters saw means: start a fresh minute.
    pub resumes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `ipse_` and 32 zeros: the check was computed apart, with zlib's crc32 and a base62 by hand.
    const ZEROS: &str = "ipse_00000000000000000000000000000000";

    fn key(seed: u8) -> KeyText {
        let mut byte = seed;
        KeyText::from_random(|bytes| {
            for slot in bytes {
                *slot = byte;
                byte = byte.wrapping_mul(31).wrapping_add(7);
            }
            Ok::<_, NotAKey>(())
        })
        .unwrap()
    }

    #[test]
    fn a_key_has_the_decided_format() {
        let key = key(3);
        let text = key.reveal();
        assert_eq!(text.len(), 43);
        assert!(text.starts_with("ipse_"));
        assert!(text[5..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_eq!(key.last_four(), &text[39..]);
    }

    #[test]
    fn the_check_is_the_crc_of_what_stands_before_it() {
        let zeros = KeyText::from_random(|bytes| {
            bytes.fill(0);
            Ok::<_, NotAKey>(())
        })
        .unwrap();
        assert_eq!(zeros.reveal(), format!("{ZEROS}{ZEROS_CHECK}"));
    }

    const ZEROS_CHECK: &str = "3B5SOj";

    #[test]
    fn biased_bytes_are_left_out() {
        let mut calls = 0;
        let key = KeyText::from_random(|bytes| {
            bytes.fill(if calls == 0 { 255 } else { 61 });
            calls += 1;
            Ok::<_, NotAKey>(())
        })
        .unwrap();
        assert_eq!(calls, 2);
        assert!(key.reveal()[5..37].bytes().all(|byte| byte == b'z'));
    }

    #[test]
    fn a_failing_source_of_randomness_makes_no_key() {
        assert_eq!(KeyText::from_random(|_| Err("empty")), Err("empty"));
    }

    #[test]
    fn no_debug_output_holds_the_secret() {
        assert_eq!(format!("{:?} {:?}", key(1), key(1).hash()), "KeyText(hidden) KeyHash(hidden)");
    }

    #[test]
    fn a_hash_survives_its_hexadecimal_form() {
        let hash = key(9).hash();
        assert_eq!(KeyHash::from_hex(&hash.to_hex()), Some(hash));
        assert_eq!(KeyHash::from_hex("zz"), None);
        assert_eq!(KeyHash::from_hex(&"g".repeat(64)), None);
    }

    proptest! {
        #[test]
        fn any_one_changed_byte_is_noticed(seed: u8, at in 0..LENGTH, with: char) {
            let text = key(seed).reveal().to_owned();
            let changed: String = text.chars().enumerate().map(|(i, c)| if i == at { with } else { c }).collect();
            prop_assume!(changed != text);
            prop_assert_eq!(changed.parse::<KeyText>(), Err(NotAKey));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,64}") {
            let _ = text.parse::<KeyText>();
        }
    }
}
