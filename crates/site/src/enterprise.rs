//! What to do about more requests than the free quota holds.

use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use askama::Template;
use ipse_edge::Reply;
use ipse_model::Links;

#[derive(Template)]
#[template(path = "enterprise.html")]
struct Enterprise<'a> {
    page: Page<'a>,
}

pub(crate) fn answer(links: &Links) -> Reply {
    let page = Page {
        title: "Higher limits",
        description: "More requests a day than the free quota: a higher limit for one key, or a server of your own.",
        here: Here::Enterprise,
        links,
    };
    reply::page(links, Keep::Checked, &Enterprise { page })
}
