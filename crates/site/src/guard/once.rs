//! Forms whose page shows something once: carried out a second time, as by somebody who loads that page anew, they would make
//! another of it. Each brings a number back that can be used once.

use super::form::Form;
use super::session::Member;
use crate::office::{Office, Trouble};
use ipse_edge::Visit;
use ipse_model::Secret;

/// A number for a form. Without random bytes there is none, and the form works all the same.
pub(crate) fn number() -> String {
    Secret::from_random(getrandom::fill).map(|secret| secret.reveal()).unwrap_or_default()
}

/// Whether a form is carried out for the first time.
pub(crate) async fn is_first<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<bool, Trouble> {
    let Ok(number) = sent.text("once").parse::<Secret>() else { return Ok(true) };
    Ok(office.records.claim_form(&number.hash(), member.account, visit.now).await?)
}
