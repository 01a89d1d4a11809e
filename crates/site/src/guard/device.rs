//! What a browser calls itself, in words its owner recognises in a list of sessions; and the proof that an owner has
//! signed in from a device before, which guessers of passwords do not have.

use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Browsers by what stands in `User-Agent`. Most pretend to be others, so the particular come first.
const BROWSERS: &[(&str, &str)] = &[
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
];
const SYSTEMS: &[(&str, &str)] = &[
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];

/// "Firefox on Linux", or less where less is known. No version: it would tell one visitor from another.
pub(crate) fn name(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let find = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| agent.contains(part)).map(|(_, name)| *name)
    };
    match (find(BROWSERS), find(SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => "Unknown browser".to_owned(),
    }
}

/// How much of a device's mark is random.
const NONCE_DIGITS: usize = 32;

/// The mark of a device from which an account was signed in to. It is made of what only the server knows of the account,
/// the hash of its password, so that nothing has to be kept, and a new password makes all of them worthless.
pub(crate) fn mark(password_hash: &str, nonce: [u8; NONCE_DIGITS / 2]) -> String {
    let nonce = hex(&nonce);
    let tag = tag(password_hash, &nonce);
    format!("{nonce}{tag}")
}

/// Whether a mark was made for this account.
pub(crate) fn is_known(mark: &str, password_hash: &str) -> bool {
    let Some((nonce, given)) = mark.split_at_checked(NONCE_DIGITS) else { return false };
    // What is compared are hashes of hashes, so how long it takes tells nothing.
    Sha256::digest(given) == Sha256::digest(tag(password_hash, nonce))
}

fn tag(password_hash: &str, nonce: &str) -> String {
    let account = Sha256::digest(password_hash);
    let mut hash = Sha256::new();
    hash.update(b"ipse device");
    hash.update(account);
    hash.update(nonce);
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn browsers_are_named_as_people_name_them() {
        #[track_caller]
        fn check(agent: &str, expected: &str) {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, HeaderValue::from_str(agent).unwrap());
            assert_eq!(name(&headers), expected);
        }
        check("Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox on Linux");
        check(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 \
             Safari/537.36 Edg/140.0.0.0",
            "Edge on Windows",
        );
        check(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
             Version/18.5 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        );
        check("curl/8.5.0", "curl");
        check("<script>", "Unknown browser");
    }

    #[test]
    fn a_mark_is_good_for_its_account_and_password_alone() {
        let mark = mark("$argon2id$one", [7; 16]);
        assert!(is_known(&mark, "$argon2id$one"));
        assert!(!is_known(&mark, "$argon2id$two"));
        for wrong in ["", "0", &mark[1..], &mark.replace('0', "1"), &format!("{mark}0")] {
            assert!(!is_known(wrong, "$argon2id$one"), "{wrong}");
        }
    }
}
