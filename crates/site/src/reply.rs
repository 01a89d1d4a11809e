//! The only place of this crate that knows headers: every reply leaves through one of these functions.

use crate::errors::{INTERNAL_ERROR, METHOD_NOT_ALLOWED, NOT_FOUND, Section};
use crate::page::{Here, Page};
use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use ipse_edge::Reply;
use ipse_model::Links;

/// How long a reply may be kept.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    /// It shows the visitor's own data, or is an error: never.
    Never,
    /// It changes only with the program, but a new program must show at once.
    Checked,
    /// An hour of an old stylesheet hurts nobody.
    AnHour,
}

/// Nothing but our own stylesheet and pictures is ever loaded, nothing is sent anywhere, and nobody frames us.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
                                       form-action 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// A page that was found.
pub(crate) fn page(links: &Links, keep: Keep, template: &impl Template) -> Reply {
    match template.render() {
        Ok(html) => reply(StatusCode::OK, HTML, keep, html),
        Err(_) => json(links, &INTERNAL_ERROR),
    }
}

/// The same for whoever reads in a terminal.
pub(crate) fn text(keep: Keep, text: String) -> Reply {
    reply(StatusCode::OK, TEXT, keep, text)
}

/// A file that is part of the program.
pub(crate) fn asset(content_type: &'static str, content: &'static str) -> Reply {
    reply(StatusCode::OK, content_type, Keep::AnHour, content)
}

/// There is nothing at this path.
pub(crate) fn not_found(links: &Links, asked: &HeaderMap) -> Reply {
    refusal(links, asked, &NOT_FOUND, "Nothing here", "There is no page at this address.")
}

/// There is a page at this path, but it is only for reading.
pub(crate) fn method_not_allowed(links: &Links, asked: &HeaderMap) -> Reply {
    let mut reply = refusal(
        links,
        asked,
        &METHOD_NOT_ALLOWED,
        "Only for reading",
        "This page can be read, and nothing else.",
    );
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    reply
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
    let page = Page { title, description, here: Here::Elsewhere, links };
    match (Refused { page, problem }).render() {
        Ok(html) => reply(problem.status, HTML, Keep::Never, html),
        Err(_) => json(links, &INTERNAL_ERROR),
    }
}

fn json(links: &Links, problem: &Section) -> Reply {
    reply(
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

fn reply(status: StatusCode, content_type: &'static str, keep: Keep, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let cache_control = match keep {
        Keep::Never => "no-store",
        Keep::Checked => "no-cache",
        Keep::AnHour => "public, max-age=3600",
    };
    let mut set = |name: HeaderName, value| reply.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, content_type);
    set(header::CACHE_CONTROL, cache_control);
    set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    // By this header the edge also tells our replies from those that the HTTP library makes by itself.
    set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    set(header::REFERRER_POLICY, "no-referrer");
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

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
