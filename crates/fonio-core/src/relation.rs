//! Defines relations between two numbers.

/// A relation between two numbers, such as `<=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Relation {
    Below,
    AtMost,
    Equal,
    AtLeast,
    Above,
}

/// The signs of the relations. Longer signs come first; otherwise, `<=` would be read as `<`.
const SIGNS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    ("<", Relation::Below),
    ("==", Relation::Equal),
    (">=", Relation::AtLeast),
    (">", Relation::Above),
];

impl Relation {
    /// Returns the relation at the start of the text, and its sign.
    pub fn at_start(text: &str) -> Option<(Relation, &'static str)> {
        SIGNS.iter().find(|(sign, _)| text.starts_with(sign)).map(|(sign, relation)| (*relation, *sign))
    }

    /// Returns whether the relation between `left` and `right` is true.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Relation::Below => left < right,
            Relation::AtMost => left <= right,
            Relation::Equal => left == right,
            Relation::AtLeast => left >= right,
            Relation::Above => left > right,
        }
    }
}

impl std::fmt::Display for Relation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = SIGNS.iter().find(|(_, relation)| relation == self).map(|(sign, _)| *sign);
        f.write_str(sign.expect("each relation has a sign"))
    }
}
