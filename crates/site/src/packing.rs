//! Bodies in fewer bytes, for those who can unpack them.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, header};
use std::io::Write;

/// What is smaller than this fits into one packet anyway.
const LEAST_BYTES: usize = 1024;

/// How much work a body is worth.
#[derive(Clone, Copy)]
pub(crate) enum Effort {
    /// It is made for one request.
    Quick,
    /// It is made once.
    Thorough,
}

/// The same as gzip, if that is smaller.
pub(crate) fn gzip(bytes: &[u8], effort: Effort) -> Option<Bytes> {
    if bytes.len() < LEAST_BYTES {
        return None;
    }
    let level = match effort {
        Effort::Quick => Compression::new(4),
        Effort::Thorough => Compression::best(),
    };
    let mut encoder = GzEncoder::new(Vec::new(), level);
    // Writing to memory does not fail.
    encoder.write_all(bytes).ok()?;
    let packed = encoder.finish().ok()?;
    (packed.len() < bytes.len()).then(|| packed.into())
}

/// Whether whoever asks can unpack gzip, and wants to.
pub(crate) fn takes_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut by_wildcard = false;
    for coding in values.flat_map(|value| value.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
        let is_wanted =
            quality.is_none_or(|quality| quality.trim().parse().is_ok_and(|quality: f32| quality > 0.0));
        match name.trim() {
            // Its own name counts for more than what stands for all others.
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                return is_wanted;
            }
            "*" => by_wildcard = is_wanted,
            _ => {}
        }
    }
    by_wildcard
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use http::HeaderValue;
    use sha2::{Digest, Sha256};
    use std::io::Read;

    /// What a browser makes of it.
    pub(crate) fn unpacked(bytes: &[u8]) -> String {
        let mut text = String::new();
        GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
        text
    }

    #[track_caller]
    fn check(accept_encoding: &[&str], expected: bool) {
        let mut asked = HeaderMap::new();
        for value in accept_encoding {
            asked.append(header::ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(takes_gzip(&asked), expected, "{accept_encoding:?}");
    }

    #[test]
    fn only_who_can_unpack_gets_it_packed() {
        check(&[], false);
        check(&[""], false);
        check(&["identity"], false);
        check(&["br, zstd"], false);
        check(&["gzip"], true);
        check(&["deflate, GZIP;q=0.5"], true);
        check(&["br", "gzip, zstd"], true);
        check(&["gzip;q=0"], false);
        check(&["gzip; q=0.000"], false);
        check(&["gzip;q=nonsense"], false);
        check(&["gzip;level=1;q=1"], true);
        check(&["*"], true);
        check(&["*;q=0"], false);
        check(&["*;q=0, gzip"], true);
        check(&["gzip;q=0, *"], false);
        check(&["gzipped"], false);
    }

    #[test]
    fn what_does_not_become_smaller_stays_as_it_is() {
        let text = "ipse ".repeat(1000);
        for effort in [Effort::Quick, Effort::Thorough] {
            let packed = gzip(text.as_bytes(), effort).unwrap();
            assert!(packed.len() < 100);
            assert_eq!(unpacked(&packed), text);
            assert_eq!(gzip(b"short", effort), None);
            let noise: Vec<u8> = (0..128u8).flat_map(|seed| Sha256::digest([seed])).collect();
            assert_eq!(gzip(&noise, effort), None);
        }
    }
}
