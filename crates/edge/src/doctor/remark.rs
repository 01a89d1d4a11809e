//! Something worth saying to an operator, and how much it matters.

/// One remark, in whole sentences: what is so, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How much it matters.
    pub weight: Weight,
    /// The sentences.
    pub text: String,
}

/// How much a remark matters, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Somebody can choose what is answered about them.
    Warning,
    /// Nobody can lie, but answers are not what they should be.
    Problem,
    /// It depends on something that cannot be seen from here.
    Check,
    /// It is as it should be, or a hint.
    Note,
}

impl Weight {
    /// The word that stands before the sentences.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Warning => "Warning",
            Self::Problem => "Problem",
            Self::Check => "Check",
            Self::Note => "Note",
        }
    }
}

impl Remark {
    pub(super) fn warning(text: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, text: text.into() }
    }

    pub(super) fn problem(text: impl Into<String>) -> Self {
        Self { weight: Weight::Problem, text: text.into() }
    }

    pub(super) fn check(text: impl Into<String>) -> Self {
        Self { weight: Weight::Check, text: text.into() }
    }

    pub(super) fn note(text: impl Into<String>) -> Self {
        Self { weight: Weight::Note, text: text.into() }
    }
}
