//! Which passwords are taken.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The shortest password that is taken.
pub(crate) const SHORTEST: usize = 8;
/// The longest. Hashing takes as long for every length, but what is typed has to be kept until it is its turn.
pub(crate) const LONGEST: usize = 256;

/// The passwords that guessers try first, in lower case.
static COMMON: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("../../../../data/passwords/common.txt").lines().collect());

/// Why a password is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("Choose a password.")]
    Empty,
    #[error("Use at least 8 characters: a few words in a row are easy to remember.")]
    TooShort,
    #[error("Use at most 256 characters.")]
    TooLong,
    #[error("This password is among those that guessers try first. Choose another.")]
    Common,
    #[error("Your password should not be your own e-mail address.")]
    Address,
}

/// Says what is wrong with a new password of the account with this address.
pub(crate) fn judge(password: &str, email: &str) -> Result<(), Unfit> {
    let length = password.chars().count();
    let lower = password.to_lowercase();
    let is_common = COMMON.contains(lower.as_str()) || is_one_character(password);
    let email = email.trim().to_lowercase();
    let local = email.split('@').next().unwrap_or_default();
    match length {
        0 => Err(Unfit::Empty),
        1..SHORTEST => Err(Unfit::TooShort),
        _ if length > LONGEST => Err(Unfit::TooLong),
        _ if is_common => Err(Unfit::Common),
        _ if lower == email || lower == local => Err(Unfit::Address),
        _ => Ok(()),
    }
}

fn is_one_character(password: &str) -> bool {
    let mut characters = password.chars();
    characters.next().is_some_and(|first| characters.all(|other| other == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_guessers_try_first_is_not_taken() {
        #[track_caller]
        fn check(password: &str, expected: Result<(), Unfit>) {
            assert_eq!(judge(password, "Jane.Doe@example.com "), expected, "{password}");
        }
        check("", Err(Unfit::Empty));
        check("7 chars", Err(Unfit::TooShort));
        check("8 chars!", Ok(()));
        check("пароль77", Ok(()));
        check("        ", Err(Unfit::Common));
        check("zzzzzzzzzzzz", Err(Unfit::Common));
        check("Password", Err(Unfit::Common));
        check("12345678", Err(Unfit::Common));
        check("qwertyuiop", Err(Unfit::Common));
        check("jane.doe@example.com", Err(Unfit::Address));
        check("JANE.DOE", Err(Unfit::Address));
        check(&"long ".repeat(51), Ok(()));
        check(&"long ".repeat(52), Err(Unfit::TooLong));
    }

    #[test]
    fn the_list_is_one_of_passwords_that_could_be_chosen() {
        assert!(COMMON.len() > 10_000);
        assert!(COMMON.iter().all(|password| password.chars().count() >= SHORTEST
            && **password == password.to_lowercase()
            && password.trim() == *password));
    }
}
