//! Accounts, from the first form to the last: signing up and in, the password, the second factor, and everything that an
//! account's owner may see, take along and delete.

pub(crate) mod activity;
pub(crate) mod email;
pub(crate) mod export;
mod link;
pub(crate) mod reset;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod sign_up;
pub(crate) mod totp;

use crate::guard::throttle::Wait;
use ipse_store::Email;

/// What is said to those who have to wait.
fn patience(wait: Wait) -> String {
    match wait.seconds {
        1 => "Too many tries. Wait a second, then try again.".to_owned(),
        seconds @ ..=90 => format!("Too many tries. Wait {seconds} seconds, then try again."),
        seconds => format!("Too many tries. Wait {} minutes, then try again.", seconds.div_ceil(60)),
    }
}

/// What is said beside a field for an address that is none.
fn judge_email(typed: &str) -> Result<Email, String> {
    if typed.is_empty() {
        return Err("Type your e-mail address.".to_owned());
    }
    // What no mail server would take is no address, even where none is asked.
    let is_plain = typed.chars().all(|character| character.is_ascii_graphic() || character.is_alphanumeric());
    let is_address = is_plain && typed.parse::<lettre::Address>().is_ok();
    let email = typed.parse().ok().filter(|_| is_address);
    email.ok_or_else(|| "This is no e-mail address. It should look like you@example.com.".to_owned())
}
