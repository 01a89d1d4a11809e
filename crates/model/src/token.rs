//! The secret of a link to the doctor: it is shown once, and known by its hash.

use crate::hex;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// How many random bytes there are.
const BYTES: usize = 16;

/// The secret itself: 128 random bits, written as 32 hexadecimal digits. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct DoctorToken([u8; BYTES]);

impl DoctorToken {
    /// Makes a token from random bytes.
    pub fn from_random<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut bytes = [0; BYTES];
        fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The digits, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex::written(&self.0)
    }

    /// The digits of the hash by which the token is known.
    #[must_use]
    pub fn hash(&self) -> String {
        hex::written(&Sha256::digest(self.0))
    }
}

impl fmt::Debug for DoctorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DoctorToken(hidden)")
    }
}

/// A text that cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADoctorToken;

impl FromStr for DoctorToken {
    type Err = NotADoctorToken;

    fn from_str(text: &str) -> Result<Self, NotADoctorToken> {
        hex::read(text).map(Self).ok_or(NotADoctorToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> DoctorToken {
        DoctorToken::from_random(|bytes| {
            bytes.copy_from_slice(b"0123456789abcdef");
            Ok::<(), ()>(())
        })
        .unwrap()
    }

    #[test]
    fn a_token_is_read_as_it_was_shown() {
        let text = token().reveal();
        assert_eq!(text, "30313233343536373839616263646566");
        assert_eq!(text.parse(), Ok(token()));
        // SHA-256 of the bytes, by another program.
        assert_eq!(token().hash(), "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f");
    }

    #[test]
    fn what_is_no_token_is_none() {
        let text = token().reveal();
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replace('3', "g"), &text.replace('6', "A")] {
            assert_eq!(wrong.parse::<DoctorToken>(), Err(NotADoctorToken), "{wrong:?}");
        }
    }

    #[test]
    fn no_debug_output_holds_the_token() {
        assert_eq!(format!("{:?}", token()), "DoctorToken(hidden)");
    }
}
