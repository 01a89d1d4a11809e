//! The fields of the forms about keys: a name, a scope, and how long an old text works on.

use crate::field::Field;
use crate::key_name;
use ipse_model::Scope;

/// One choice of several.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) value: &'static str,
    pub(crate) label: &'static str,
    pub(crate) words: &'static str,
    pub(crate) is_chosen: bool,
}

/// How long the old text of a key works beside a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    None,
    Hour,
    Day,
    Week,
}

impl Overlap {
    const ALL: [Self; 4] = [Self::None, Self::Hour, Self::Day, Self::Week];
    /// Long enough to put the new text everywhere within a working day.
    pub(crate) const DEFAULT: Self = Self::Day;

    /// The overlap that a form names.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|overlap| overlap.value() == text)
    }

    pub(crate) fn keep_ms(self) -> i64 {
        const HOUR_MS: i64 = 3_600_000;
        match self {
            Self::None => 0,
            Self::Hour => HOUR_MS,
            Self::Day => 24 * HOUR_MS,
            Self::Week => 7 * 24 * HOUR_MS,
        }
    }

    fn value(self) -> &'static str {
        match self {
            Self::None => "now",
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::None => "now",
            Self::Hour => "in 1 hour",
            Self::Day => "in 24 hours",
            Self::Week => "in 7 days",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::None => "It has leaked, or nothing uses it.",
            Self::Hour => "One program, which you change right away.",
            Self::Day => "A few machines, which get the new text today.",
            Self::Week => "Many machines, or a release that takes its time.",
        }
    }
}

pub(crate) fn overlaps(chosen: Overlap) -> Vec<Choice> {
    let choice = |overlap: Overlap| Choice {
        value: overlap.value(),
        label: overlap.label(),
        words: overlap.words(),
        is_chosen: overlap == chosen,
    };
    Overlap::ALL.map(choice).into()
}

pub(crate) fn scopes(chosen: Scope) -> Vec<Choice> {
    let choice = |scope: Scope| Choice {
        value: scope.as_str(),
        label: scope.as_str(),
        words: match scope {
            Scope::Ip => "The address alone.",
            Scope::Geo => "The address, where it is and whose network it is on. Right for most.",
            Scope::Full => {
                "Everything: also HTTP, TLS, round-trip time, and whether it is a VPN or a data centre."
            }
        },
        is_chosen: scope == chosen,
    };
    Scope::ALL.map(choice).into()
}

/// The field for a key's name.
pub(crate) fn name(hint: &'static str, typed: &str, wrong: Option<String>) -> Field {
    // What was typed is kept, so that it can be mended; but not much more than could have been right.
    let typed: String = typed.chars().take(4 * key_name::LONGEST).collect();
    let longest = Some(key_name::LONGEST);
    Field { longest, ..Field::text("name", "name", "Name") }.hinted(hint).typed(&typed).wrong(wrong)
}

/// The scope that a form names; one that names none wants what most want.
pub(crate) fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "" => Ok(Scope::Geo),
        text => text.parse().map_err(|_| "Choose one of the three.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_choice_is_made_and_each_can_be_sent_back() {
        for scope in Scope::ALL {
            let chosen: Vec<_> = scopes(scope).into_iter().filter(|choice| choice.is_chosen).collect();
            assert_eq!(
                chosen.iter().map(|choice| super::scope(choice.value)).collect::<Vec<_>>(),
                [Ok(scope)]
            );
        }
        for overlap in Overlap::ALL {
            let chosen: Vec<_> = overlaps(overlap).into_iter().filter(|choice| choice.is_chosen).collect();
            assert_eq!(
                chosen.iter().map(|choice| Overlap::parse(choice.value)).collect::<Vec<_>>(),
                [Some(overlap)]
            );
        }
        assert_eq!(Overlap::ALL.map(Overlap::keep_ms), [0, 3_600_000, 86_400_000, 604_800_000]);
    }

    #[test]
    fn other_words_are_no_choice() {
        assert_eq!(scope(""), Ok(Scope::Geo));
        for text in ["GEO", "all", "geo "] {
            assert!(scope(text).is_err(), "{text}");
        }
        for text in ["", "0", "1d", "NOW", "8d"] {
            assert_eq!(Overlap::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_typed_is_kept_but_not_without_end() {
        assert_eq!(name("", "<b>", None).value, "<b>");
        assert_eq!(name("", &"ö".repeat(10_240), None).value, "ö".repeat(240));
    }
}
