//! The keys of an account: the list, the form that makes one, and the page that shows a new text, once.

use crate::charts::grouped;
use crate::field::Field;
use crate::guard::form::Form;
use crate::guard::once;
use crate::guard::session::Member;
use crate::key_form::{self, Choice, scopes};
use crate::key_name;
use crate::key_view::KeyView;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_model::{DAILY_LIMIT, KEYS_PER_ACCOUNT, KeyId, KeyText, Links, Scope};
use ipse_store::{Activity, Counters, Created, Subject};

#[derive(Template)]
#[template(path = "dashboard.html")]
struct Dashboard<'a> {
    page: Page<'a>,
    csrf: &'a str,
    done: Option<&'static str>,
    keys: Vec<KeyView>,
    new: NewKeyForm,
}

/// The form that makes a key.
struct NewKeyForm {
    name: Field,
    scopes: Vec<Choice>,
    scope_wrong: Option<String>,
    /// What no field is to blame for.
    wrong: Option<String>,
}

/// The page that shows the text of a key, the only time that it can be.
#[derive(Template)]
#[template(path = "key_made.html")]
struct KeyMade<'a> {
    page: Page<'a>,
    id: KeyId,
    name: &'a str,
    text: &'a str,
    curl: String,
    /// What became of the text before, where there was one.
    rolled: Option<&'a str>,
}

impl NewKeyForm {
    /// What keeps the form from being carried out twice.
    fn once(&self) -> String {
        once::number()
    }
}

impl Dashboard<'_> {
    fn is_full(&self) -> bool {
        u32::try_from(self.keys.len()).is_ok_and(|keys| keys >= KEYS_PER_ACCOUNT)
    }

    fn most_keys(&self) -> u32 {
        KEYS_PER_ACCOUNT
    }

    fn daily_limit(&self) -> String {
        grouped(DAILY_LIMIT)
    }
}

impl NewKeyForm {
    const HINT: &'static str = "What will use it, in your own words.";

    /// An untouched form. The first key comes with a name, so that one click makes it.
    fn fresh(has_keys: bool) -> Self {
        let typed = if has_keys { "" } else { "My first key" };
        let name = key_form::name(Self::HINT, typed, None);
        Self { name, scopes: scopes(Scope::Geo), scope_wrong: None, wrong: None }
    }

    /// The form as it was sent.
    fn sent(sent: &Form, name_wrong: Option<String>, scope_wrong: Option<String>) -> Self {
        let name = key_form::name(Self::HINT, sent.text("name"), name_wrong);
        let chosen = key_form::scope(sent.text("scope")).unwrap_or(Scope::Geo);
        Self { name, scopes: scopes(chosen), scope_wrong, wrong: None }
    }
}

/// The list.
pub(crate) async fn list<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
) -> Result<Reply, Trouble> {
    let is_deleted = visit.request.uri.query() == Some("done=deleted");
    page(office, visit, member, Private::OK, is_deleted.then_some("The key is deleted."), None).await
}

/// Makes a key and shows its text.
pub(crate) async fn create<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let checked = (key_name::checked(sent.text("name")), key_form::scope(sent.text("scope")));
    let (name, scope) = match checked {
        (Ok(name), Ok(scope)) => (name, scope),
        (name, scope) => {
            let form = NewKeyForm::sent(sent, name.err(), scope.err());
            return page(office, visit, member, Private::UNFIT, None, Some(form)).await;
        }
    };
    if !once::is_first(office, visit, member, sent).await? {
        return Ok(reply::see_other("/dashboard", &[]));
    }
    match office.records.create_key_of(member.account, &name, scope, visit.now).await? {
        Created::Key { text, record } => {
            let (what, key) = (Activity::KeyCreated, Some(record.id));
            office.records.note_activity(member.account, what, key, Some(&name), visit.now).await?;
            made(office, member, record.id, &name, &text, None)
        }
        Created::AccountIsFull => {
            let wrong = format!(
                "No key was made: your account holds {KEYS_PER_ACCOUNT} already, which is the most it may hold."
            );
            let form = NewKeyForm { wrong: Some(wrong), ..NewKeyForm::sent(sent, None, None) };
            page(office, visit, member, Private::UNFIT, None, Some(form)).await
        }
    }
}

/// Shows the text of a key that was made or rolled.
pub(crate) fn made<C>(
    office: &Office<C>,
    member: &Member,
    id: KeyId,
    name: &str,
    text: &KeyText,
    rolled: Option<&str>,
) -> Result<Reply, Trouble> {
    let title = if rolled.is_some() { "The new text of your key" } else { "Your new key" };
    let page = Page::of(member, &office.links, Here::Keys, title);
    let (text, curl) = (text.reveal(), curl(&office.links, text.reveal()));
    reply::private(Private::OK, &KeyMade { page, id, name, text, curl, rolled })
}

/// The command that makes a first call.
pub(crate) fn curl(links: &Links, key: &str) -> String {
    format!("curl {}/api/v1/ip \\\n  -H \"Authorization: Bearer {key}\"", links.base_url)
}

async fn page<C: Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    private: Private,
    done: Option<&'static str>,
    form: Option<NewKeyForm>,
) -> Result<Reply, Trouble> {
    let mut keys = Vec::new();
    for key in office.records.keys_of(member.account).await? {
        let used = office.counters.used(Subject::Key(key.record.id), visit.now.day()).await?;
        keys.push(KeyView::new(&key, used, visit.now));
    }
    let new = form.unwrap_or_else(|| NewKeyForm::fresh(!keys.is_empty()));
    let page = Page::of(member, &office.links, Here::Keys, "Your keys");
    reply::private(private, &Dashboard { page, csrf: &member.csrf, done, keys, new })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_view::tests::{NOW, key, paused};
    use crate::links::tests::links;

    const HOSTILE: &str = "<script>alert('x')</script>\"&";

    fn html(names: &[&str], new: NewKeyForm) -> String {
        let links = links();
        let page = Page::public(&links, Here::Keys, "Your keys", "");
        let keys = names.iter().map(|name| KeyView::new(&key(name), 2_500, NOW)).collect();
        Dashboard { page, csrf: "the-secret", done: None, keys, new }.render().unwrap()
    }

    #[test]
    fn an_empty_list_teaches() {
        let html = html(&[], NewKeyForm::fresh(false));
        for part in
            ["Make your first key", "value=\"My first key\"", "10,000 answers a day", "What happens next"]
        {
            assert!(html.contains(part), "{part}");
        }
        assert_eq!(html.matches("name=\"csrf\" value=\"the-secret\"").count(), 1);
        assert!(html.contains("value=\"geo\" checked"));
    }

    #[test]
    fn a_list_tells_how_many_there_are_and_how_much_is_left() {
        let html = html(&["Shop", "", "Crawler"], NewKeyForm::fresh(true));
        for part in [
            "3 of 10",
            "<bdi>Shop</bdi>",
            "<bdi>Key 7</bdi>",
            "<strong>2,500</strong> used today, <strong>7,500</strong> left",
            "<rect class=\"bar-used\" width=\"250\"",
            "href=\"/dashboard/keys/7\"",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(html.contains("action=\"/dashboard/keys\"") && !html.contains("My first key"));
    }

    #[test]
    fn a_full_account_is_offered_no_form() {
        let html = html(&["a"; 10], NewKeyForm::fresh(true));
        assert!(html.contains("10 of 10") && html.contains("at most 10 keys"));
        assert!(!html.contains("action=\"/dashboard/keys\""));
    }

    #[test]
    fn what_was_typed_is_kept_beside_what_is_wrong() {
        let sent = Form::read(b"name=+&scope=full");
        let name = key_name::checked(sent.text("name"));
        let html = html(&["a"], NewKeyForm::sent(&sent, name.err(), None));
        assert!(html.contains("Give the key a name") && html.contains("aria-invalid=\"true\""));
        assert!(html.contains("value=\"full\" checked") && !html.contains("value=\"geo\" checked"));
    }

    #[test]
    fn hostile_names_stay_text() {
        let sent = Form::read(&[b"name=", HOSTILE.replace('&', "%26").as_bytes()].concat());
        let html = html(&[HOSTILE], NewKeyForm::sent(&sent, Some(HOSTILE.to_owned()), None));
        assert!(!html.contains("<script>") && !html.contains("'x'"));
        assert_eq!(html.matches("&#60;script&#62;").count(), 3, "{html}");
        let links = links();
        let page = Page::public(&links, Here::Keys, "Your new key", "");
        let (text, curl) = ("ipse_x", curl(&links, "ipse_x"));
        let made = KeyMade { page, id: KeyId(7), name: HOSTILE, text, curl, rolled: None }.render().unwrap();
        assert_eq!(made.matches("&#60;script&#62;").count(), 1);
        assert!(!made.contains("<script>"));
    }

    #[test]
    fn a_new_key_is_shown_with_the_line_that_uses_it() {
        let links = links();
        let page = Page::public(&links, Here::Keys, "Your new key", "");
        let (text, curl) = ("ipse_x", curl(&links, "ipse_x"));
        let made = KeyMade { page, id: KeyId(7), name: "Shop", text, curl, rolled: None }.render().unwrap();
        for part in [
            "<code>ipse_x</code>",
            "<code>curl https://ip.example/api/v1/ip \\\n  -H &#34;Authorization: Bearer ipse_x&#34;</code>",
            "it is not shown again",
            "data-settle=\"/dashboard/keys/7\"",
            "href=\"/dashboard/keys/7\">Done</a>",
        ] {
            assert!(made.contains(part), "{part}: {made}");
        }
    }

    #[test]
    fn a_paused_key_is_told_in_the_list() {
        let links = links();
        let page = Page::public(&links, Here::Keys, "Your keys", "");
        let keys = vec![KeyView::new(&paused(key("Shop"), Some(vec![301])), 0, NOW)];
        let new = NewKeyForm::fresh(true);
        let html = Dashboard { page, csrf: "", done: None, keys, new }.render().unwrap();
        assert!(html.contains("since 14:03 UTC: more than 300 requests in a minute"));
    }
}
