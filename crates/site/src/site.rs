//! `Site`: from a request to its page. Public pages are made of nothing but the request; behind the others stand the guards.

use crate::account::{activity, email, export, reset, settings, sign_in, sign_up, totp};
use crate::doctor::{self, Examination};
use crate::guard::cookie::Cookies;
use crate::guard::form::{self, Form};
use crate::guard::hasher::Hasher;
use crate::guard::origin;
use crate::guard::session::{self, Guest, Member, Visitor};
use crate::guard::throttle::Throttle;
use crate::mail::{self, MailPlan, Post};
use crate::office::{Office, Trouble};
use crate::operator::Operator;
use crate::reply::Fixed;
use crate::route::{self, Manner, Public, Route};
use crate::told::{Unread, busy, records_are_away, unread};
use crate::visits::PageVisits;
use crate::{assets, docs, enterprise, home, key_page, keys, legal, reply};
use http::{Method, header};
use ipse_edge::{BodyFault, Reply, Visit};
use ipse_geo::Atlas;
use ipse_model::{Links, Now};
use ipse_store::{Counters, KeyTable, Records};
use std::sync::Arc;

/// All pages of one installation.
pub struct Site<C> {
    office: Arc<Office<C>>,
    // The same for everybody, so made once.
    docs: Fixed,
    enterprise: Fixed,
    privacy: Fixed,
    terms: Fixed,
    visits: Arc<PageVisits>,
}

/// What a site is made of.
pub struct SitePlan<C> {
    /// The links that pages name.
    pub links: Links,
    /// What the operator says.
    pub operator: Operator,
    /// Accounts and keys.
    pub records: Records,
    /// How much of a day is used.
    pub counters: Arc<C>,
    /// The keys as they are served.
    pub keys: Arc<KeyTable>,
    /// How mail leaves, if it does.
    pub mail: Option<MailPlan>,
    /// Whether anybody may make an account.
    pub sign_up_is_open: bool,
    /// What threads do first that are to let others go before them.
    pub stand_back: fn(),
}

/// Why there is no site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The threads that hash passwords did not start.
    #[error("cannot start the threads that hash passwords: {0}")]
    Threads(#[from] std::io::Error),
    /// The mail server cannot be spoken to in this way.
    #[error("the settings of mail cannot be used: {0}")]
    Mail(String),
}

impl<C: Counters> Site<C> {
    /// The pages of an installation.
    pub fn open(plan: SitePlan<C>) -> Result<Self, SiteError> {
        let SitePlan { links, operator, records, counters, keys, mail, sign_up_is_open, stand_back } = plan;
        let post = mail.as_ref().map(Post::open).transpose();
        let post = post.map_err(|error| SiteError::Mail(error.to_string()))?;
        let hasher = Hasher::start(stand_back)?;
        let (cookies, throttle) = (Cookies::new(&links), Throttle::default());
        Ok(Self {
            docs: Fixed::new(docs::answer(&links)),
            enterprise: Fixed::new(enterprise::answer(&links, &operator)),
            privacy: Fixed::new(legal::privacy(&links, &operator)),
            terms: Fixed::new(legal::terms(&links, &operator)),
            visits: Arc::default(),
            office: Arc::new(Office {
                links,
                records,
                counters,
                keys,
                cookies,
                hasher,
                throttle,
                post,
                sign_up_is_open,
            }),
        })
    }

    /// Answers everything outside `/api` and `/openapi.json`, with what the atlas knows of the visitor.
    pub async fn answer(&self, visit: &Visit, atlas: &Atlas) -> Reply {
        let reply = reply::packed(self.plain(visit, atlas).await, &visit.request.headers);
        let reply = if route::is_for_members(visit.request.uri.path()) {
            reply::closed_again(reply)
        } else {
            reply::opened(reply)
        };
        self.note(visit, reply)
    }

    /// What was asked so far.
    #[must_use]
    pub fn visits(&self) -> &Arc<PageVisits> {
        &self.visits
    }

    fn note(&self, visit: &Visit, reply: Reply) -> Reply {
        self.visits.note(reply.status(), visit.request.version, visit.stopwatch.elapsed_ns());
        reply
    }

    async fn plain(&self, visit: &Visit, atlas: &Atlas) -> Reply {
        let (links, asked) = (&self.office.links, &visit.request);
        let Some(route) = route::find(asked.uri.path()) else {
            return reply::not_found(links, &asked.headers);
        };
        let manner = route.manner();
        if !manner.allows(&asked.method) {
            return reply::method_not_allowed(links, &asked.headers, manner.methods());
        }
        if let Route::Public(page) = route {
            return self.public(page, visit, atlas);
        }
        let guarded = match self.guarded(route, visit).await {
            Err(Trouble::Busy(_)) => busy(links),
            // Who reads changes of keys tells of it in the log, once.
            Err(Trouble::Store(error)) if error.out_of_reach() => records_are_away(links),
            guarded => guarded,
        };
        guarded.unwrap_or_else(|trouble| {
            tracing::error!(error = %trouble, "a page could not be made");
            reply::broken(links)
        })
    }

    /// What the doctor tells about one request. Whoever may not see it gets what [`answer`](Self::answer) says.
    #[must_use]
    pub fn examine(&self, visit: &Visit, examination: &Examination<'_>) -> Reply {
        self.note(visit, doctor::answer(&self.office.links, visit, examination))
    }

    /// Writes to the owners of keys what they want to know. To be called every few seconds.
    pub async fn tell_owners(&self, now: Now) -> Result<(), ipse_store::Error> {
        mail::tell_owners(&self.office, now).await
    }

    /// Lets go of sessions and links that have ended. To be called now and then.
    pub async fn sweep(&self, now: Now) -> Result<(), ipse_store::Error> {
        let (seen_after, created_after) = session::ended_before(now);
        self.office.records.sweep(seen_after, created_after, now).await
    }

    fn public(&self, page: Public, visit: &Visit, atlas: &Atlas) -> Reply {
        let (links, asked) = (&self.office.links, &visit.request);
        match page {
            Public::Home => home::answer(links, visit, atlas),
            Public::OwnAddress => home::own_address(visit),
            Public::Docs => self.docs.answer(&asked.headers),
            Public::Enterprise => self.enterprise.answer(&asked.headers),
            Public::Privacy => self.privacy.answer(&asked.headers),
            Public::Terms => self.terms.answer(&asked.headers),
            Public::File => match assets::find(asked.uri.path()) {
                Some(asset) => asset.answer(asked.uri.query(), &asked.headers),
                None => reply::not_found(links, &asked.headers),
            },
        }
    }

    /// Pages that belong to somebody, or may come to.
    async fn guarded(&self, route: Route<'_>, visit: &Visit) -> Result<Reply, Trouble> {
        let (office, headers) = (&self.office, &visit.request.headers);
        if visit.request.method != Method::POST {
            let visitor = session::identify(office, visit).await?;
            return match route.manner() {
                Manner::Write => Ok(reply::see_other(&route.page(), &[])),
                Manner::Read | Manner::Both => self.shown(route, visit, visitor).await,
            };
        }
        if !origin::is_ours(headers, &office.links) {
            return unread(&office.links, Unread::Foreign);
        }
        let is_form = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
            let kind = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            kind.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
        });
        let sent = match visit.body.read(form::MAX_BYTES).await {
            Ok(body) if is_form => Form::read(&body),
            Ok(_) | Err(BodyFault::Broken | BodyFault::TooSlow) => {
                return unread(&office.links, Unread::Unreadable);
            }
            Err(BodyFault::TooLarge) => return unread(&office.links, Unread::TooLarge),
        };
        let visitor = session::identify(office, visit).await?;
        if !session::is_same(sent.text("csrf"), visitor.csrf()) {
            return unread(&office.links, Unread::Stale);
        }
        let reply = self.sent(route, visit, visitor, &sent).await?;
        if route.changes_keys() {
            // What was changed here is so at once, and not only when the table is read the next time. If that fails, it
            // is then, and the failure told there.
            let _ = office.keys.refresh(visit.now).await;
        }
        Ok(reply)
    }

    /// Pages that are looked at.
    async fn shown(&self, route: Route<'_>, visit: &Visit, visitor: Visitor) -> Result<Reply, Trouble> {
        let office = &self.office;
        match (route, visitor) {
            (Route::SignUp | Route::SignIn | Route::Code, Visitor::Member(_)) => {
                Ok(reply::see_other("/dashboard", &[]))
            }
            (Route::Code, Visitor::Halfway(halfway)) => sign_in::show_code(office, visit, &halfway),
            (Route::Code, Visitor::Guest(_)) => Ok(reply::see_other("/signin", &[])),
            (Route::SignUp, visitor) => sign_up::show(office, &visitor.into()),
            (Route::SignIn, visitor) => sign_in::show(office, visit, &visitor.into()),
            (Route::Reset, visitor) => reset::show(office, &visitor.into()),
            (Route::ResetLink(token), visitor) => {
                reset::show_new(office, visit, &visitor.into(), token).await
            }
            (Route::SignUpLink(token), visitor) => {
                sign_up::show_verify(office, visit, &visitor.into(), token).await
            }
            (route, Visitor::Member(member)) => self.shown_to_member(route, visit, &member).await,
            (_, Visitor::Halfway(_) | Visitor::Guest(_)) => Ok(to_sign_in(visit)),
        }
    }

    async fn shown_to_member(
        &self,
        route: Route<'_>,
        visit: &Visit,
        member: &Member,
    ) -> Result<Reply, Trouble> {
        let office = &self.office;
        match route {
            Route::Keys => keys::list(office, visit, member).await,
            Route::Key(id) => key_page::show(office, visit, member, id).await,
            Route::KeyCsv(id) => key_page::csv(office, visit, member, id).await,
            Route::Account => settings::show(office, visit, member).await,
            Route::Activity => activity::show(office, visit, member).await,
            Route::Export => export::download(office, visit, member).await,
            Route::Totp => totp::show(office, member).await,
            Route::EmailLink(token) => email::show_confirm(office, visit, member, token).await,
            _ => Ok(reply::not_found(&office.links, &visit.request.headers)),
        }
    }

    /// Forms that were sent.
    async fn sent(
        &self,
        route: Route<'_>,
        visit: &Visit,
        visitor: Visitor,
        sent: &Form,
    ) -> Result<Reply, Trouble> {
        let office = &self.office;
        match (route, visitor) {
            (Route::SignUp | Route::SignIn | Route::Code, Visitor::Member(_)) => {
                Ok(reply::see_other("/dashboard", &[]))
            }
            (Route::Code, Visitor::Halfway(halfway)) => {
                sign_in::send_code(office, visit, &halfway, sent).await
            }
            (Route::Code, Visitor::Guest(_)) => Ok(reply::see_other("/signin", &[])),
            (Route::SignUp, visitor) => sign_up::send(office, visit, &visitor.into(), sent).await,
            (Route::SignIn, visitor) => sign_in::send(office, visit, &visitor.into(), sent).await,
            (Route::Reset, visitor) => reset::send(office, visit, &visitor.into(), sent),
            (Route::ResetLink(token), visitor) => {
                reset::send_new(office, visit, &visitor.into(), token, sent).await
            }
            (Route::SignUpLink(token), visitor) => {
                sign_up::verify(office, visit, &visitor.into(), token, sent).await
            }
            (route, Visitor::Member(member)) => self.sent_by_member(route, visit, &member, sent).await,
            (Route::SignOut, Visitor::Halfway(halfway)) => sign_in::give_up(office, &halfway).await,
            (_, Visitor::Halfway(_) | Visitor::Guest(_)) => Ok(reply::see_other("/signin", &[])),
        }
    }

    async fn sent_by_member(
        &self,
        route: Route<'_>,
        visit: &Visit,
        member: &Member,
        sent: &Form,
    ) -> Result<Reply, Trouble> {
        let office = &self.office;
        match route {
            Route::SignOut => sign_in::sign_out(office, visit, member).await,
            Route::CreateKey => keys::create(office, visit, member, sent).await,
            Route::Rename(id) => key_page::rename(office, visit, member, id, sent).await,
            Route::SetScope(id) => key_page::set_scope(office, visit, member, id, sent).await,
            Route::Deactivate(id) => key_page::deactivate(office, visit, member, id).await,
            Route::Reactivate(id) => key_page::reactivate(office, visit, member, id).await,
            Route::Resume(id) => key_page::resume(office, visit, member, id).await,
            Route::Roll(id) => key_page::roll(office, visit, member, id, sent).await,
            Route::DeleteKey(id) => key_page::delete(office, visit, member, id, sent).await,
            Route::SetPassword => settings::send_password(office, visit, member, sent).await,
            Route::SetEmail => email::send(office, visit, member, sent).await,
            Route::EmailLink(token) => email::confirm(office, visit, member, token).await,
            Route::SetNotices => settings::send_notices(office, visit, member, sent).await,
            Route::EndSessions => settings::end_sessions(office, visit, member).await,
            Route::EndSession(id) => {
                let ended = settings::end_session(office, visit, member, id).await?;
                Ok(ended.unwrap_or_else(|| reply::not_found(&office.links, &visit.request.headers)))
            }
            Route::Totp => totp::turn_on(office, visit, member, sent).await,
            Route::TotpOff => totp::turn_off(office, visit, member, sent).await,
            Route::NewCodes => totp::new_codes(office, visit, member, sent).await,
            Route::DeleteAccount => settings::delete(office, visit, member, sent).await,
            _ => Ok(reply::not_found(&office.links, &visit.request.headers)),
        }
    }
}

/// Forms that anybody may send are tied to the visitor's session, if there is one.
impl From<Visitor> for Guest {
    fn from(visitor: Visitor) -> Self {
        match visitor {
            Visitor::Guest(guest) => guest,
            Visitor::Halfway(halfway) => Self { csrf: halfway.csrf, cookie: None },
            Visitor::Member(member) => Self { csrf: member.csrf, cookie: None },
        }
    }
}

/// Signing in leads back to where somebody wanted to go.
fn to_sign_in(visit: &Visit) -> Reply {
    let uri = &visit.request.uri;
    if uri.query().is_some_and(|query| query.split('&').any(|part| part == "signed-in")) {
        return reply::see_other("/signin?no-cookie", &[]);
    }
    let next = sign_in::allowed(uri.path());
    let query =
        if next == "/dashboard" { String::new() } else { format!("?next={}", sign_in::encoded(next)) };
    reply::see_other(&format!("/signin{query}"), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;
    use crate::packing::tests::unpacked;
    use bytes::Bytes;
    use http::{HeaderMap, Request, StatusCode};
    use ipse_edge::{Connection, RequestBody, Stopwatch};
    use ipse_model::{Address, Client, Degrees, HttpVersion, Network, Now, Place};
    use ipse_store::{DataFolder, Ledger};
    use std::net::IpAddr;
    use std::sync::LazyLock;
    use tokio::runtime::Runtime;

    const NOW: Now = Now { unix_ms: 1_784_116_800_000, boot_ms: 0 };
    const PAGES: [&str; 5] = ["/", "/docs", "/enterprise", "/privacy", "/terms"];
    /// Pages with forms, which nobody but their visitor reads.
    const FORMS: [&str; 3] = ["/signup", "/signin", "/reset"];
    const ASSETS: [&str; 6] = [
        "/assets/style.css",
        "/assets/copy.js",
        "/assets/home.js",
        "/assets/docs.js",
        "/favicon.svg",
        "/robots.txt",
    ];
    const PUBLIC_ADDRESS: &str = "81.2.69.142";

    /// One site for all tests. Whoever has no session never asks the records, so their folder is not needed for long.
    static SITE: LazyLock<(Runtime, Site<Ledger>)> = LazyLock::new(|| {
        let (runtime, dir) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        let site = runtime.block_on(async {
            let folder = DataFolder::create(dir.path()).unwrap();
            let records = Records::open(&folder).await.unwrap();
            let counters = Ledger::open(&folder, &records, None, NOW).await.unwrap();
            let keys = Arc::new(KeyTable::load(&records).await.unwrap());
            Site::open(SitePlan {
                links: links(),
                operator: Operator::default(),
                records,
                counters,
                keys,
                mail: None,
                sign_up_is_open: true,
                stand_back: || (),
            })
        });
        (runtime, site.unwrap())
    });

    struct Answered {
        status: StatusCode,
        headers: HeaderMap,
        body: String,
    }

    impl Answered {
        #[track_caller]
        fn header(&self, name: &str) -> &str {
            self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
        }
    }

    fn ask(method: &str, path: &str, accept: &str, ip: &str, atlas: &Atlas) -> Answered {
        let (status, headers, body) = ask_with(method, path, &[("accept", accept)], ip, atlas);
        Answered { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    fn ask_with(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        ip: &str,
        atlas: &Atlas,
    ) -> (StatusCode, HeaderMap, Bytes) {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).unwrap();
        let client = Client {
            address: Address::new(ip.parse().unwrap()),
            http: Some(HttpVersion::Http11),
            tls_version: None,
            tls_cipher: None,
            rtt_ms: None,
            colo: None,
        };
        let now = NOW;
        let connection = Connection::imagined(client.address.ip());
        let visit = Visit {
            client,
            now,
            stopwatch: Stopwatch::begun(),
            request: request.into_parts().0,
            body: RequestBody::empty(),
            connection,
        };
        let (runtime, site) = &*SITE;
        let (head, body) = ipse_edge::whole(runtime.block_on(site.answer(&visit, atlas)));
        (head.status, head.headers, body)
    }

    /// The addresses that the tests know something about.
    fn addresses() -> [IpAddr; 2] {
        [PUBLIC_ADDRESS, "2001:4860:4860::8888"].map(|ip| ip.parse().unwrap())
    }

    fn get(path: &str) -> Answered {
        ask("GET", path, "text/html", PUBLIC_ADDRESS, &Atlas::empty())
    }

    /// The values of an attribute, such as `href`.
    fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        let begin = format!(" {name}=\"");
        html.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
    }

    #[test]
    fn every_reply_carries_the_headers_that_protect_it() {
        #[track_caller]
        fn check(method: &str, path: &str, status: u16, content_type: &str, cache_control: &str) {
            for accept in ["text/html", "*/*"] {
                let answered = ask(method, path, accept, PUBLIC_ADDRESS, &Atlas::empty());
                assert_eq!(answered.status, status, "{path}");
                let is_refused_program = status >= 400 && accept == "*/*";
                let content_type = if is_refused_program { "application/json" } else { content_type };
                assert_eq!(answered.header("content-type"), content_type, "{path}");
                assert_eq!(answered.header("cache-control"), cache_control, "{path}");
                assert_eq!(answered.header("access-control-allow-origin"), "*");
                assert_eq!(answered.header("referrer-policy"), "no-referrer");
                assert_eq!(answered.header("vary"), "accept-encoding", "{path}");
                assert_eq!(
                    answered.header("content-security-policy"),
                    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                     form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
                );
            }
        }
        const HTML: &str = "text/html; charset=utf-8";
        for method in ["GET", "HEAD"] {
            check(method, "/", 200, HTML, "no-store");
            check(method, "/?utm=1", 200, HTML, "no-store");
            check(method, "/own-address", 200, "text/plain; charset=utf-8", "no-store");
            check(method, "/docs", 200, HTML, "no-cache");
            check(method, "/enterprise", 200, HTML, "no-cache");
            check(method, "/privacy", 200, HTML, "no-cache");
            check(method, "/terms", 200, HTML, "no-cache");
            check(method, "/assets/copy.js", 200, "text/javascript; charset=utf-8", "public, max-age=3600");
            check(method, "/assets/docs.js", 200, "text/javascript; charset=utf-8", "public, max-age=3600");
            check(method, "/assets/style.css", 200, "text/css; charset=utf-8", "public, max-age=3600");
            check(method, "/favicon.svg", 200, "image/svg+xml", "public, max-age=3600");
            check(method, "/robots.txt", 200, "text/plain; charset=utf-8", "public, max-age=3600");
        }
        for method in ["GET", "POST", "OPTIONS"] {
            check(method, "/nothing", 404, HTML, "no-store");
            check(method, "/docs/", 404, HTML, "no-store");
        }
        check("POST", "/", 405, HTML, "no-store");
        check("DELETE", "/assets/style.css", 405, HTML, "no-store");
    }

    #[test]
    fn pages_and_files_are_packed_for_who_can_unpack_them() {
        for path in PAGES.into_iter().chain(["/assets/style.css", "/nothing"]) {
            let ask = |encoding| {
                let headers = [("accept", "text/html"), ("accept-encoding", encoding)];
                ask_with("GET", path, &headers, PUBLIC_ADDRESS, &Atlas::empty())
            };
            let (_, headers, plain) = ask("identity");
            assert_eq!(headers.get("content-encoding"), None, "{path}");
            let (_, headers, packed) = ask("gzip, deflate, br");
            assert_eq!(headers["content-encoding"], "gzip", "{path}");
            assert!(packed.len() * 2 < plain.len(), "{path}: {} of {}", packed.len(), plain.len());
            assert_eq!(unpacked(&packed).as_bytes(), plain, "{path}");
        }
    }

    #[test]
    fn what_a_browser_has_already_is_not_sent_again() {
        for path in ["/docs", "/enterprise"].into_iter().chain(ASSETS) {
            let first = get(path);
            let tag = first.header("etag");
            let headers = [("if-none-match", tag)];
            let (status, again, body) = ask_with("GET", path, &headers, PUBLIC_ADDRESS, &Atlas::empty());
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
            for name in ["etag", "cache-control", "vary", "access-control-allow-origin"] {
                assert_eq!(again[name], first.header(name), "{path}: {name}");
            }
        }
        assert_eq!(get("/").headers.get("etag"), None, "the front page is another for each visitor");
    }

    #[test]
    fn programs_are_refused_in_json() {
        #[track_caller]
        fn check(method: &str, path: &str, code: &str) {
            let answered = ask(method, path, "*/*", PUBLIC_ADDRESS, &Atlas::empty());
            let body: serde_json::Value = serde_json::from_str(&answered.body).unwrap();
            let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["error", "message", "docs"]);
            assert_eq!(body["error"], code);
            assert_eq!(body["docs"], format!("https://ip.example/docs#{code}"));
        }
        check("GET", "/nothing", "not_found");
        check("PUT", "/docs", "method_not_allowed");
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        for accept in ["text/html", "*/*"] {
            let answered = ask("POST", "/docs", accept, PUBLIC_ADDRESS, &Atlas::empty());
            assert_eq!(answered.header("allow"), "GET, HEAD");
        }
    }

    #[test]
    fn every_page_is_whole_and_says_what_it_is() {
        for path in PAGES.into_iter().chain(FORMS).chain(["/nothing"]) {
            let html = get(path).body;
            for part in ["<!doctype html>", "<html lang=\"en\">", "<main ", "href=\"#content\"", "</html>"] {
                assert!(html.contains(part), "{path}: {part}");
            }
            let title = html.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
            assert!(title.ends_with(" · ipse") && title.len() > " · ipse".len(), "{path}: {title}");
            assert_eq!(html.matches("<h1").count(), 1, "{path}");
            assert_eq!(html.matches("<table").count(), html.matches("<caption").count(), "{path}");
            assert!(!attributes(&html, "content").iter().any(|content| content.is_empty()), "{path}");
        }
    }

    #[test]
    fn pages_hold_no_script_and_no_style_of_their_own() {
        for path in PAGES {
            let html = get(path).body;
            for part in ["<style", " style=", " onclick=", "javascript:", "<iframe"] {
                assert!(!html.contains(part), "{path}: {part}");
            }
            for script in html.split("<script ").skip(1) {
                let (attributes, rest) = script.split_once('>').unwrap();
                assert!(attributes.starts_with("src=\"/assets/") && attributes.ends_with(" defer"), "{path}");
                assert!(rest.starts_with("</script>"), "{path}");
            }
            // But for the examples, which are text.
            assert!(!html.contains("<script>"), "{path}");
        }
    }

    #[test]
    fn the_form_that_takes_a_key_cannot_put_it_into_an_address() {
        let html = get("/docs").body;
        let form = html.split("<form ").nth(1).unwrap().split("</form>").next().unwrap();
        let (attributes, fields) = form.split_once('>').unwrap();
        assert!(attributes.contains(" hidden"), "without a script nothing could be done with it");
        assert!(
            !attributes.contains("action=") && !fields.contains(" name=") && !fields.contains("formaction")
        );
        assert!(fields.contains("id=\"try-key\" type=\"text\" autocomplete=\"off\""));
        let without_script = html.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
        assert!(without_script.contains("curl -i -H"));
    }

    #[test]
    fn every_page_that_stays_the_same_names_its_own_address() {
        for path in ["/docs", "/enterprise", "/privacy", "/terms"] {
            let canonical = format!("<link rel=\"canonical\" href=\"https://ip.example{path}\">");
            assert!(get(path).body.contains(&canonical), "{path}");
        }
    }

    #[test]
    fn headings_go_down_step_by_step() {
        for path in PAGES.into_iter().chain(["/nothing"]) {
            let html = get(path).body;
            let mut level = 0;
            for heading in html.split("<h").skip(1) {
                let Some(next) = heading.chars().next().and_then(|digit| digit.to_digit(10)) else {
                    continue;
                };
                // The list of contents stands beside the title, and before it in the text.
                assert!(level == 0 || next <= level + 1, "{path}: from {level} to {next}");
                level = next;
            }
        }
    }

    #[test]
    fn every_link_leads_somewhere_on_this_server() {
        for path in PAGES.into_iter().chain(["/nothing"]) {
            let html = get(path).body;
            let links = ["href", "src"].into_iter().flat_map(|name| attributes(&html, name));
            for link in links {
                let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target = if target.is_empty() { path } else { target };
                let target = target.strip_prefix("https://ip.example").unwrap_or(target);
                // Files are linked by names that change with them.
                let target = target.split_once("?v=").map_or(target, |(file, fingerprint)| {
                    assert!(get(file).header("etag").contains(fingerprint), "{path} links to {link}");
                    file
                });
                assert!(target.starts_with('/'), "{path} links to {link}");
                assert!(
                    PAGES.contains(&target)
                        || FORMS.contains(&target)
                        || target == "/dashboard"
                        || ASSETS.contains(&target)
                        || ["/openapi.json", "/nothing", "/dashboard"].contains(&target),
                    "{path} links to {link}"
                );
                if !fragment.is_empty() {
                    let there = get(target).body;
                    assert!(attributes(&there, "id").contains(&fragment), "{path} links to {link}");
                }
            }
        }
    }

    #[test]
    fn ids_are_unique_and_labels_point_to_them() {
        for path in PAGES {
            let html = get(path).body;
            let mut ids = attributes(&html, "id");
            let describing = attributes(&html, "aria-describedby");
            for label in attributes(&html, "aria-labelledby").into_iter().chain(describing) {
                assert!(ids.contains(&label), "{path}: {label}");
            }
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "{path}");
        }
    }

    #[test]
    fn every_error_has_its_anchor() {
        let html = get("/docs").body;
        let ids = attributes(&html, "id");
        for id in [
            "missing_api_key",
            "invalid_api_key",
            "inactive_api_key",
            "daily_quota",
            "burst_limit",
            "paused_key",
            "demo_quota",
            "internal_error",
            "not_found",
            "method_not_allowed",
            "bad_request",
            "header_too_large",
        ] {
            assert!(ids.contains(&id), "{id}");
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let hostile = "<script>alert('x')</script>\"&</dd>";
        let place = Place {
            city: Some(hostile.into()),
            region: Some(hostile.into()),
            country_name: Some(hostile.into()),
            continent: Some(hostile.into()),
            postal_code: Some(hostile.into()),
            currency: Some(hostile.into()),
            position: Degrees::latitude(1.0).zip(Degrees::longitude(1.0)),
            ..Place::default()
        };
        let network = Network { asn: Some(64_496), org: Some(hostile.into()), ..Network::default() };
        let atlas = Atlas::of(&addresses(), Some(&place), Some(&network));
        let html = ask("GET", "/", "text/html", PUBLIC_ADDRESS, &atlas).body;
        assert!(!html.contains("<script>") && !html.contains("'x'"));
        // Seven facts, in the JSON the same and the formatted `as`; the place in words, and the map's.
        assert_eq!(html.matches("&#60;script&#62;").count(), 7 + 8 + 2);
    }

    #[test]
    fn the_front_page_shows_the_visitor() {
        #[track_caller]
        fn check(ip: &str, atlas: &Atlas, shown: &[&str]) {
            let html = ask("GET", "/", "text/html", ip, atlas).body;
            for part in shown {
                assert!(html.contains(part), "{part}");
            }
        }
        let position = Degrees::latitude(51.5142).zip(Degrees::longitude(-0.0931));
        let place = Place { city: Some("London".into()), position, ..Place::default() };
        let atlas = Atlas::of(&addresses(), Some(&place), None);
        let map = ["aria-label=\"Map: London\"", "<path class=\"marker marker-dot\" d=\"M999.6 130.1h0\"/>"];
        check(PUBLIC_ADDRESS, &atlas, &["81.2.69.142</p>", "<p class=\"place\">London</p>", map[0], map[1]]);
        check(PUBLIC_ADDRESS, &atlas, &["<dd>London</dd>", "<dd class=\"unknown\">unknown</dd>"]);
        check("2001:4860:4860::8888", &atlas, &["2001:4860:4860::8888</p>", "<dd>HTTP/1.1</dd>"]);
        let no_marker = "aria-label=\"World map, without a marker\"";
        check(PUBLIC_ADDRESS, &Atlas::empty(), &["has no record of it", no_marker]);
        check("10.0.0.1", &Atlas::empty(), &["10.0.0.1</p>", "private or reserved", no_marker]);
        check(
            "127.0.0.1",
            &Atlas::empty(),
            &[
                "very machine",
                "ipse key create --account you@example.com",
                "https://ip.example<wbr>/api/v1/ip",
            ],
        );
    }

    #[test]
    fn every_fact_is_explained_by_the_words_of_the_documentation() {
        let html = get("/").body;
        for (id, explanation) in [
            ("about-ip", "<code>ip</code> The IPv4 address; null if you came over IPv6."),
            (
                "about-region",
                "<code>region_code</code> The region’s whole ISO 3166-2 code, such as <code>US-CA</code>.",
            ),
            ("about-rtt", "<code>rtt</code> Round-trip time to the server in milliseconds"),
        ] {
            let (_, behind) = html.split_once(&format!(" role=\"tooltip\" id=\"{id}\">")).unwrap();
            assert!(behind.split("</span></span>").next().unwrap().contains(explanation), "{id}");
        }
        assert_eq!(html.matches("class=\"term\"").count(), html.matches("role=\"tooltip\"").count());
    }

    #[test]
    fn a_visitor_is_told_their_own_address_alone() {
        for ip in [PUBLIC_ADDRESS, "2001:4860:4860::8888", "127.0.0.1"] {
            assert_eq!(ask("GET", "/own-address", "*/*", ip, &Atlas::empty()).body, ip);
        }
        assert_eq!(ask("POST", "/own-address", "*/*", PUBLIC_ADDRESS, &Atlas::empty()).status, 405);
    }
}
