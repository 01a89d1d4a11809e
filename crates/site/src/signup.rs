//! How to get a key on this installation.

use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use askama::Template;
use ipse_edge::Reply;
use ipse_model::Links;

#[derive(Template)]
#[template(path = "signup.html")]
struct Signup<'a> {
    page: Page<'a>,
}

pub(crate) fn answer(links: &Links) -> Reply {
    let page = Page {
        title: "Get a key",
        description: "How to get an API key from whoever runs this ipse server, or run ipse yourself.",
        here: Here::Signup,
        links,
    };
    reply::page(links, Keep::Checked, &Signup { page })
}
