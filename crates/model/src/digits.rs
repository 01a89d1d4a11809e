//! Decimal digits into bytes, for the hot path.

/// Appends a number in decimal.
pub(crate) fn write(json: &mut Vec<u8>, mut number: u32) {
    if number < 10 {
        json.push(digit(number));
        return;
    }
    let mut digits = [0; 10];
    let mut begin = digits.len();
    while number > 0 {
        begin -= 1;
        digits[begin] = digit(number % 10);
        number /= 10;
    }
    json.extend_from_slice(&digits[begin..]);
}

/// The character of a digit below ten.
#[expect(clippy::cast_possible_truncation, reason = "a digit is below ten")]
pub(crate) fn digit(number: u32) -> u8 {
    b'0' + number as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        #[track_caller]
        fn check(number: u32) {
            let mut json = Vec::new();
            write(&mut json, number);
            assert_eq!(String::from_utf8(json).unwrap(), number.to_string());
        }
        [0, 9, 10, 255, 1_000, 86_400, u32::MAX].into_iter().for_each(check);
    }
}
