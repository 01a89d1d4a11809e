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
    #[error(
        "This password is made of your e-mail address or of our name. Choose one that nobody would think of here."
    )]
    Near,
}

/// Says what is wrong with a new password of the account with this address.
pub(crate) fn judge(password: &str, email: &str) -> Result<(), Unfit> {
    let length = password.chars().count();
    let lower = password.to_lowercase();
    let email = email.trim().to_lowercase();
    let (local, domain) = email.split_once('@').unwrap_or((&email, ""));
    let near: [&str; 5] = [&email, local, domain, domain.split('.').next().unwrap_or_default(), "ipse"];
    let is_common =
        has_few_characters(password) || disguises(&lower).iter().any(|form| COMMON.contains(form.as_str()));
    let is_near = disguises(&lower).iter().any(|form| near.iter().any(|word| is_only(form, word)));
    match length {
        0 => Err(Unfit::Empty),
        1..SHORTEST => Err(Unfit::TooShort),
        _ if length > LONGEST => Err(Unfit::TooLong),
        _ if is_common => Err(Unfit::Common),
        _ if is_near => Err(Unfit::Near),
        _ => Ok(()),
    }
}

/// Two characters in any order are as good as guessed.
fn has_few_characters(password: &str) -> bool {
    password.chars().collect::<HashSet<char>>().len() <= 2
}

/// What a password is without what people add to a word that was refused: digits and signs around it, and digits that look
/// like letters.
fn disguises(lower: &str) -> [String; 4] {
    let letters: String = lower
        .chars()
        .map(|character| match character {
            '0' => 'o',
            '1' | '!' => 'i',
            '3' => 'e',
            '4' | '@' => 'a',
            '5' | '$' => 's',
            '7' => 't',
            character => character,
        })
        .collect();
    let bare = |text: &str| text.trim_matches(|character: char| !character.is_alphabetic()).to_owned();
    let plain = bare(lower);
    // Only what is left of a word may be read as letters, or the digits behind it become a part of it.
    let core =
        bare(letters.get(..lower.trim_end_matches(|c: char| !c.is_alphabetic()).len()).unwrap_or_default());
    [lower.to_owned(), letters, plain, core]
}

/// Whether a text is a word, or the word again and again.
fn is_only(text: &str, word: &str) -> bool {
    word.len() >= 3 && !text.is_empty() && text.replace(word, "").is_empty()
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
        for disguised in ["Passw0rd!", "password1!", "letmein123", "P@ssw0rd", "!!qwertyuiop99", "12121212"] {
            check(disguised, Err(Unfit::Common));
        }
        for near in ["jane.doe@example.com", "JANE.DOE", "jane.doe99", "example.com", "ipseipse", "ipse1234"]
        {
            check(near, Err(Unfit::Near));
        }
        check("password is not secret", Ok(()));
        check(&"long ".repeat(51), Ok(()));
        check(&"long ".repeat(52), Err(Unfit::TooLong));
    }

    #[test]
    fn the_list_is_one_of_passwords_that_could_be_chosen() {
        assert!(COMMON.len() > 10_000);
        assert!(
            COMMON
                .iter()
                .all(|password| **password == password.to_lowercase() && password.trim() == *password)
        );
    }
}
