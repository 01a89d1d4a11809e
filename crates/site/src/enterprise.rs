//! What to do about more requests than the free quota holds, and whom to ask.

use crate::operator::{Contact, Operator};
use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use askama::Template;
use ipse_edge::Reply;
use ipse_model::Links;

#[derive(Template)]
#[template(path = "enterprise.html")]
struct Enterprise<'a> {
    page: Page<'a>,
    contact: Option<&'a Contact>,
}

pub(crate) fn answer(links: &Links, operator: &Operator) -> Reply {
    let title = "Higher limits";
    let description =
        "More requests a day than the free quota: a higher limit for one key, or a server of your own.";
    let page = Page::public(links, Here::Elsewhere, title, description);
    reply::page(links, Keep::Checked, &Enterprise { page, contact: operator.contact.as_ref() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;

    #[test]
    fn callers_are_told_whom_to_ask_and_operators_how_to_be_asked() {
        let html = |operator: &Operator| {
            String::from_utf8(ipse_edge::whole(answer(&links(), operator)).1.to_vec()).unwrap()
        };
        let silent = html(&Operator::default());
        for part in [
            "ipse key limit ID 250000",
            "ipse serve --contact you@example.com",
            "the people behind its domain",
        ] {
            assert!(silent.contains(part), "{part}");
        }
        let contact = "https://example.com/ask".parse().ok();
        let reachable = html(&Operator { contact, ..Operator::default() });
        assert_eq!(reachable.matches("href=\"https://example.com/ask\"").count(), 2);
        assert!(!reachable.contains("ipse key limit"), "commands are of no use to callers");
    }
}
