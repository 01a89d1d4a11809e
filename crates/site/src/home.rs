//! The front page: what ipse is, the visitor's own answer, and the way to a first call.

use crate::attribution::{self, Piece};
use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use crate::visitor::Visitor;
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_geo::Atlas;
use ipse_model::Links;

#[derive(Template)]
#[template(path = "home.html")]
struct Home<'a> {
    page: Page<'a>,
    visitor: Visitor,
    attribution: Vec<Vec<Piece>>,
}

pub(crate) fn answer(links: &Links, visit: &Visit, atlas: &Atlas) -> Reply {
    let page = Page {
        title: "What the internet sees of you",
        description: "One GET request tells a client its own IP address, where it is, whose network it is on and how \
                      it is connected.",
        here: Here::Elsewhere,
        links,
    };
    let visitor = Visitor::new(&visit.client, visit.now, atlas.find(visit.client.address));
    reply::page(links, Keep::Never, &Home { page, visitor, attribution: attribution::sentences(atlas) })
}
