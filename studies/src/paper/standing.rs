//! The standing of a row: how our number came about, whether the row is scored, and its verdict.
//!
//! Result files contain a standing as two words, its kind and its verdict. [`Standing::parse`] reads what
//! [`Standing::words`] wrote.

use serde::Serialize;

use super::measured::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Agrees,
    Differs,
    /// The runs are too few, or vary too much.
    NotShown,
    /// Our number was not measured.
    Cannot,
    /// The study gives no number.
    NotPublished,
}

impl Verdict {
    const ALL: [Verdict; 5] =
        [Verdict::Agrees, Verdict::Differs, Verdict::NotShown, Verdict::Cannot, Verdict::NotPublished];

    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::NotShown => "not shown",
            Verdict::Cannot => "cannot be had",
            Verdict::NotPublished => "not published",
        }
    }
}

/// The reason why a row is shown, but not scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unscored {
    /// Our number follows from our configuration.
    Construction,
    /// The published number influenced ours, or the author of the workload or the model knew it.
    Known,
    /// The published bound has only one end, such as "more than 4 times".
    OneBound,
    /// The number follows from other rows.
    Follows,
}

impl Unscored {
    const ALL: [Unscored; 4] =
        [Unscored::Construction, Unscored::Known, Unscored::OneBound, Unscored::Follows];

    pub(super) fn name(self) -> &'static str {
        match self {
            Unscored::Construction => "by construction",
            Unscored::Known => "known to the author",
            Unscored::OneBound => "bound without an upper end",
            Unscored::Follows => "follows from other rows",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Standing {
    pub(super) kind: Kind,
    /// The reason why the row is not scored; `None` for a scored row.
    pub(super) unscored: Option<Unscored>,
    pub(super) verdict: Verdict,
}

const NOT_SCORED: &str = ", not scored: ";

impl Standing {
    /// Returns the words for the kind and for the verdict.
    pub(super) fn words(self) -> (String, String) {
        let reason =
            self.unscored.map_or_else(String::new, |reason| format!("{NOT_SCORED}{}", reason.name()));
        (self.kind.name().to_owned(), format!("{}{reason}", self.verdict.name()))
    }

    /// Parses the words that [`Standing::words`] returns.
    pub(super) fn parse(kind: &str, verdict: &str) -> Option<Standing> {
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
        let (verdict, reason) = match verdict.split_once(NOT_SCORED) {
            Some((verdict, reason)) => (verdict, Some(reason)),
            None => (verdict, None),
        };
        let verdict = Verdict::ALL.into_iter().find(|known| known.name() == verdict)?;
        let unscored = match reason {
            Some(reason) => Some(Unscored::ALL.into_iter().find(|known| known.name() == reason)?),
            None => None,
        };
        Some(Standing { kind, unscored, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        for kind in Kind::ALL {
            for verdict in Verdict::ALL {
                for unscored in Unscored::ALL.map(Some).into_iter().chain([None]) {
                    let standing = Standing { kind, unscored, verdict };
                    let (kind, verdict) = standing.words();
                    assert_eq!(Standing::parse(&kind, &verdict), Some(standing), "{kind}, {verdict}");
                }
            }
        }
    }

    #[test]
    fn other_words_are_refused() {
        for (kind, verdict) in [
            ("", "agrees"),
            ("imitation", "agreed"),
            ("imitation", "agrees, not scored: "),
            ("imitation", "agrees, not scored: agrees"),
            ("an imitation", "agrees"),
        ] {
            assert_eq!(Standing::parse(kind, verdict), None, "{kind}, {verdict}");
        }
    }
}
