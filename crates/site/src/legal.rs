//! `/privacy` and `/terms`: the operator's own texts, or ours, which say what this program really does.

use crate::document::{Block, Document, Span};
use crate::operator::{Contact, Operator};
use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use askama::Template;
use ipse_edge::Reply;
use ipse_model::Links;

/// Ours, in the same form as an operator's, so that they can be the beginning of one.
const PRIVACY: &str = include_str!("../texts/privacy.txt");
const TERMS: &str = include_str!("../texts/terms.txt");

#[derive(Template)]
#[template(path = "legal.html")]
struct Legal<'a> {
    page: Page<'a>,
    path: &'static str,
    title: &'a str,
    blocks: &'a [Block],
    contact: Option<&'a Contact>,
}

pub(crate) fn privacy(links: &Links, operator: &Operator) -> Reply {
    let title = "Privacy";
    let description = "What this server stores about callers and account holders, what it never stores, and how to see and delete it.";
    let page = Page::public(links, Here::Elsewhere, title, description);
    answer(page, "/privacy", operator.privacy.as_ref(), PRIVACY, operator)
}

pub(crate) fn terms(links: &Links, operator: &Operator) -> Reply {
    let title = "Terms of use";
    let description =
        "The terms under which this server answers: what you may expect of it, and what it expects of you.";
    let page = Page::public(links, Here::Elsewhere, title, description);
    answer(page, "/terms", operator.terms.as_ref(), TERMS, operator)
}

fn answer(
    page: Page<'_>,
    path: &'static str,
    theirs: Option<&Document>,
    ours: &str,
    operator: &Operator,
) -> Reply {
    let ours = if theirs.is_none() { Document::read(ours).ok() } else { None };
    let (links, title) = (page.links, page.title);
    let document = theirs.or(ours.as_ref());
    let title = document.and_then(|document| document.title.as_deref()).unwrap_or(title);
    let blocks = document.map_or(&[][..], |document| &document.blocks);
    reply::page(
        links,
        Keep::Checked,
        &Legal { page, path, title, blocks, contact: operator.contact.as_ref() },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;

    fn html(reply: Reply) -> String {
        String::from_utf8(ipse_edge::whole(reply).1.to_vec()).unwrap()
    }

    #[test]
    fn our_texts_are_read_whole() {
        for text in [PRIVACY, TERMS] {
            let document = Document::read(text).unwrap();
            assert!(document.title.is_some());
            let shown = format!("{:?}", document.blocks);
            for mark in ["**", "](", "##"] {
                assert!(!shown.contains(mark), "{mark} stayed text");
            }
        }
    }

    #[test]
    fn an_operators_text_stands_in_for_ours_and_stays_text() {
        let text = "# House rules\n\nBe **kind**, see [why](https://a.example/?a&b).\n\n- <script>alert(1)</script>\n\n## Next\n\n1. one";
        let contact = "ops@example.com".parse().ok();
        let operator = Operator { contact, terms: Document::read(text).ok(), privacy: None };
        let shown = html(terms(&links(), &operator));
        for part in [
            "<h1>House rules</h1>",
            "<p>Be <strong>kind</strong>, see <a href=\"https://a.example/?a&#38;b\">why</a>.</p>",
            "<li>&#60;script&#62;alert(1)&#60;/script&#62;</li>",
            "<h2>Next</h2>",
            "<ol>\n<li>one</li>\n</ol>",
            "<a href=\"mailto:ops@example.com\">ops@example.com</a>",
        ] {
            assert!(shown.contains(part), "{part} is missing in {shown}");
        }
        assert!(!shown.contains("<script>") && !shown.contains("Terms of use</h1>"));
        assert!(html(privacy(&links(), &operator)).contains("<h1>Privacy</h1>"), "the other one stays ours");
    }
}
