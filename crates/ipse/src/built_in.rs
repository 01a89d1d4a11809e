//! The snapshot that is built into the program, so that it knows places without any file.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where it is mapped. What is looked at here stays in memory for as long as the program runs.
pub(crate) static MAPPED: &[u8] = include_bytes!("../../../data/default.ipse");

/// The whole of it, from the program's file where that can be read: it is needed once, and then its memory is free again.
pub(crate) fn read() -> Cow<'static, [u8]> {
    from_own_file(MAPPED).map_or(Cow::Borrowed(MAPPED), Cow::Owned)
}

/// What is mapped there, read from the file that this process runs.
fn from_own_file(mapped: &'static [u8]) -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let address = u64::try_from(mapped.as_ptr().addr()).ok()?;
    let offset = maps.lines().find_map(|line| offset_in_file(line, address))?;
    let mut bytes = vec![0; mapped.len()];
    // It is the same file even if another one has taken its place since.
    File::open("/proc/self/exe").ok()?.read_exact_at(&mut bytes, offset).ok()?;
    let few = mapped.len().min(64);
    (bytes[..few] == mapped[..few]).then_some(bytes)
}

/// Where in its file an address is, if this line of the kernel's list tells of it: `first-last rights offset device inode path`.
fn offset_in_file(line: &str, address: u64) -> Option<u64> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut words = line.split_whitespace();
    let (first, last) = words.next()?.split_once('-')?;
    let (first, last, offset) = (number(first)?, number(last)?, number(words.nth(1)?)?);
    (first..last).contains(&address).then(|| offset + (address - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_what_is_in_the_file() {
        assert!(from_own_file(MAPPED).is_some_and(|bytes| bytes == MAPPED), "Linux tells where it is");
    }

    #[test]
    fn an_address_is_looked_for_in_every_mapping() {
        let line = "55a53ca99000-55a53e744000 r--p 00001000 fe:00 1234                       /usr/bin/ipse";
        assert_eq!(offset_in_file(line, 0x55a5_3ca9_9000), Some(0x1000));
        assert_eq!(offset_in_file(line, 0x55a5_3ca9_9010), Some(0x1010));
        assert_eq!(offset_in_file(line, 0x55a5_3e74_4000), None);
        assert_eq!(offset_in_file("", 1), None);
    }
}
