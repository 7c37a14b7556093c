//! The errors of refused quantities (UNIT-3).

use super::QuantityKind;
use super::number::DECIMALS;

/// The error of a text that is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {}", reason.describe(*kind))]
pub struct QuantityError {
    text: String,
    kind: QuantityKind,
    reason: Reason,
}

impl QuantityError {
    /// Returns a hint for the correct form.
    pub fn help(&self) -> Option<String> {
        let allowed = self.kind.allowed();
        Some(match &self.reason {
            Reason::UnknownUnit { suggestion: Some(unit), .. } => {
                format!("did you mean `{unit}`? {allowed}")
            }
            Reason::NotPlain => {
                "write the number in plain decimal digits, as in `1000` or `8.192`".to_owned()
            }
            Reason::Zero => format!("use more than zero{}", or_unlimited(self.kind)),
            Reason::Negative => format!("use zero or more{}", or_unlimited(self.kind)),
            Reason::TooFine if self.kind == QuantityKind::Count => allowed,
            Reason::TooFine => format!("the simulator counts whole {}", self.kind.grain()),
            Reason::TooLarge if self.kind == QuantityKind::Efficiency => allowed,
            Reason::TooLarge => format!("at most {} {}", u64::MAX, self.kind.grain()),
            Reason::TooManyDecimals => format!("at most {DECIMALS} decimals; use a smaller unit"),
            _ => allowed,
        })
    }

    /// True if the text is a number, but negative or too large.
    pub const fn is_out_of_range(&self) -> bool {
        matches!(self.reason, Reason::Negative | Reason::TooLarge)
    }

    /// True if the number is too large. A caller with a narrower limit should name its own limit.
    pub const fn is_too_large(&self) -> bool {
        matches!(self.reason, Reason::TooLarge)
    }

    /// Returns the refused text, shortened for a message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the expected kind.
    pub const fn kind(&self) -> QuantityKind {
        self.kind
    }
}

const fn or_unlimited(kind: QuantityKind) -> &'static str {
    if kind.takes_unlimited() { ", or `unlimited` for what costs nothing" } else { "" }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Empty,
    NotANumber,
    NotPlain,
    Negative,
    Zero,
    TooFine,
    TooManyDecimals,
    TooLarge,
    MissingUnit,
    Unlimited,
    WrongKind { found: QuantityKind },
    UnknownUnit { unit: String, suggestion: Option<&'static str> },
}

impl Reason {
    fn describe(&self, kind: QuantityKind) -> String {
        match self {
            Self::Empty => format!("is empty, not {}", kind.name()),
            Self::NotANumber => format!("is not {}: it does not start with a number", kind.name()),
            Self::NotPlain => "is not written in plain decimal digits".to_owned(),
            Self::Negative => "is negative".to_owned(),
            Self::Zero => format!("is zero, which makes no sense for {}", kind.name()),
            Self::TooFine if kind == QuantityKind::Count => "is not a whole number".to_owned(),
            Self::TooFine => format!("is not a whole number of {}", kind.grain()),
            Self::TooManyDecimals => "has too many decimals".to_owned(),
            Self::TooLarge => "is too large".to_owned(),
            Self::MissingUnit => "has no unit".to_owned(),
            Self::Unlimited => format!("is not {}", kind.name()),
            Self::WrongKind { found } => format!("is {}, not {}", found.name(), kind.name()),
            Self::UnknownUnit { unit, .. } if kind.units().is_empty() => {
                format!("has a unit, `{unit}`, where a number alone is wanted")
            }
            Self::UnknownUnit { unit, .. } => format!("has the unknown unit `{unit}`"),
        }
    }
}

pub(super) fn refuse<T>(
    text: &str,
    kind: QuantityKind,
    reason: Reason,
) -> Result<T, QuantityError> {
    Err(QuantityError { text: shorten(text.trim()), kind, reason })
}

/// Shortens a text for a message.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
