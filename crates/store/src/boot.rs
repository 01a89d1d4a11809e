//! Which start of the machine this is: what the page cache held is there only within one.

use std::fmt;

/// The kernel's name for one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId([u8; 16]);

impl BootId {
    /// The present boot. `None` where the system does not say: then every start counts as a new boot, which
    /// withholds a few requests after a crash and never serves too many.
    #[must_use]
    pub fn current() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Self::parse(text.trim())
    }

    /// Reads a UUID.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.replace('-', "");
        (digits.len() == 32).then_some(())?;
        u128::from_str_radix(&digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_named_by_a_uuid() {
        let id = BootId::parse("b3e9cacd-dfee-4c38-87d4-6ae39cc71c32").unwrap();
        assert_eq!(id.to_string(), "b3e9cacddfee4c3887d46ae39cc71c32");
        assert!(BootId::parse(&id.to_string()).is_some_and(|again| again == id));
        assert!(BootId::parse("").is_none() && BootId::parse("zz").is_none());
    }
}
