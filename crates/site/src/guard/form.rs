//! The fields of a form that was sent.

use std::borrow::Cow;

/// The largest form that is read: all of ours are far smaller.
pub(crate) const MAX_BYTES: usize = 32 * 1024;

/// What was typed. Its `Debug` shows nothing: it holds passwords.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the fields of a body as browsers write it.
    pub(crate) fn read(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).map(|(name, value)| (own(name), own(value))).collect())
    }

    /// A field without the space around it; empty where it is missing. Of several the first counts.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// A field as it was typed, for passwords.
    pub(crate) fn exact(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Whether a box is ticked.
    pub(crate) fn is_ticked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Form(hidden)")
    }
}

fn own(text: Cow<'_, str>) -> String {
    text.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let form = Form::read(b"name=+a%26b%20&password=+x+&name=second&on=1&half=%ff");
        assert_eq!(form.text("name"), "a&b");
        assert_eq!(form.exact("password"), " x ");
        assert_eq!(form.text("missing"), "");
        assert!(form.is_ticked("on") && !form.is_ticked("off"));
        assert_eq!(form.text("half"), "\u{fffd}", "what is no text stays harmless");
        assert_eq!(format!("{form:?}"), "Form(hidden)");
    }
}
