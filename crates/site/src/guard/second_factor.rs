//! The second factor: codes of an authenticator app (TOTP), and recovery codes for when it is lost.

use fast_qr::qr::QRBuilder;
use ipse_model::{Now, SecretHash};
use std::fmt::Write;
use totp_rs::{Builder, Secret, Totp};

/// Under which name authenticator apps list us.
const ISSUER: &str = "ipse";
const SECRET_BYTES: usize = 20;
/// How many recovery codes an account gets at once.
pub(crate) const RECOVERY_CODES: usize = 10;
/// 80 random bits: nobody finds a code by its hash.
const RECOVERY_BYTES: usize = 10;
/// Digits and letters that are not taken for each other, as Crockford chose them.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A secret that app and server share.
pub(crate) struct Authenticator(Totp);

impl Authenticator {
    /// A new one for the account with this address.
    pub(crate) fn from_random(email: &str) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self::of(Secret::new_stack(bytes), email))
    }

    /// The one whose secret was stored, or came back with a form; `None` if that is none.
    pub(crate) fn stored(secret: &str, email: &str) -> Option<Self> {
        let secret = Secret::try_from_base32(secret).ok()?;
        (secret.as_bytes().len() == SECRET_BYTES).then(|| Self::of(secret, email))
    }

    /// Six digits every thirty seconds, and those before and after are good as well, because clocks differ.
    fn of(secret: Secret, email: &str) -> Self {
        // A colon would end the issuer's name in the address that apps read.
        let account = email.replace(':', "");
        let builder = Builder::new().with_secret(secret).with_account_name(account).with_issuer(Some(ISSUER));
        Self(builder.build_noncompliant())
    }

    /// What is stored, and what people type where they cannot scan.
    pub(crate) fn secret(&self) -> String {
        self.0.secret().to_base32()
    }

    /// The same in groups of four.
    pub(crate) fn secret_in_groups(&self) -> String {
        let secret = self.secret();
        let groups: Vec<&str> = (0..secret.len())
            .step_by(4)
            .filter_map(|at| secret.get(at..(at + 4).min(secret.len())))
            .collect();
        groups.join(" ")
    }

    /// The step of time whose code this is, if it is one. A step is good once: see that it was not used before.
    pub(crate) fn step_of(&self, code: &str, now: Now) -> Option<i64> {
        let digits: String = code.chars().filter(|character| !character.is_whitespace()).collect();
        if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let step = self.0.check(&digits, u64::try_from(now.unix_seconds()).ok()?)?;
        i64::try_from(step).ok()
    }

    /// The picture that apps scan: dark squares as one path, in units of one square, with how wide it is.
    pub(crate) fn picture(&self) -> Option<Picture> {
        const MARGIN: usize = 4;
        let url = self.0.to_url().ok()?;
        let code = QRBuilder::new(url).build().ok()?;
        let mut path = String::new();
        for row in 0..code.size {
            for (column, module) in code[row].iter().enumerate() {
                if module.value() {
                    // Writing to a text never fails.
                    let _ = write!(path, "M{} {}h1v1h-1z", column + MARGIN, row + MARGIN);
                }
            }
        }
        Some(Picture { path, size: code.size + 2 * MARGIN })
    }
}

/// A picture of squares.
pub(crate) struct Picture {
    pub(crate) path: String,
    pub(crate) size: usize,
}

/// A way in without the app, good once: `7k2m-x9p4-0trv-h6cd`.
pub(crate) struct RecoveryCode(String);

impl RecoveryCode {
    /// As many as an account gets.
    pub(crate) fn from_random() -> Result<Vec<Self>, getrandom::Error> {
        (0..RECOVERY_CODES)
            .map(|_| {
                let mut bytes = [0; RECOVERY_BYTES];
                getrandom::fill(&mut bytes)?;
                Ok(Self(letters(bytes)))
            })
            .collect()
    }

    /// What was typed as one; `None` if it cannot be.
    pub(crate) fn typed(text: &str) -> Option<Self> {
        let letters: String = text
            .chars()
            .filter(|character| !character.is_whitespace() && *character != '-')
            .map(|character| match character.to_ascii_lowercase() {
                'o' => '0',
                'i' | 'l' => '1',
                character => character,
            })
            .collect();
        let fits = letters.len() == 16 && letters.bytes().all(|letter| ALPHABET.contains(&letter));
        fits.then_some(Self(letters))
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> String {
        let groups: Vec<&str> = (0..16).step_by(4).filter_map(|at| self.0.get(at..at + 4)).collect();
        groups.join("-")
    }

    /// By what it is known.
    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash::of(self.0.as_bytes())
    }
}

/// Five bits a letter.
fn letters(bytes: [u8; RECOVERY_BYTES]) -> String {
    let bits = bytes.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    (0..16)
        .rev()
        .filter_map(|place| usize::try_from(bits >> (5 * place) & 31).ok())
        .filter_map(|index| ALPHABET.get(index).copied().map(char::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the examples in RFC 6238.
    const SECRET: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

    fn at(seconds: i64) -> Now {
        Now { unix_ms: seconds * 1000, boot_ms: 0 }
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        #[track_caller]
        fn check(code: &str, seconds: i64, expected: Option<i64>) {
            let authenticator = Authenticator::stored(SECRET, "you@example.com").unwrap();
            assert_eq!(authenticator.step_of(code, at(seconds)), expected, "{code} at {seconds}");
        }
        // The last six digits of the eight in RFC 6238, appendix B.
        check("287082", 59, Some(1));
        check("081804", 1_111_111_109, Some(37_037_036));
        check("081 804", 1_111_111_109 + 30, Some(37_037_036));
        check("081804", 1_111_111_109 - 30, Some(37_037_036));
        check("081804", 1_111_111_109 + 90, None);
        check("279037", 2_000_000_000, Some(66_666_666));
        for wrong in ["", "279038", "27903", "2790371", "27903a", "-27903"] {
            check(wrong, 2_000_000_000, None);
        }
    }

    #[test]
    fn what_is_no_secret_is_none() {
        for wrong in ["", "GEZDGNBV", "gezd!", &SECRET[1..], &format!("{SECRET}GEZDGNBV")] {
            assert!(Authenticator::stored(wrong, "you@example.com").is_none(), "{wrong}");
        }
        let made = Authenticator::from_random("a:b@example.com").unwrap();
        assert_eq!(Authenticator::stored(&made.secret(), "x").unwrap().secret(), made.secret());
        assert_eq!(made.secret_in_groups().replace(' ', ""), made.secret());
    }

    #[test]
    fn the_picture_is_a_square_of_squares() {
        let picture = Authenticator::stored(SECRET, "you@example.com").unwrap().picture().unwrap();
        assert!(picture.size > 29 && (picture.size - 8 - 17).is_multiple_of(4), "{}", picture.size);
        assert!(picture.path.starts_with("M4 4h1v1h-1z"), "the corner begins with a dark square");
    }

    #[test]
    fn a_recovery_code_is_known_however_it_is_typed() {
        let codes = RecoveryCode::from_random().unwrap();
        assert_eq!(codes.len(), RECOVERY_CODES);
        let shown = codes[0].shown();
        assert_eq!(shown.len(), 19);
        let typed = RecoveryCode::typed(&format!(" {} ", shown.to_uppercase().replace('-', " "))).unwrap();
        assert_eq!(typed.hash(), codes[0].hash());
        assert_ne!(codes[1].hash(), codes[0].hash());
        for wrong in ["", "abcd", "abcd-efgh-jkmn-pqru", "abcd-efgh-jkmn-pqrs-t"] {
            assert!(RecoveryCode::typed(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn letters_spell_every_bit() {
        assert_eq!(letters([0; 10]), "0".repeat(16));
        assert_eq!(letters([0xff; 10]), "z".repeat(16));
        let mixed = RecoveryCode::typed("OiLa-0110-0000-0000").unwrap();
        assert_eq!(mixed.shown(), "011a-0110-0000-0000", "what looks alike is the same");
    }
}
