//! The only place of this crate that knows headers: every reply leaves through one of these functions.
//!
//! There are two kinds. What is the same for everybody is open to every origin, and may be packed. A page with a form, or
//! for one person, is neither: no other origin reads it, nobody keeps it, and it is not packed, because the size of what is
//! packed tells whoever sees it pass what stands in it.

use crate::errors::{INTERNAL_ERROR, METHOD_NOT_ALLOWED, NOT_FOUND, Section};
use crate::office::Trouble;
use crate::packing::{Effort, gzip, takes_gzip};
use crate::page::{Here, Page};
use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use ipse_edge::Reply;
use ipse_model::Links;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// How long a reply may be kept.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    /// It is for one person, or is an error: never.
    Never,
    /// It changes only with the program, but a new program must show at once.
    Checked,
    /// An hour of an old stylesheet hurts nobody.
    AnHour,
    /// Whatever changes has another name.
    Forever,
}

/// Nothing but our own style, scripts and pictures is ever loaded, nothing is sent anywhere but to us, and nobody frames
/// us.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; \
                                       connect-src 'self'; form-action 'self'; base-uri 'none'; \
                                       frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const CSV: &str = "text/csv; charset=utf-8";
const BROKEN: &str = "Something broke on our side. Nothing is lost; try again in a moment.";

/// A page that everybody may see.
pub(crate) fn page(links: &Links, keep: Keep, template: &impl Template) -> Reply {
    match template.render() {
        Ok(html) => {
            let mut reply = open(StatusCode::OK, HTML, keep, html);
            reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy(links));
            reply
        }
        Err(_) => json(links, &INTERNAL_ERROR),
    }
}

/// How a page is answered that belongs to one visitor, or may come to.
#[derive(Clone)]
pub(crate) struct Private {
    status: StatusCode,
    cookies: Vec<HeaderValue>,
    retry_after: Option<u64>,
}

impl Private {
    pub(crate) const OK: Self = Self::new(StatusCode::OK);
    /// What was typed is not taken.
    pub(crate) const UNFIT: Self = Self::new(StatusCode::UNPROCESSABLE_ENTITY);
    pub(crate) const BAD: Self = Self::new(StatusCode::BAD_REQUEST);
    pub(crate) const FORBIDDEN: Self = Self::new(StatusCode::FORBIDDEN);
    /// A link that has ended.
    pub(crate) const GONE: Self = Self::new(StatusCode::GONE);
    pub(crate) const TOO_LARGE: Self = Self::new(StatusCode::PAYLOAD_TOO_LARGE);
    /// There is more to do than can be done at once.
    pub(crate) const BUSY: Self = Self::later(StatusCode::SERVICE_UNAVAILABLE, Some(5));

    const fn new(status: StatusCode) -> Self {
        Self::later(status, None)
    }

    const fn later(status: StatusCode, retry_after: Option<u64>) -> Self {
        Self { status, cookies: Vec::new(), retry_after }
    }

    /// It was tried too often: in so many seconds it is looked at again.
    pub(crate) fn wait(seconds: u64) -> Self {
        Self::later(StatusCode::TOO_MANY_REQUESTS, Some(seconds))
    }

    pub(crate) fn with_cookies<'a>(mut self, cookies: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        self.cookies.extend(cookies.into_iter().cloned());
        self
    }
}

/// A page with a form, or for one person.
pub(crate) fn private(private: Private, template: &impl Template) -> Result<Reply, Trouble> {
    let Private { status, cookies, retry_after } = private;
    let mut reply = with_cookies(closed(status, HTML, template.render()?), &cookies);
    if let Some(seconds) = retry_after {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    Ok(reply)
}

/// A text for one pair of eyes, of whatever status.
pub(crate) fn private_text(status: StatusCode, text: String) -> Reply {
    closed(status, TEXT, text)
}

/// What was asked for is done; the browser goes on to this page of ours.
pub(crate) fn see_other(path: &str, cookies: &[HeaderValue]) -> Reply {
    let mut reply = closed(StatusCode::SEE_OTHER, TEXT, Bytes::new());
    reply.headers_mut().remove(header::CONTENT_TYPE);
    // To a path and never to a host. Browsers read a backslash as a slash, and overlook a tab.
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_ours = path.starts_with('/') && !path.starts_with("//") && is_plain;
    let location = HeaderValue::try_from(path).ok().filter(|_| is_ours);
    reply.headers_mut().insert(header::LOCATION, location.unwrap_or(HeaderValue::from_static("/")));
    with_cookies(reply, cookies)
}

/// What a download holds.
#[derive(Clone, Copy)]
pub(crate) enum Download {
    Csv,
    Json,
}

/// A file for one person, which the browser saves under this name.
pub(crate) fn download(download: Download, name: &str, body: impl Into<Bytes>) -> Reply {
    let content_type = match download {
        Download::Csv => CSV,
        Download::Json => JSON,
    };
    let mut reply = closed(StatusCode::OK, content_type, body);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let name: String = name.chars().map(|c| Some(c).filter(is_plain).unwrap_or('-')).collect();
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    reply.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    reply
}

/// Something of ours is broken.
pub(crate) fn broken(links: &Links) -> Reply {
    let page = Page::public(links, Here::Elsewhere, "That did not work", BROKEN);
    let refused = Refused { page, problem: &INTERNAL_ERROR };
    refused
        .render()
        .map_or_else(|_| json(links, &INTERNAL_ERROR), |html| closed(INTERNAL_ERROR.status, HTML, html))
}

/// The same for whoever reads in a terminal.
pub(crate) fn text(keep: Keep, text: String) -> Reply {
    open(StatusCode::OK, TEXT, keep, text)
}

/// A file that is part of the program.
pub(crate) fn asset(content_type: &'static str, content: &'static str) -> Reply {
    open(StatusCode::OK, content_type, Keep::AnHour, content)
}

/// There is nothing at this path.
pub(crate) fn not_found(links: &Links, asked: &HeaderMap) -> Reply {
    refusal(links, asked, &NOT_FOUND, "Nothing here", "There is no page at this address.")
}

/// There is something at this path, but only for these methods.
pub(crate) fn method_not_allowed(links: &Links, asked: &HeaderMap, allow: &'static str) -> Reply {
    let mut reply = refusal(
        links,
        asked,
        &METHOD_NOT_ALLOWED,
        "Not in this way",
        "There is something at this address, but not for this kind of request.",
    );
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    reply
}

/// A reply in fewer bytes, if it is open to everybody and whoever asks can unpack it. The last step of every answer that is
/// made for one request.
pub(crate) fn packed(reply: Reply, asked: &HeaderMap) -> Reply {
    let is_open = reply.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    // What varies already was made by `Fixed`, which packs by itself.
    if !is_open || reply.headers().contains_key(header::VARY) {
        return reply;
    }
    let (mut head, plain) = ipse_edge::whole(reply);
    head.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let gzip = if takes_gzip(asked) { gzip(&plain, Effort::Quick) } else { None };
    if gzip.is_some() {
        head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Response::from_parts(head, Full::new(gzip.unwrap_or(plain)))
}

/// A reply that pages of every origin may read, as everything may outside the members' own pages. Browsers send no cookie
/// for those that do, so all they see is what a stranger would.
pub(crate) fn opened(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    reply
}

/// A reply that no page of another origin may read, whatever it says: that there is nothing, too, is the member's own.
pub(crate) fn closed_again(mut reply: Reply) -> Reply {
    reply.headers_mut().remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    reply
}

/// A reply that is the same for everybody, made and packed once: however many ask at once, there is one copy in memory.
/// Whoever has it already is only told so.
#[derive(Debug)]
pub(crate) struct Fixed {
    status: StatusCode,
    headers: HeaderMap,
    plain: Bytes,
    /// Made for the first who can unpack it.
    packed: OnceLock<Option<Bytes>>,
    fingerprint: String,
}

impl Fixed {
    /// How much of the content's hash its name holds.
    const FINGERPRINT_BYTES: usize = 6;

    pub(crate) fn new(reply: Reply) -> Self {
        let (head, plain) = ipse_edge::whole(reply);
        let hash = Sha256::digest(&plain);
        let fingerprint: String =
            hash.iter().take(Self::FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect();
        let mut headers = head.headers;
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        // Weak, because packed or not it means the same.
        if let Ok(tag) = HeaderValue::try_from(format!("W/\"{fingerprint}\"")) {
            headers.insert(header::ETAG, tag);
        }
        Self { status: head.status, headers, plain, packed: OnceLock::new(), fingerprint }
    }

    /// The first digits of the content's hash.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The reply to a request with these headers.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Reply {
        let mut reply = Reply::default();
        *reply.status_mut() = self.status;
        *reply.headers_mut() = self.headers.clone();
        let tags = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_this = |tag: &str| {
            let tag = tag.trim();
            tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == self.fingerprint
        };
        if self.status == StatusCode::OK && tags.flat_map(|value| value.split(',')).any(is_this) {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
            reply.headers_mut().remove(header::CONTENT_TYPE);
            return reply;
        }
        let packed = if takes_gzip(asked) { self.packed() } else { None };
        if packed.is_some() {
            reply.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        reply.map(|_| Full::new(packed.unwrap_or(&self.plain).clone()))
    }

    fn packed(&self) -> Option<&Bytes> {
        self.packed.get_or_init(|| gzip(&self.plain, Effort::Thorough)).as_ref()
    }

    /// The same, to be kept for another time than it was made for.
    pub(crate) fn kept(&self, keep: Keep, asked: &HeaderMap) -> Reply {
        let mut reply = self.answer(asked);
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(keep.cache_control()));
        reply
    }
}

impl Keep {
    fn cache_control(self) -> &'static str {
        match self {
            Self::Never => "no-store",
            Self::Checked => "no-cache",
            Self::AnHour => "public, max-age=3600",
            Self::Forever => "public, max-age=31536000, immutable",
        }
    }
}

#[derive(Template)]
#[template(path = "refused.html")]
struct Refused<'a> {
    page: Page<'a>,
    problem: &'a Section,
}

/// People get a page, programs get the same body as from the API.
fn refusal(
    links: &Links,
    asked: &HeaderMap,
    problem: &Section,
    title: &'static str,
    description: &'static str,
) -> Reply {
    if !names_html(asked) {
        return json(links, problem);
    }
    let page = Page::public(links, Here::Elsewhere, title, description);
    match (Refused { page, problem }).render() {
        Ok(html) => open(problem.status, HTML, Keep::Never, html),
        Err(_) => json(links, &INTERNAL_ERROR),
    }
}

fn json(links: &Links, problem: &Section) -> Reply {
    open(
        problem.status,
        JSON,
        Keep::Never,
        serde_json::to_vec(&problem.problem.body(links)).unwrap_or_default(),
    )
}

/// Whether `Accept` names HTML itself. A wildcard, as command-line tools send it, is no wish for a page.
pub(crate) fn names_html(asked: &HeaderMap) -> bool {
    let values = asked.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let media_type = range.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case("text/html")
    })
}

/// What everybody may read, pages of other origins as well.
fn open(status: StatusCode, content_type: &'static str, keep: Keep, body: impl Into<Bytes>) -> Reply {
    let mut reply = bare(status, content_type, keep, body);
    reply.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    reply
}

/// What is for one person.
fn closed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = bare(status, content_type, Keep::Never, body);
    // No page of another origin loads it, or holds on to the window that shows it.
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static("same-origin"));
    }
    reply
}

fn bare(status: StatusCode, content_type: &'static str, keep: Keep, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let mut set = |name: HeaderName, value| reply.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, content_type);
    set(header::CACHE_CONTROL, keep.cache_control());
    set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    set(header::REFERRER_POLICY, "no-referrer");
    reply
}

fn with_cookies(mut reply: Reply, cookies: &[HeaderValue]) -> Reply {
    for cookie in cookies {
        reply.headers_mut().append(header::SET_COOKIE, cookie.clone());
    }
    reply
}

/// A page may also ask this same server where it is reached over one family of addresses alone.
fn policy(links: &Links) -> HeaderValue {
    const OURS: &str = "connect-src 'self'";
    let families = [&links.ipv4_origin, &links.ipv6_origin];
    let origins: String = families.into_iter().flatten().map(|origin| format!(" {origin}")).collect();
    let policy = CONTENT_SECURITY_POLICY.replace(OURS, &format!("{OURS}{origins}"));
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static(CONTENT_SECURITY_POLICY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;
    use crate::packing::tests::unpacked;

    #[derive(Template)]
    #[template(source = "<p>{{ text }}</p>", ext = "html")]
    struct Paragraph<'a> {
        text: &'a str,
    }

    fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
        reply.headers().get(name).map(|value| value.to_str().unwrap())
    }

    fn asks(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn what_is_for_one_person_is_kept_from_all_others() {
        let cookies = ["a=1", "b=2"].map(HeaderValue::from_static);
        let long = "secret ".repeat(1000);
        for (reply, status) in [
            (private(Private::OK.with_cookies(&cookies), &Paragraph { text: &long }).unwrap(), 200),
            (private(Private::UNFIT.with_cookies(&cookies), &Paragraph { text: &long }).unwrap(), 422),
            (private(Private::BUSY.with_cookies(&cookies), &Paragraph { text: &long }).unwrap(), 503),
            (see_other("/dashboard", &cookies), 303),
            (with_cookies(download(Download::Csv, "usage.csv", long.clone()), &cookies), 200),
            (with_cookies(download(Download::Json, "export.json", long.clone()), &cookies), 200),
            (with_cookies(broken(&links()), &cookies), 500),
        ] {
            // Neither is it packed, however well it could be.
            let reply = packed(reply, &asks(header::ACCEPT_ENCODING, "gzip"));
            assert_eq!(reply.status(), status);
            for (name, value) in [
                ("cache-control", Some("no-store")),
                ("access-control-allow-origin", None),
                ("content-encoding", None),
                ("vary", None),
                ("content-security-policy", Some(CONTENT_SECURITY_POLICY)),
                ("referrer-policy", Some("no-referrer")),
                ("cross-origin-opener-policy", Some("same-origin")),
                ("cross-origin-resource-policy", Some("same-origin")),
            ] {
                assert_eq!(header(&reply, name), value, "{status}: {name}");
            }
            let set: Vec<_> = reply.headers().get_all(header::SET_COOKIE).iter().collect();
            assert_eq!(set, ["a=1", "b=2"], "{status}");
        }
    }

    #[test]
    fn who_has_to_wait_is_told_how_long() {
        let wait = |private| {
            let reply = self::private(private, &Paragraph { text: "wait" }).unwrap();
            (reply.status().as_u16(), header(&reply, "retry-after").map(str::to_owned))
        };
        assert_eq!(wait(Private::wait(42)), (429, Some("42".to_owned())));
        assert_eq!(wait(Private::BUSY), (503, Some("5".to_owned())));
        assert_eq!(wait(Private::OK), (200, None));
    }

    #[test]
    fn nobody_is_led_away_from_here() {
        #[track_caller]
        fn check(path: &str, expected: &str) {
            let reply = see_other(path, &[]);
            assert_eq!(header(&reply, "location"), Some(expected), "{path}");
            assert_eq!(header(&reply, "content-type"), None);
            assert_eq!(ipse_edge::whole(reply).1, "");
        }
        check("/dashboard/keys/17?made=1#new", "/dashboard/keys/17?made=1#new");
        for elsewhere in [
            "",
            "dashboard",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/\t/evil.example",
            "/\r\nx: y",
        ] {
            check(elsewhere, "/");
        }
    }

    #[test]
    fn a_download_has_a_name_that_no_header_can_be_hidden_in() {
        #[track_caller]
        fn check(download: Download, name: &str, content_type: &str, disposition: &str) {
            let reply = super::download(download, name, "a,b\n");
            assert_eq!(header(&reply, "content-type"), Some(content_type));
            assert_eq!(header(&reply, "content-disposition"), Some(disposition));
        }
        let csv = "text/csv; charset=utf-8";
        check(Download::Csv, "ipse-17.csv", csv, "attachment; filename=\"ipse-17.csv\"");
        check(Download::Csv, "ü\"; x=\r\n/..", csv, "attachment; filename=\"----x----..\"");
        check(Download::Json, "ipse.json", "application/json", "attachment; filename=\"ipse.json\"");
    }

    #[test]
    fn what_is_open_is_packed_for_who_can_unpack_it() {
        let long = "open ".repeat(1000);
        let made = || page(&links(), Keep::Never, &Paragraph { text: &long });
        let plain = packed(made(), &HeaderMap::new());
        assert_eq!(header(&plain, "content-encoding"), None);
        assert_eq!(header(&plain, "vary"), Some("accept-encoding"));
        let reply = packed(made(), &asks(header::ACCEPT_ENCODING, "gzip, br"));
        assert_eq!(header(&reply, "content-encoding"), Some("gzip"));
        assert_eq!(header(&reply, "vary"), Some("accept-encoding"));
        assert_eq!(unpacked(&ipse_edge::whole(reply).1), format!("<p>{long}</p>"));
        let short = page(&links(), Keep::Never, &Paragraph { text: "short" });
        let short = packed(short, &asks(header::ACCEPT_ENCODING, "gzip"));
        assert_eq!(header(&short, "content-encoding"), None);
    }

    #[test]
    fn what_is_fixed_is_sent_once() {
        let long = "fixed ".repeat(1000);
        let fixed = Fixed::new(page(&links(), Keep::Checked, &Paragraph { text: &long }));
        let tag = format!("W/\"{}\"", fixed.fingerprint());
        for (accepts, is_packed) in [("gzip", true), ("identity", false)] {
            let reply = fixed.answer(&asks(header::ACCEPT_ENCODING, accepts));
            assert_eq!((reply.status(), header(&reply, "etag")), (StatusCode::OK, Some(&*tag)));
            assert_eq!(header(&reply, "vary"), Some("accept-encoding"));
            assert_eq!(header(&reply, "content-encoding").is_some(), is_packed);
            // It is not packed a second time.
            let reply = packed(reply, &asks(header::ACCEPT_ENCODING, accepts));
            let (_, body) = ipse_edge::whole(reply);
            let html = if is_packed { unpacked(&body) } else { String::from_utf8(body.to_vec()).unwrap() };
            assert_eq!(html, format!("<p>{long}</p>"));
        }
        let strong = tag.trim_start_matches("W/");
        for (tags, is_known) in [
            (tag.as_str(), true),
            (strong, true),
            ("*", true),
            (&format!("\"other\", {tag}"), true),
            ("W/\"other\"", false),
            ("", false),
        ] {
            let reply = packed(fixed.answer(&asks(header::IF_NONE_MATCH, tags)), &HeaderMap::new());
            assert_eq!(reply.status() == StatusCode::NOT_MODIFIED, is_known, "{tags}");
            assert_eq!(header(&reply, "etag"), Some(&*tag));
            assert_eq!(header(&reply, "cache-control"), Some("no-cache"));
            assert_eq!(header(&reply, "content-type").is_none(), is_known);
            assert_eq!(ipse_edge::whole(reply).1.is_empty(), is_known);
        }
    }

    #[test]
    fn pages_may_ask_the_hosts_of_each_family_and_no_other() {
        let mut links = links();
        let policy = |links: &Links| {
            let reply = page(links, Keep::Never, &Paragraph { text: "" });
            header(&reply, "content-security-policy").unwrap().to_owned()
        };
        assert_eq!(policy(&links), CONTENT_SECURITY_POLICY);
        links.ipv6_origin = Some("https://v6.ip.example".into());
        assert!(policy(&links).contains("; connect-src 'self' https://v6.ip.example; "));
        links.ipv4_origin = Some("https://v4.ip.example".into());
        let both = "; connect-src 'self' https://v4.ip.example https://v6.ip.example; ";
        assert_eq!(policy(&links).replace(both, "; connect-src 'self'; "), CONTENT_SECURITY_POLICY);
        assert!(policy(&links).contains(both));
    }

    #[track_caller]
    fn check(accept: &[&str], expected: bool) {
        let mut asked = HeaderMap::new();
        for value in accept {
            asked.append(header::ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(names_html(&asked), expected, "{accept:?}");
    }

    #[test]
    fn only_who_names_html_gets_a_page() {
        check(&[], false);
        check(&["*/*"], false);
        check(&["application/json"], false);
        check(&["text/html"], true);
        check(&["application/json, Text/HTML;q=0.9"], true);
        check(&["application/json", "text/html"], true);
        check(&["text/htmlx, application/text/html"], false);
    }
}
