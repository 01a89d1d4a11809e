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

/// Where something stands in a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    from: u16,
    to: u16,
}

/// Where a field stands in its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: Part,
    pub(crate) value: Part,
}

impl Part {
    /// These bytes, which begin there.
    pub(crate) fn new(bytes: &[u8], from: usize) -> Option<Self> {
        Some(Self { from: u16::try_from(from).ok()?, to: u16::try_from(from + bytes.len()).ok()? })
    }

    /// How many bytes stand there.
    pub(crate) fn len(self) -> usize {
        usize::from(self.to - self.from)
    }

    /// What stands there.
    #[inline]
    pub(crate) fn of(self, head: &[u8]) -> &[u8] {
        head.get(usize::from(self.from)..usize::from(self.to)).unwrap_or_default()
    }
}

/// A value as text, if it is printable ASCII.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    let is_printable = value.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte == b'\t');
    if is_printable { std::str::from_utf8(value).ok() } else { None }
}
