//! The fields of a request's head, whoever read it.

use http::{HeaderMap, HeaderName, HeaderValue};

/// What can be asked of a head: that of the library, or one that was read in passing.
pub(crate) trait Fields {
    /// The values of all lines with this name, in their order.
    fn lines<'a>(&'a self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a [u8]>;

    /// The value of the line with this name, if there is exactly one.
    fn only_line(&self, name: &HeaderName) -> Option<&[u8]> {
        let mut lines = self.lines(name);
        lines.next().filter(|_| lines.next().is_none())
    }
}

impl Fields for HeaderMap {
    fn lines<'a>(&'a self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// A value as text, if it is printable ASCII.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    let is_printable = value.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte == b'\t');
    if is_printable { std::str::from_utf8(value).ok() } else { None }
}
