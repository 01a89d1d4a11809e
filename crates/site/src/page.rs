//! What every page has in common: its title, its description, and the links around it.

use crate::assets;
use crate::links::href;
use ipse_model::Links;

/// The frame of one page, as `templates/page.html` draws it.
pub(crate) struct Page<'a> {
    /// What stands before the product's name in the browser's tab.
    pub(crate) title: &'static str,
    /// What a search engine shows below the title.
    pub(crate) description: &'static str,
    /// The entry of the navigation that is this page itself.
    pub(crate) here: Here,
    pub(crate) links: &'a Links,
}

/// The pages that the navigation names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Here {
    Docs,
    Signup,
    Enterprise,
    /// A page that the navigation does not name: the front page, which the brand links to, or an error.
    Elsewhere,
}

/// An entry of the navigation.
pub(crate) struct Entry<'a> {
    pub(crate) href: &'a str,
    pub(crate) text: &'static str,
    pub(crate) is_here: bool,
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

    pub(crate) fn navigation(&self) -> [Entry<'_>; 3] {
        let entry = |href, text, page| Entry { href, text, is_here: self.here == page };
        [
            entry(self.docs(), "Docs", Here::Docs),
            entry(self.signup(), "Get a key", Here::Signup),
            entry(self.enterprise(), "Higher limits", Here::Enterprise),
        ]
    }
}
