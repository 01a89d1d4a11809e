//! The front page: what ipse is, the visitor's own answer beside a map, and the way to a first call.

use crate::attribution::{self, Piece};
use crate::page::{Here, Page};
use crate::reply::{self, Keep};
use crate::visitor::Visitor;
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_geo::Atlas;
use ipse_model::{Address, Links};
use std::net::IpAddr;

#[derive(Template)]
#[template(path = "home.html")]
struct Home<'a> {
    page: Page<'a>,
    visitor: Visitor,
    other: Option<OtherFamily<'a>>,
    attribution: Vec<Vec<Piece>>,
}

/// The family of addresses that the visitor did not come with, and where they can be asked for theirs.
struct OtherFamily<'a> {
    name: &'static str,
    /// The one that they came with.
    came_over: &'static str,
    origin: &'a str,
}

pub(crate) fn answer(links: &Links, visit: &Visit, atlas: &Atlas) -> Reply {
    let title = "What the internet sees of you";
    let description = "One GET request tells a client its own IP address, where it is, whose network it is on and how \
                      it is connected.";
    let page = Page::public(links, Here::Elsewhere, title, description);
    let visitor = Visitor::new(&visit.client, visit.now, atlas.find(visit.client.address));
    let other = other_family(links, visit.client.address);
    reply::page(
        links,
        Keep::Never,
        &Home { page, visitor, other, attribution: attribution::sentences(atlas) },
    )
}

/// The visitor's address and nothing else: what the front page, open under one name, asks the other one for.
pub(crate) fn own_address(visit: &Visit) -> Reply {
    reply::text(Keep::Never, visit.client.address.ip().to_string())
}

fn other_family(links: &Links, address: Address) -> Option<OtherFamily<'_>> {
    let (name, came_over, origin) = match address.ip() {
        IpAddr::V4(_) => ("IPv6", "IPv4", &links.ipv6_origin),
        IpAddr::V6(_) => ("IPv4", "IPv6", &links.ipv4_origin),
    };
    origin.as_deref().map(|origin| OtherFamily { name, came_over, origin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;

    #[test]
    fn the_other_family_is_the_one_that_the_visitor_did_not_come_with() {
        #[track_caller]
        fn check(links: &Links, ip: &str, expected: Option<(&str, &str)>) {
            let other = other_family(links, Address::new(ip.parse().unwrap()));
            assert_eq!(other.map(|other| (other.name, other.origin)), expected);
        }
        let none = links();
        check(&none, "192.0.2.1", None);
        check(&none, "2001:db8::1", None);
        let (v4, v6) = ("https://v4.ip.example", "https://v6.ip.example");
        let both = Links { ipv4_origin: Some(v4.into()), ipv6_origin: Some(v6.into()), ..links() };
        check(&both, "192.0.2.1", Some(("IPv6", v6)));
        check(&both, "::ffff:192.0.2.1", Some(("IPv6", v6)));
        check(&both, "2001:db8::1", Some(("IPv4", v4)));
        check(&Links { ipv4_origin: None, ..both }, "2001:db8::1", None);
    }
}
