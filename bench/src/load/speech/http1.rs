//! HTTP/1.1: a request as curl writes it, with the line that a proxy adds, and the end of an answer.

use crate::load::requests::Request;
use anyhow::{Context, Result, ensure};
use memchr::memmem;

const HEAD: &[u8] = b"GET /api/v1/ip HTTP/1.1\r\nhost: localhost\r\nuser-agent: ipse-bench\r\naccept: */*\r\nauthorization: Bearer ";
const BEFORE_ADDRESS: &[u8] = b"\r\nx-forwarded-for: ";
const END: &[u8] = b"\r\n\r\n";
const LENGTH: &[u8] = b"ontent-length: ";
const LENGTH_WRITTEN_LARGE: &[u8] = b"ontent-Length: ";

/// A request.
pub(super) fn write(request: Request<'_>, bytes: &mut Vec<u8>) {
    for part in [HEAD, request.key.as_bytes(), BEFORE_ADDRESS, request.address.as_bytes(), END] {
        bytes.extend_from_slice(part);
    }
}

/// Where the body begins, if all of it is there.
pub(super) fn whole(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = memmem::find(bytes, END) else { return Ok(None) };
    let head = &bytes[..end];
    let told = || String::from_utf8_lossy(bytes).into_owned();
    ensure!(head.starts_with(b"HTTP/1.1 200 "), "not answered with 200: {}", told());
    let length = memmem::find(head, LENGTH).or_else(|| memmem::find(head, LENGTH_WRITTEN_LARGE));
    let digits = head.get(length.with_context(told)? + LENGTH.len()..).unwrap_or_default();
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    let whole = end + END.len() + length;
    ensure!(bytes.len() <= whole, "more came than was asked for: {}", told());
    Ok((bytes.len() == whole).then_some(end + END.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_length_is_there() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        for length in 0..answer.len() {
            assert_eq!(whole(&answer[..length]).expect("so far all is well"), None, "{length}");
        }
        assert_eq!(whole(answer).expect("all is well"), Some(answer.len() - 2));
        assert!(whole(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(whole(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nx").is_err());
    }
}
