//! From a path to the page behind it, and what may be done there.

use http::Method;
use ipse_model::KeyId;

/// Everything that the site serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// The same for everybody, or made of nothing but the visitor's own connection.
    Public(Public),
    SignUp,
    SignIn,
    Code,
    SignOut,
    Reset,
    /// The secret of a link for a new password.
    ResetLink(&'a str),
    /// The secret of a link that finishes a sign-up.
    SignUpLink(&'a str),
    /// The secret of a link that confirms an address.
    EmailLink(&'a str),
    Keys,
    CreateKey,
    Key(KeyId),
    KeyCsv(KeyId),
    Rename(KeyId),
    SetScope(KeyId),
    Deactivate(KeyId),
    Reactivate(KeyId),
    Resume(KeyId),
    Roll(KeyId),
    DeleteKey(KeyId),
    Account,
    Activity,
    Export,
    SetPassword,
    SetEmail,
    SetNotices,
    EndSession(i64),
    EndSessions,
    Totp,
    TotpOff,
    NewCodes,
    DeleteAccount,
}

/// Pages and files that anybody may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Public {
    Home,
    /// The visitor's address and nothing else.
    OwnAddress,
    Docs,
    Enterprise,
    Privacy,
    Terms,
    /// A file that is part of the program, or a path where one might be.
    File,
}

/// What may be done at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Read,
    /// A form is shown and sent at the same path.
    Both,
    /// A form is sent. Who only looks is shown the page that has it.
    Write,
}

/// The page that a path leads to.
pub(crate) fn find(path: &str) -> Option<Route<'_>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    Some(match parts.as_slice() {
        [""] => Route::Public(Public::Home),
        ["own-address"] => Route::Public(Public::OwnAddress),
        ["docs"] => Route::Public(Public::Docs),
        ["enterprise"] => Route::Public(Public::Enterprise),
        ["privacy"] => Route::Public(Public::Privacy),
        ["terms"] => Route::Public(Public::Terms),
        ["favicon.svg" | "robots.txt"] | ["assets", _] => Route::Public(Public::File),
        ["signup"] => Route::SignUp,
        ["signin"] => Route::SignIn,
        ["signin", "code"] => Route::Code,
        ["signout"] => Route::SignOut,
        ["reset"] => Route::Reset,
        ["reset", token] => Route::ResetLink(token),
        ["verify", token] => Route::SignUpLink(token),
        ["dashboard"] => Route::Keys,
        ["dashboard", "keys"] => Route::CreateKey,
        ["dashboard", "keys", id] => Route::Key(key_id(id)?),
        ["dashboard", "keys", id, "usage.csv"] => Route::KeyCsv(key_id(id)?),
        ["dashboard", "keys", id, "rename"] => Route::Rename(key_id(id)?),
        ["dashboard", "keys", id, "scope"] => Route::SetScope(key_id(id)?),
        ["dashboard", "keys", id, "deactivate"] => Route::Deactivate(key_id(id)?),
        ["dashboard", "keys", id, "reactivate"] => Route::Reactivate(key_id(id)?),
        ["dashboard", "keys", id, "resume"] => Route::Resume(key_id(id)?),
        ["dashboard", "keys", id, "roll"] => Route::Roll(key_id(id)?),
        ["dashboard", "keys", id, "delete"] => Route::DeleteKey(key_id(id)?),
        ["account"] => Route::Account,
        ["account", "activity"] => Route::Activity,
        ["account", "export.json"] => Route::Export,
        ["account", "password"] => Route::SetPassword,
        ["account", "email"] => Route::SetEmail,
        ["account", "email", token] => Route::EmailLink(token),
        ["account", "notices"] => Route::SetNotices,
        ["account", "sessions", "end"] => Route::EndSessions,
        ["account", "sessions", id, "end"] => Route::EndSession(number(id)?),
        ["account", "totp"] => Route::Totp,
        ["account", "totp", "off"] => Route::TotpOff,
        ["account", "totp", "codes"] => Route::NewCodes,
        ["account", "delete"] => Route::DeleteAccount,
        _ => return None,
    })
}

/// Whether a path is of those where only somebody who is signed in has anything to do.
pub(crate) fn is_for_members(path: &str) -> bool {
    let area = path.strip_prefix('/').and_then(|path| path.split('/').next());
    matches!(area, Some("dashboard" | "account" | "signout"))
}

impl Route<'_> {
    /// What may be done there.
    pub(crate) fn manner(self) -> Manner {
        match self {
            Self::Public(_)
            | Self::Keys
            | Self::Key(_)
            | Self::KeyCsv(_)
            | Self::Account
            | Self::Activity
            | Self::Export => Manner::Read,
            Self::SignUp
            | Self::SignIn
            | Self::Code
            | Self::Reset
            | Self::ResetLink(_)
            | Self::SignUpLink(_)
            | Self::EmailLink(_)
            | Self::Totp => Manner::Both,
            Self::SignOut
            | Self::CreateKey
            | Self::Rename(_)
            | Self::SetScope(_)
            | Self::Deactivate(_)
            | Self::Reactivate(_)
            | Self::Resume(_)
            | Self::Roll(_)
            | Self::DeleteKey(_)
            | Self::SetPassword
            | Self::SetEmail
            | Self::SetNotices
            | Self::EndSession(_)
            | Self::EndSessions
            | Self::TotpOff
            | Self::NewCodes
            | Self::DeleteAccount => Manner::Write,
        }
    }

    /// Whether a form that is sent there may change how keys are served.
    pub(crate) fn changes_keys(self) -> bool {
        matches!(
            self,
            Self::CreateKey
                | Self::SetScope(_)
                | Self::Deactivate(_)
                | Self::Reactivate(_)
                | Self::Resume(_)
                | Self::Roll(_)
                | Self::DeleteKey(_)
                | Self::DeleteAccount
        )
    }

    /// The page that has the form which is sent here.
    pub(crate) fn page(self) -> String {
        match self {
            Self::Rename(id)
            | Self::SetScope(id)
            | Self::Deactivate(id)
            | Self::Reactivate(id)
            | Self::Resume(id)
            | Self::Roll(id)
            | Self::DeleteKey(id) => format!("/dashboard/keys/{}", id.0),
            Self::SetPassword
            | Self::SetEmail
            | Self::SetNotices
            | Self::EndSession(_)
            | Self::EndSessions
            | Self::DeleteAccount => "/account".to_owned(),
            Self::TotpOff | Self::NewCodes => "/account/totp".to_owned(),
            _ => "/dashboard".to_owned(),
        }
    }
}

impl Manner {
    pub(crate) fn allows(self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD => true,
            Method::POST => self != Self::Read,
            _ => false,
        }
    }

    /// As the `Allow` header names it.
    pub(crate) fn methods(self) -> &'static str {
        match self {
            Self::Read => "GET, HEAD",
            Self::Both | Self::Write => "GET, HEAD, POST",
        }
    }
}

fn key_id(text: &str) -> Option<KeyId> {
    number(text).map(KeyId)
}

/// A number as we write it: one path for each, with no sign and no zero before it.
fn number(text: &str) -> Option<i64> {
    let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_members_own_is_known_by_its_path() {
        for path in ["/dashboard", "/dashboard/nothing", "/account/email/x", "/signout"] {
            assert!(is_for_members(path), "{path}");
        }
        for path in ["/", "/docs", "/dashboards", "/signin", "/reset/x", "/verify/x", ""] {
            assert!(!is_for_members(path), "{path}");
        }
    }

    #[test]
    fn a_path_leads_to_one_page_or_to_none() {
        #[track_caller]
        fn check(path: &str, expected: Option<Route<'_>>) {
            assert_eq!(find(path), expected, "{path}");
        }
        check("/", Some(Route::Public(Public::Home)));
        check("/docs", Some(Route::Public(Public::Docs)));
        check("/assets/style.css", Some(Route::Public(Public::File)));
        check("/dashboard/keys/12", Some(Route::Key(KeyId(12))));
        check("/dashboard/keys/12/resume", Some(Route::Resume(KeyId(12))));
        check("/account/sessions/end", Some(Route::EndSessions));
        check("/account/sessions/7/end", Some(Route::EndSession(7)));
        check("/reset/abc", Some(Route::ResetLink("abc")));
        check("/account/email/abc", Some(Route::EmailLink("abc")));
        for nothing in [
            "",
            "docs",
            "/docs/",
            "//",
            "/dashboard/",
            "/dashboard/keys/",
            "/dashboard/keys/012",
            "/dashboard/keys/-1",
            "/dashboard/keys/+1",
            "/dashboard/keys/0",
            "/dashboard/keys/99999999999999999999",
            "/dashboard/keys/1/rename/",
            "/Account",
            "/account/sessions/x/end",
            "/assets/a/b",
        ] {
            check(nothing, None);
        }
    }
}
