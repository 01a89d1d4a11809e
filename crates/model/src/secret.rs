//! Secrets that a person or a browser carries for a while: sessions, links by mail. They are known by their hash.

use crate::hex;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const BYTES: usize = 32;

/// The secret itself: 256 random bits, written as 64 hexadecimal digits. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl Secret {
    /// Makes a secret from random bytes.
    pub fn from_random<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut bytes = [0; BYTES];
        fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The digits, for the one who is to carry them.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex::written(&self.0)
    }

    /// The hash under which the secret is stored and found.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// A text that cannot be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASecret;

impl FromStr for Secret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        hex::read(text).map(Self).ok_or(NotASecret)
    }
}

/// SHA-256 of a secret: all that is ever stored of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    /// The hash of a secret of any form. It must be too random to be guessed: passwords are none.
    #[must_use]
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Sixty-four hexadecimal digits, as the database holds them.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex::written(&self.0)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::from_random(|bytes| {
            bytes.copy_from_slice(b"0123456789abcdef0123456789abcdef");
            Ok::<(), ()>(())
        })
        .unwrap()
    }

    #[test]
    fn a_secret_is_read_as_it_was_shown() {
        let text = secret().reveal();
        assert_eq!(text, "30313233343536373839616263646566".repeat(2));
        assert_eq!(text.parse(), Ok(secret()));
        // SHA-256 of the bytes, by another program.
        let hash = "3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9";
        assert_eq!(secret().hash().to_hex(), hash);
        assert_eq!(secret().hash(), SecretHash::of(b"0123456789abcdef0123456789abcdef"));
    }

    #[test]
    fn what_is_no_secret_is_none() {
        let text = secret().reveal();
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replace('6', "A")] {
            assert_eq!(wrong.parse::<Secret>(), Err(NotASecret), "{wrong:?}");
        }
    }

    #[test]
    fn a_source_without_randomness_makes_no_secret() {
        assert_eq!(Secret::from_random(|_| Err("empty")), Err("empty"));
    }

    #[test]
    fn no_debug_output_holds_the_secret() {
        assert_eq!(format!("{:?} {:?}", secret(), secret().hash()), "Secret(hidden) SecretHash(hidden)");
    }
}
