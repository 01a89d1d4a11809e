//! Links that work once, for 20 minutes: made for a letter, looked at when they are opened, and taken by the button behind.

use crate::office::{Office, Trouble};
use ipse_edge::Visit;
use ipse_model::{Now, Secret};
use ipse_store::{AccountId, Email, NewToken, Token, TokenPurpose};

/// What a link is for.
pub(super) struct Link<'a> {
    pub(super) purpose: TokenPurpose,
    pub(super) account: Option<AccountId>,
    pub(super) email: Option<&'a Email>,
    /// The hash of the password that a new account begins with.
    pub(super) password: Option<&'a str>,
}

/// Makes a link, and gives the secret in it.
pub(super) async fn make<C>(office: &Office<C>, link: Link<'_>, now: Now) -> Result<String, Trouble> {
    let Link { purpose, account, email, password } = link;
    let secret = Secret::from_random(getrandom::fill)?;
    let ends_ms = now.unix_ms + Token::LIFETIME_MS;
    let token = NewToken { hash: &secret.hash(), purpose, account, email, password, ends_ms };
    office.records.make_token(&token, now).await?;
    Ok(secret.reveal())
}

/// What a link is about, if it is good. It stays so.
pub(super) async fn look_at<C>(
    office: &Office<C>,
    visit: &Visit,
    secret: &str,
    purpose: TokenPurpose,
) -> Result<Option<Token>, Trouble> {
    let Ok(secret) = secret.parse::<Secret>() else { return Ok(None) };
    Ok(office.records.peek_token(&secret.hash(), purpose, visit.now).await?)
}

/// The same, and it is not good any more. Of two who take it at once, one gets it.
pub(super) async fn take<C>(
    office: &Office<C>,
    visit: &Visit,
    secret: &str,
    purpose: TokenPurpose,
) -> Result<Option<Token>, Trouble> {
    let Ok(secret) = secret.parse::<Secret>() else { return Ok(None) };
    Ok(office.records.take_token(&secret.hash(), purpose, visit.now).await?)
}
