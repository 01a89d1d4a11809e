//! Every letter in words. Plain text, short, and never a link that was not asked for but to our own pages.

use crate::charts::grouped;
use ipse_model::Links;
use ipse_store::{Notice, NoticeKind};

/// A letter to one person.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) body: String,
    /// What logs call it.
    pub(crate) kind: &'static str,
}

impl std::fmt::Debug for Letter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Letter({})", self.kind)
    }
}

impl Letter {
    /// A sign-up that waits for its confirmation.
    pub(crate) fn sign_up(links: &Links, to: &str, token: &str) -> Self {
        let base = &links.base_url;
        write(
            "sign_up",
            to,
            "Confirm your e-mail address".to_owned(),
            &[
                "Welcome to ipse.",
                "Open this link to confirm your address and finish signing up. It works once, for 20 minutes:",
                &format!("{base}/verify/{token}"),
                "If you did not sign up, ignore this letter: nothing happens without the link.",
            ],
            links,
        )
    }

    /// Somebody signed up with an address that has an account.
    pub(crate) fn signed_up_already(links: &Links, to: &str) -> Self {
        let base = &links.base_url;
        write(
            "signed_up_already",
            to,
            "You have an account already".to_owned(),
            &[
                "Somebody, most likely you, tried to sign up with this address. It has an account already, so nothing was \
                 changed.",
                &format!("Sign in: {base}/signin"),
                &format!("Set a new password: {base}/reset"),
            ],
            links,
        )
    }

    /// A forgotten password.
    pub(crate) fn reset(links: &Links, to: &str, token: &str) -> Self {
        let base = &links.base_url;
        write(
            "reset",
            to,
            "Set a new password".to_owned(),
            &[
                "Open this link to set a new password. It works once, for 20 minutes:",
                &format!("{base}/reset/{token}"),
                "If you did not ask for it, ignore this letter: your password stays as it is.",
            ],
            links,
        )
    }

    /// A new address that waits for its confirmation.
    pub(crate) fn confirm_email(links: &Links, to: &str, token: &str) -> Self {
        let base = &links.base_url;
        write(
            "confirm_email",
            to,
            "Confirm your new e-mail address".to_owned(),
            &[
                "Open this link to make this the address of your account. It works once, for 20 minutes:",
                &format!("{base}/account/email/{token}"),
                "You have to be signed in to open it.",
                "If you did not ask for it, ignore this letter: nothing happens without the link.",
            ],
            links,
        )
    }

    /// Something about how the account is opened has changed: its owner should know, wherever it was done.
    pub(crate) fn changed(links: &Links, to: &str, what: &str) -> Self {
        let base = &links.base_url;
        write(
            "changed",
            to,
            "Your account was changed".to_owned(),
            &[
                what,
                &format!("If this was not you, set a new password at once: {base}/reset"),
                &format!("What was done, and when, stands in your account: {base}/account/activity"),
            ],
            links,
        )
    }

    /// The account has another address; this goes to the one before, by which nobody can sign in any more.
    pub(crate) fn email_changed(links: &Links, to: &str) -> Self {
        write(
            "email_changed",
            to,
            "Your account has another e-mail address".to_owned(),
            &[
                "Your account has another e-mail address now: it is opened with that one, and letters go there.",
                "If this was not you, write to whoever runs this server: they can give the account back to you.",
            ],
            links,
        )
    }

    /// A key was paused, or its day is nearly or wholly used up.
    pub(crate) fn notice(links: &Links, notice: &Notice) -> Self {
        let page = format!("{}/dashboard/keys/{}", links.base_url, notice.key.0);
        let name = format!("“{}” (…{})", notice.key_name, notice.last_four);
        let (used, limit) = (grouped(notice.used), grouped(notice.daily_limit));
        let unwanted = format!("You can switch these letters off: {}/account", links.base_url);
        let to = &notice.email;
        match notice.kind {
            NoticeKind::Paused => write(
                "paused",
                to,
                format!("Your key “{}” is paused", notice.key_name),
                &[
                    &format!(
                        "Your key {name} made more than 300 requests within 60 seconds and was paused. Until you resume it, \
                         every request with it is answered 429 and charged nothing."
                    ),
                    "Something may be calling in a loop. Look at the minute that did it, and resume the key with one click:",
                    &page,
                    &unwanted,
                ],
                links,
            ),
            NoticeKind::EightyPercent => write(
                "eighty_percent",
                to,
                format!("Your key “{}” has used 80 % of its day", notice.key_name),
                &[
                    &format!(
                        "Your key {name} has used {used} of its {limit} requests of today. The day ends at midnight UTC."
                    ),
                    &page,
                    &unwanted,
                ],
                links,
            ),
            NoticeKind::UsedUp => write(
                "used_up",
                to,
                format!("Your key “{}” has used up its day", notice.key_name),
                &[
                    &format!(
                        "Your key {name} has used all {limit} requests of today. Until midnight UTC, requests with it are \
                         answered 429."
                    ),
                    &page,
                    &format!("If you need more, this is how: {}", links.enterprise_url),
                    &unwanted,
                ],
                links,
            ),
        }
    }
}

fn write(kind: &'static str, to: &str, subject: String, paragraphs: &[&str], links: &Links) -> Letter {
    let body = format!("{}\n\n-- \nipse, {}\n", paragraphs.join("\n\n"), links.base_url);
    Letter { to: to.to_owned(), subject, body, kind }
}
