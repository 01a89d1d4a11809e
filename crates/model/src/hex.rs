//! Hexadecimal digits, as secrets and hashes are written: two of them a byte, in lower case, and in no other way.

/// The digits of some bytes.
pub(crate) fn written(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
        }
    }
    text
}

/// The bytes of a text that [`written`] may have made; `None` of any other.
pub(crate) fn read<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        assert_eq!(written(&[0x00, 0x9f, 0xa0]), "009fa0");
        assert_eq!(read("009fa0"), Some([0x00, 0x9f, 0xa0]));
        for wrong in ["", "009fa", "009fa00", "009FA0", "009fg0", "00 fa0", "+09fa0", "00é0a"] {
            assert_eq!(read::<3>(wrong), None, "{wrong:?}");
        }
    }
}
