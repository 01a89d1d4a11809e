//! The SHA-256 that a file must have, and the texts in which vendors publish it.

use super::url::SourceUrl;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, Read};

/// How a downloaded file is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The SHA-256 itself.
    Sha256([u8; 32]),
    /// Where the vendor publishes it: the 64 digits alone, or lines of `digits  name`.
    At(SourceUrl),
}

impl Checksum {
    /// Understands 64 hexadecimal digits.
    #[must_use]
    pub fn parse(digits: &str) -> Option<Self> {
        from_hex(digits.trim()).map(Self::Sha256)
    }
}

/// The checksum in a vendor's text. Where there is more than one, the one of the file called `name`.
pub(super) fn find(text: &str, name: &str) -> Option<[u8; 32]> {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let entry = |line: &str| {
        let (digits, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // The star is how `sha256sum --binary` writes it.
        Some((from_hex(digits)?, rest.trim_start().trim_start_matches('*').to_owned()))
    };
    match &*lines {
        [line] => entry(line).map(|(sum, _)| sum),
        lines => lines.iter().filter_map(|line| entry(line)).find(|(_, of)| of == name).map(|(sum, _)| sum),
    }
}

pub(crate) fn of_bytes(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Reads to the end.
pub(crate) fn of_reader(mut reader: impl Read) -> io::Result<[u8; 32]> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(sum.finalize().into()),
            Ok(length) => sum.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn hex(sum: &[u8; 32]) -> String {
    sum.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn from_hex(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut sum = [0; 32];
    for (index, byte) in sum.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const B: &str = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";

    #[test]
    fn sums_are_the_published_ones() {
        assert_eq!(hex(&of_bytes(b"abc")), A);
        assert_eq!(of_reader(&b"abc"[..]).unwrap(), of_bytes(b"abc"));
        assert_eq!(from_hex(B), Some(of_bytes(b"")));
        assert_eq!(Checksum::parse(&format!(" {A}\n")), Some(Checksum::Sha256(of_bytes(b"abc"))));
        assert_eq!(Checksum::parse("abc"), None);
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(find(text, "city.tar.gz"), expected.and_then(from_hex), "{text}");
    }

    #[test]
    fn a_sum_is_found_in_every_usual_text() {
        check(A, Some(A));
        check(&format!("{B}\n"), Some(B));
        check(&format!("{A}  GeoLite2-City_20260101.tar.gz\r\n"), Some(A));
        check(&format!("{A}  asn.tar.gz\n{B} *city.tar.gz\n"), Some(B));
        check(&format!("{A}  asn.tar.gz\n{B}  cities.tar.gz\n"), None);
        check("", None);
        check("<html>\n<body>no</body>\n</html>", None);
        check(&A[1..], None);
        check(&format!("é{}", &A[2..]), None);
    }
}
