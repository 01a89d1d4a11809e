//! Telling owners what happened to their keys.

use super::Letter;
use crate::office::Office;
use ipse_model::Now;

/// Sends what is due, each once. What cannot be read now is read the next time.
pub(crate) async fn tell_owners<C>(office: &Office<C>, now: Now) -> Result<(), ipse_store::Error> {
    let Some(post) = &office.post else { return Ok(()) };
    for notice in office.records.due_notices(now).await? {
        post.send(Letter::notice(&office.links, &notice));
    }
    Ok(())
}
