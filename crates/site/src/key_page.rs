//! The page of one key: its state and what to do about it, its usage, and everything that can be changed.
//!
//! Every function here takes the member, and asks the records for keys of that account alone: the key of somebody else is
//! answered like one that does not exist.

use crate::charts::{self, Chart, DAYS, Minute};
use crate::csv;
use crate::field::Field;
use crate::guard::form::Form;
use crate::guard::once;
use crate::guard::session::Member;
use crate::key_form::{self, Choice, Overlap, overlaps, scopes};
use crate::key_name::{self, called};
use crate::key_view::KeyView;
use crate::keys::{curl, made};
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Download, Private};
use crate::utc::Moment;
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_model::{BURST_LIMIT, Day, KeyId, KeyState, Now};
use ipse_store::{Activity, Counters, Outcomes, OwnedKey, Subject};

#[derive(Template)]
#[template(path = "key.html")]
struct KeyPage<'a> {
    page: Page<'a>,
    csrf: &'a str,
    done: Option<&'static str>,
    key: KeyView,
    is_inactive: bool,
    pause: Option<Pause>,
    old_text: Option<OldTextView>,
    today: Chart,
    month: Chart,
    curl: String,
    change: KeyForms,
}

/// Since when a key is paused, and the minute that did it.
struct Pause {
    since: Moment,
    minute: Option<Minute>,
}

/// The text before the last one, while it still works.
struct OldTextView {
    last_four: String,
    ends: Moment,
}

/// All forms of the page. After one was sent that could not be taken, it says why.
struct KeyForms {
    name: Field,
    scopes: Vec<Choice>,
    scope_wrong: Option<String>,
    overlaps: Vec<Choice>,
    overlap_wrong: Option<String>,
    confirm: Field,
}

/// All that is known about one key.
struct Story {
    key: OwnedKey,
    used_today: u32,
    by_day: Vec<(Day, Outcomes)>,
    by_hour: Vec<(u8, Outcomes)>,
}

impl<'a> KeyPage<'a> {
    fn new(page: Page<'a>, csrf: &'a str, story: &Story, change: KeyForms, now: Now) -> Self {
        let Story { key, used_today, by_day, by_hour } = story;
        let today = now.day();
        let pause = key.record.paused_ms.map(|since| Pause {
            since: Moment::new(since, today),
            minute: key.pause_minute.as_deref().map(Minute::new),
        });
        let old_text = key.old_text.as_ref().filter(|old| old.ends_ms > now.unix_ms).map(|old| OldTextView {
            last_four: old.last_four.clone(),
            ends: Moment::new(old.ends_ms, today),
        });
        Self {
            csrf,
            done: None,
            key: KeyView::new(key, *used_today, now),
            is_inactive: key.record.state == KeyState::Inactive,
            pause,
            old_text,
            today: charts::hours(by_hour),
            month: charts::days(today, by_day),
            curl: curl(page.links, "YOUR_KEY"),
            change,
            page,
        }
    }

    /// Where a form of this page is sent.
    fn action(&self, action: &str) -> String {
        format!("{}/{action}", path(self.key.id))
    }

    fn burst_limit(&self) -> u32 {
        BURST_LIMIT
    }
}

impl KeyForms {
    /// What keeps a key from being rolled twice by one form.
    fn once(&self) -> String {
        once::number()
    }

    const NAME_HINT: &'static str = "Only you see it. The key itself stays the same.";

    fn fresh(key: &OwnedKey) -> Self {
        Self {
            name: key_form::name(Self::NAME_HINT, &key.record.name, None),
            scopes: scopes(key.record.scope),
            scope_wrong: None,
            overlaps: overlaps(Overlap::DEFAULT),
            overlap_wrong: None,
            confirm: Field::text("confirm", "confirm", "Type its name to confirm"),
        }
    }
}

/// The page.
pub(crate) async fn show<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
) -> Result<Reply, Trouble> {
    let Some(story) = story(office, visit, member, id).await? else { return Ok(nothing(office, visit)) };
    let query = visit.request.uri.query().unwrap_or_default();
    let done = query.strip_prefix("done=").and_then(|what| done(what, story.key.record.state));
    let change = KeyForms::fresh(&story.key);
    page(office, visit, member, &story, Private::OK, done, change)
}

/// The usage of the last thirty days as a file.
pub(crate) async fn csv<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
) -> Result<Reply, Trouble> {
    let Some(story) = story(office, visit, member, id).await? else { return Ok(nothing(office, visit)) };
    let file = csv::usage(visit.now.day(), &story.by_day);
    Ok(reply::download(Download::Csv, &format!("ipse-key-{id}-usage.csv"), file))
}

/// Gives the key another name.
pub(crate) async fn rename<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let Some(story) = story(office, visit, member, id).await? else { return Ok(nothing(office, visit)) };
    let typed = sent.text("name");
    let name = match key_name::checked(typed) {
        Ok(name) => name,
        Err(wrong) => {
            let name = key_form::name(KeyForms::NAME_HINT, typed, Some(wrong));
            let change = KeyForms { name, ..KeyForms::fresh(&story.key) };
            return page(office, visit, member, &story, Private::UNFIT, None, change);
        }
    };
    if name != story.key.record.name && office.records.rename(member.account, id, &name).await? {
        let detail = format!("{} → {name}", called(&story.key.record.name, id));
        note(office, visit, member, id, Activity::KeyRenamed, &detail).await?;
    }
    Ok(back(id, "renamed"))
}

/// Changes what the key may ask.
pub(crate) async fn set_scope<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let Some(story) = story(office, visit, member, id).await? else { return Ok(nothing(office, visit)) };
    let scope = match key_form::scope(sent.text("scope")) {
        Ok(scope) => scope,
        Err(wrong) => {
            let change = KeyForms { scope_wrong: Some(wrong), ..KeyForms::fresh(&story.key) };
            return page(office, visit, member, &story, Private::UNFIT, None, change);
        }
    };
    if office.records.set_scope_of(member.account, id, scope).await? {
        let detail = format!("{}: {scope}", called(&story.key.record.name, id));
        note(office, visit, member, id, Activity::KeyScopeChanged, &detail).await?;
    }
    Ok(back(id, "scope"))
}

/// Switches the key off.
pub(crate) async fn deactivate<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
) -> Result<Reply, Trouble> {
    let change = office.records.set_active_of(member.account, id, false);
    switch(office, visit, member, id, change, Activity::KeyDeactivated, "deactivated").await
}

/// Switches the key on again.
pub(crate) async fn reactivate<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
) -> Result<Reply, Trouble> {
    let change = office.records.set_active_of(member.account, id, true);
    switch(office, visit, member, id, change, Activity::KeyReactivated, "reactivated").await
}

/// Lets the key go on after a pause.
pub(crate) async fn resume<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
) -> Result<Reply, Trouble> {
    let change = office.records.resume_of(member.account, id);
    switch(office, visit, member, id, change, Activity::KeyResumed, "resumed").await
}

/// Carries out a change that takes nothing but its button.
async fn switch<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
    change: impl Future<Output = Result<bool, ipse_store::Error>>,
    activity: Activity,
    what: &str,
) -> Result<Reply, Trouble> {
    let Some(name) = name_of(office, member, id).await? else { return Ok(nothing(office, visit)) };
    if change.await? {
        note(office, visit, member, id, activity, &name).await?;
    }
    Ok(back(id, what))
}

/// Gives the key another text and shows it.
pub(crate) async fn roll<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let Some(story) = story(office, visit, member, id).await? else { return Ok(nothing(office, visit)) };
    let Some(overlap) = Overlap::parse(sent.text("keep")) else {
        let wrong = "Choose how long the old text is to work.".to_owned();
        let change = KeyForms { overlap_wrong: Some(wrong), ..KeyForms::fresh(&story.key) };
        return page(office, visit, member, &story, Private::UNFIT, None, change);
    };
    if !once::is_first(office, visit, member, sent).await? {
        return Ok(reply::see_other(&path(id), &[]));
    }
    let Some(text) = office.records.roll_of(member.account, id, overlap.keep_ms(), visit.now).await? else {
        return Ok(nothing(office, visit));
    };
    let record = &story.key.record;
    let name = called(&record.name, id);
    note(office, visit, member, id, Activity::KeyRolled, &name).await?;
    made(office, member, id, &name, &text, Some(&old_text_words(&record.last_four, overlap, visit.now)))
}

/// Deletes the key, if its name was typed.
pub(crate) async fn delete<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let Some(story) = story(office, visit, member, id).await? else { return Ok(nothing(office, visit)) };
    let (typed, name) = (sent.text("confirm"), called(&story.key.record.name, id));
    if !key_name::is_same(typed, &name) {
        let change = KeyForms::fresh(&story.key);
        let wrong = Some("This is not the key’s name. Nothing was deleted.".to_owned());
        let typed: String = typed.chars().take(4 * key_name::LONGEST).collect();
        let change =
            KeyForms { confirm: change.confirm.typed(&typed).wrong(wrong), ..KeyForms::fresh(&story.key) };
        return page(office, visit, member, &story, Private::UNFIT, None, change);
    }
    if office.records.delete_key_of(member.account, id).await? {
        note(office, visit, member, id, Activity::KeyDeleted, &name).await?;
    }
    Ok(reply::see_other("/dashboard?done=deleted", &[]))
}

/// What was done, in words; nothing where it is not so, or no longer.
fn done(what: &str, state: KeyState) -> Option<&'static str> {
    Some(match (what, state) {
        ("renamed", _) => "The key has its new name.",
        ("scope", _) => "The scope is changed.",
        ("deactivated", KeyState::Inactive) => "The key is switched off.",
        ("reactivated", KeyState::Active) => "The key is switched on again.",
        ("reactivated", KeyState::Paused) => "The key is switched on again, but it is still paused.",
        ("resumed", KeyState::Active) => "The key is resumed and works again.",
        ("resumed", KeyState::Inactive) => "The key is resumed, but it is still switched off.",
        _ => return None,
    })
}

/// What becomes of the text that a key had before it was rolled.
fn old_text_words(last_four: &str, overlap: Overlap, now: Now) -> String {
    if overlap == Overlap::None {
        return format!("The old text, which ended in {last_four}, no longer works.");
    }
    let ends = Moment::new(now.unix_ms.saturating_add(overlap.keep_ms()), now.day());
    format!("The old text, which ends in {last_four}, works beside it until {}.", ends.words)
}

async fn story<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
) -> Result<Option<Story>, Trouble> {
    let Some(key) = office.records.key_of(member.account, id).await? else { return Ok(None) };
    let today = visit.now.day();
    Ok(Some(Story {
        key,
        used_today: office.counters.used(Subject::Key(id), today).await?,
        by_day: office.records.outcomes_by_day(id, Day(today.0.saturating_sub(DAYS - 1))).await?,
        by_hour: office.records.outcomes_by_hour(id, today).await?,
    }))
}

async fn name_of<C>(office: &Office<C>, member: &Member, id: KeyId) -> Result<Option<String>, Trouble> {
    let key = office.records.key_of(member.account, id).await?;
    Ok(key.map(|key| called(&key.record.name, id)))
}

fn page<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    story: &Story,
    private: Private,
    done: Option<&'static str>,
    change: KeyForms,
) -> Result<Reply, Trouble> {
    let title = called(&story.key.record.name, story.key.record.id);
    let page = Page::of(member, &office.links, Here::Keys, &title);
    let page = KeyPage { done, ..KeyPage::new(page, &member.csrf, story, change, visit.now) };
    reply::private(private, &page)
}

async fn note<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: KeyId,
    what: Activity,
    detail: &str,
) -> Result<(), Trouble> {
    Ok(office.records.note_activity(member.account, what, Some(id), Some(detail), visit.now).await?)
}

fn path(id: KeyId) -> String {
    format!("/dashboard/keys/{id}")
}

fn back(id: KeyId, done: &str) -> Reply {
    reply::see_other(&format!("{}?done={done}", path(id)), &[])
}

fn nothing<C>(office: &Office<C>, visit: &Visit) -> Reply {
    reply::not_found(&office.links, &visit.request.headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_view::tests::{NOW, key, paused};
    use crate::links::tests::links;
    use ipse_model::Links;
    use ipse_store::OldText;

    const HOSTILE: &str = "<script>alert('x')</script>\"&";

    fn busy(key: OwnedKey) -> Story {
        let outcomes = Outcomes { answered: 1_234, over_quota: 5, refused: 67 };
        Story { key, used_today: 1_234, by_day: vec![(NOW.day(), outcomes)], by_hour: vec![(14, outcomes)] }
    }

    fn fresh(key: OwnedKey) -> Story {
        Story { key, used_today: 0, by_day: vec![], by_hour: vec![] }
    }

    fn rendered(links: &Links, story: &Story, change: KeyForms) -> String {
        let title = called(&story.key.record.name, story.key.record.id);
        let page = Page::public(links, Here::Keys, &title, "");
        KeyPage::new(page, "the-secret", story, change, NOW).render().unwrap()
    }

    fn html(story: &Story) -> String {
        rendered(&links(), story, KeyForms::fresh(&story.key))
    }

    fn off(mut key: OwnedKey) -> OwnedKey {
        key.record.state = KeyState::Inactive;
        key
    }

    fn rolled(mut key: OwnedKey, ends_ms: i64) -> OwnedKey {
        key.old_text = Some(OldText { last_four: "aB3d".to_owned(), ends_ms });
        key
    }

    /// A key in every state that changes the page.
    fn all() -> Vec<Story> {
        vec![
            fresh(key("a")),
            busy(key("a")),
            busy(off(key("a"))),
            busy(paused(key("a"), Some(vec![301]))),
            busy(paused(key("a"), None)),
            busy(off(paused(key("a"), Some(vec![301])))),
            busy(rolled(key("a"), NOW.unix_ms + 1)),
        ]
    }

    /// The values of an attribute, such as `id`.
    fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        let begin = format!(" {name}=\"");
        html.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
    }

    #[test]
    fn hostile_names_stay_text() {
        let story = busy(key(HOSTILE));
        let wrong = Some(HOSTILE.to_owned());
        let name = key_form::name("", HOSTILE, wrong.clone());
        let change = KeyForms {
            name,
            confirm: Field::text("confirm", "confirm", "").typed(HOSTILE).wrong(wrong),
            ..KeyForms::fresh(&story.key)
        };
        let html = rendered(&links(), &story, change);
        assert!(!html.contains("<script>") && !html.contains("'x'") && !html.contains("\"&\""), "{html}");
        // The title, the heading, what is to be typed, and both fields with what was typed and the sentence beside it.
        assert_eq!(html.matches("&#60;script&#62;").count(), 3 + 2 + 2, "{html}");
    }

    #[test]
    fn the_page_needs_no_style_or_script_of_its_own() {
        for story in all() {
            let html = html(&story);
            for part in ["<style", " style=", " onclick=", " onload=", "javascript:"] {
                assert!(!html.contains(part), "{part}");
            }
        }
    }

    #[test]
    fn every_form_brings_the_secret_back() {
        for story in all() {
            let html = html(&story);
            let forms: Vec<&str> = html.split("<form ").skip(1).collect();
            assert!(forms.len() >= 5, "{}", forms.len());
            for form in forms {
                let form = form.split("</form>").next().unwrap();
                assert!(form.contains("method=\"post\""), "{form}");
                assert!(form.contains("action=\"/dashboard/keys/7/"), "{form}");
                assert_eq!(form.matches("name=\"csrf\" value=\"the-secret\"").count(), 1, "{form}");
            }
        }
    }

    #[test]
    fn ids_are_unique_and_labels_point_to_them() {
        for story in all() {
            let html = html(&story);
            let mut ids = attributes(&html, "id");
            for name in ["aria-labelledby", "for", "aria-describedby"] {
                for label in attributes(&html, name) {
                    assert!(label.split(' ').all(|id| ids.contains(&id)), "{name} {label}");
                }
            }
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count);
        }
    }

    #[test]
    fn a_pause_is_explained_and_has_one_button() {
        let mut counts = vec![0; 60];
        counts[58] = 244;
        counts[59] = 57;
        let paused_page = html(&busy(paused(key("Shop"), Some(counts))));
        for part in [
            "since 14:03 UTC: more than 300 requests in a minute",
            "<time datetime=\"2026-11-15T14:03:00Z\">14:03 UTC</time>",
            "301 requests within 60 seconds; most in one second: 244",
            "<title>the second of the pause: 57 requests, 301 so far</title>",
            "Look for a loop",
            "Keep answers",
            "Spread the load",
        ] {
            assert!(paused_page.contains(part), "{part}");
        }
        assert_eq!(paused_page.matches("/resume\"").count(), 1);
        let by_hand = html(&busy(paused(key("Shop"), None)));
        assert!(by_hand.contains("paused it by hand") && !by_hand.contains("Look for a loop"));
        assert_eq!(by_hand.matches("/resume\"").count(), 1);
        for story in [busy(key("Shop")), busy(off(key("Shop")))] {
            assert!(!html(&story).contains("/resume\""));
        }
    }

    #[test]
    fn what_is_off_can_be_switched_on_and_the_other_way_round() {
        let is_offered = |story: &Story, action: &str| html(story).contains(&format!("/7/{action}\""));
        for story in [busy(key("a")), busy(paused(key("a"), None))] {
            assert!(is_offered(&story, "deactivate") && !is_offered(&story, "reactivate"));
        }
        let both = busy(off(paused(key("a"), None)));
        assert!(is_offered(&both, "reactivate") && is_offered(&both, "resume"));
        assert!(!is_offered(&both, "deactivate"));
    }

    #[test]
    fn charts_have_tables_and_a_key_without_requests_has_advice() {
        let used = html(&busy(key("a")));
        assert_eq!(used.matches("<table").count(), 2);
        assert_eq!(used.matches("<tr>").count(), 1 + 24 + 1 + 30);
        assert!(used.contains("<title>15 November 2026: 1,234 answered, 5 over quota, 67 refused</title>"));
        assert!(used.contains("/dashboard/keys/7/usage.csv"));
        let unused = html(&fresh(key("a")));
        assert!(!unused.contains("<table") && !unused.contains("usage.csv"));
        assert!(unused.contains("Bearer YOUR_KEY&#34;"), "{unused}");
    }

    #[test]
    fn an_old_text_is_shown_until_it_ends() {
        let works = html(&busy(rolled(key("a"), NOW.unix_ms + 86_400_000)));
        assert!(works.contains("16 November 2026, 14:30 UTC") && works.contains("aB3d"));
        assert!(!html(&busy(rolled(key("a"), NOW.unix_ms))).contains("aB3d"));
        #[track_caller]
        fn check(overlap: Overlap, words: &str) {
            assert_eq!(old_text_words("aB3d", overlap, NOW), words);
        }
        check(Overlap::None, "The old text, which ended in aB3d, no longer works.");
        check(Overlap::Hour, "The old text, which ends in aB3d, works beside it until 15:30 UTC.");
        check(
            Overlap::Week,
            "The old text, which ends in aB3d, works beside it until 22 November 2026, 14:30 UTC.",
        );
    }

    #[test]
    fn nothing_is_said_to_be_done_that_is_not_so() {
        assert!(done("renamed", KeyState::Paused).is_some() && done("scope", KeyState::Inactive).is_some());
        assert!(done("resumed", KeyState::Active).is_some() && done("resumed", KeyState::Inactive).is_some());
        assert_eq!(done("resumed", KeyState::Paused), None, "it was paused again");
        assert_eq!(done("deactivated", KeyState::Active), None);
        assert_eq!(done("reactivated", KeyState::Inactive), None);
        assert_eq!(done("<script>", KeyState::Active), None);
    }
}
