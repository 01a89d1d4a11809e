//! What every page has in common: its title, its description, and the links around it.

use crate::assets;
use crate::guard::session::Member;
use crate::links::href;
use ipse_model::Links;

/// The frame of one page, as `templates/page.html` draws it.
pub(crate) struct Page<'a> {
    /// What stands before the product's name in the browser's tab.
    pub(crate) title: &'a str,
    /// What a search engine shows below the title.
    pub(crate) description: &'static str,
    /// The entry of the navigation that is this page itself.
    pub(crate) here: Here,
    pub(crate) links: &'a Links,
    /// Whoever is signed in, on pages that are theirs.
    pub(crate) member: Option<&'a Member>,
    /// Whether it stands at the operator's own listener, where no other pages are.
    pub(crate) is_operators: bool,
}

/// The pages that the navigation names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Here {
    Docs,
    Signup,
    SignIn,
    Keys,
    Account,
    Overview,
    Doctor,
    /// A page that the navigation does not name: the front page, which the brand links to, or an error.
    Elsewhere,
}

/// An entry of the navigation.
pub(crate) struct Entry<'a> {
    pub(crate) href: &'a str,
    pub(crate) text: &'static str,
    pub(crate) is_here: bool,
}

impl<'a> Page<'a> {
    /// A page that is the same for everybody.
    pub(crate) fn public(links: &'a Links, here: Here, title: &'a str, description: &'static str) -> Self {
        Self { title, description, here, links, member: None, is_operators: false }
    }

    /// A page that only its member sees.
    pub(crate) fn of(member: &'a Member, links: &'a Links, here: Here, title: &'a str) -> Self {
        let description = "Your keys and your account.";
        Self { title, description, here, links, member: Some(member), is_operators: false }
    }

    /// A page of the operator's own listener.
    pub(crate) fn operators(links: &'a Links, here: Here, title: &'a str, description: &'static str) -> Self {
        Self { title, description, here, links, member: None, is_operators: true }
    }
}

impl Page<'_> {
    pub(crate) fn docs(&self) -> &str {
        href(self.links, &self.links.docs_url)
    }

    pub(crate) fn signup(&self) -> &str {
        href(self.links, &self.links.signup_url)
    }

    pub(crate) fn enterprise(&self) -> &str {
        href(self.links, &self.links.enterprise_url)
    }

    /// The link to a file that is part of the program, such as `style.css`.
    pub(crate) fn asset(&self, name: &str) -> &'static str {
        assets::link(name)
    }

    /// What examples call.
    pub(crate) fn base(&self) -> &str {
        &self.links.base_url
    }

    pub(crate) fn navigation(&self) -> Vec<Entry<'_>> {
        let entry = |href, text, page| Entry { href, text, is_here: self.here == page };
        if self.is_operators {
            return vec![
                entry("/", "Overview", Here::Overview),
                entry("/doctor", "Doctor", Here::Doctor),
                Entry { href: "/metrics", text: "Metrics", is_here: false },
            ];
        }
        if self.member.is_some() {
            return vec![
                entry("/dashboard", "Keys", Here::Keys),
                entry("/account", "Account", Here::Account),
                entry(self.docs(), "Docs", Here::Docs),
            ];
        }
        vec![
            entry(self.docs(), "Docs", Here::Docs),
            entry("/dashboard", "Dashboard", Here::SignIn),
            entry(self.signup(), "Get a key", Here::Signup),
        ]
    }
}
