//! One field of a form, with what was typed and what is wrong with it.

/// A field, as `templates/forms.html` draws it.
#[derive(Default)]
pub(crate) struct Field {
    /// Unique on its page.
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: &'static str,
    /// What was typed before, never a password.
    pub(crate) value: String,
    /// What browsers and password managers may fill in.
    pub(crate) autocomplete: &'static str,
    pub(crate) hint: &'static str,
    /// The sentence beside it, if what was typed is not taken.
    pub(crate) wrong: Option<String>,
    /// The most characters that are taken, or none.
    pub(crate) longest: Option<usize>,
}

impl Field {
    /// The address of an account.
    pub(crate) fn email(id: &'static str, label: &'static str) -> Self {
        let longest = Some(254);
        Self { id, name: "email", label, kind: "email", autocomplete: "username", longest, ..Self::default() }
    }

    /// The password that an account has.
    pub(crate) fn password(id: &'static str, label: &'static str) -> Self {
        Self {
            id,
            name: "password",
            label,
            kind: "password",
            autocomplete: "current-password",
            ..Self::default()
        }
    }

    /// A password that an account gets.
    pub(crate) fn new_password(id: &'static str, label: &'static str) -> Self {
        Self {
            name: "new_password",
            autocomplete: "new-password",
            hint: "At least 8 characters.",
            ..Self::password(id, label)
        }
    }

    /// A code of the second factor.
    pub(crate) fn code(id: &'static str, label: &'static str) -> Self {
        Self { id, name: "code", label, kind: "text", autocomplete: "one-time-code", ..Self::default() }
    }

    pub(crate) fn text(id: &'static str, name: &'static str, label: &'static str) -> Self {
        Self { id, name, label, kind: "text", autocomplete: "off", ..Self::default() }
    }

    pub(crate) fn hinted(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn typed(self, value: &str) -> Self {
        Self { value: value.to_owned(), ..self }
    }

    pub(crate) fn wrong(self, wrong: Option<String>) -> Self {
        Self { wrong, ..self }
    }

    /// The ids of what explains the field, for those who listen to it.
    pub(crate) fn described_by(&self) -> String {
        let wrong = self.wrong.as_ref().map(|_| format!("{}-error", self.id));
        let hint = (!self.hint.is_empty()).then(|| format!("{}-hint", self.id));
        wrong.into_iter().chain(hint).collect::<Vec<_>>().join(" ")
    }
}
