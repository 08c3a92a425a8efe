//! Lists the SQL words that matter for the normalisation of statements.

use std::sync::LazyLock;

type Words = LazyLock<Vec<&'static str>>;

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_ascii_whitespace().collect()
}

/// The keywords of SQLite (`https://sqlite.org/lang_keywords.html`).
static KEYWORDS: Words = LazyLock::new(|| {
    words(
        "ABORT ACTION ADD AFTER ALL ALTER ALWAYS ANALYZE AND AS ASC ATTACH AUTOINCREMENT BEFORE BEGIN \
         BETWEEN BY CASCADE CASE CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT CREATE CROSS CURRENT \
         CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEFAULT DEFERRABLE DEFERRED DELETE DESC \
         DETACH DISTINCT DO DROP EACH ELSE END ESCAPE EXCEPT EXCLUDE EXCLUSIVE EXISTS EXPLAIN FAIL FILTER \
         FIRST FOLLOWING FOR FOREIGN FROM FULL GENERATED GLOB GROUP GROUPS HAVING IF IGNORE IMMEDIATE IN \
         INDEX INDEXED INITIALLY INNER INSERT INSTEAD INTERSECT INTO IS ISNULL JOIN KEY LAST LEFT LIKE \
         LIMIT MATCH MATERIALIZED NATURAL NO NOT NOTHING NOTNULL NULL NULLS OF OFFSET ON OR ORDER OTHERS \
         OUTER OVER PARTITION PLAN PRAGMA PRECEDING PRIMARY QUERY RAISE RANGE RECURSIVE REFERENCES REGEXP \
         REINDEX RELEASE RENAME REPLACE RESTRICT RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SELECT SET \
         TABLE TEMP TEMPORARY THEN TIES TO TRANSACTION TRIGGER UNBOUNDED UNION UNIQUE UPDATE USING VACUUM \
         VALUES VIEW VIRTUAL WHEN WHERE WINDOW WITH WITHOUT",
    )
});

/// Keywords that are usually column names.
const NAMES: [&str; 15] = [
    "ACTION", "CURRENT", "DATABASE", "EACH", "FIRST", "GROUPS", "KEY", "LAST", "OTHERS", "PLAN", "QUERY",
    "RANGE", "ROW", "ROWS", "TIES",
];

/// Values of a PRAGMA that are not secret: journal modes, levels and switches.
static SETTINGS: Words = LazyLock::new(|| {
    words(
        "DEFAULT DELETE EXCLUSIVE EXTRA FALSE FILE FULL INCREMENTAL MEMORY NO NONE NORMAL OFF ON PASSIVE \
         PERSIST RESTART TRUE TRUNCATE UTF8 WAL YES",
    )
});

fn is_among(word: &[u8], words: &[&str]) -> bool {
    // The longest keyword has 17 letters. This check limits the work for hostile statements.
    if word.len() > 17 {
        return false;
    }
    let word = word.to_ascii_uppercase();
    words.binary_search_by(|known| known.as_bytes().cmp(&word)).is_ok()
}

pub(super) fn is_keyword(word: &[u8]) -> bool {
    is_among(word, &KEYWORDS)
}

/// Whether a word is a keyword that is usually a column name, so that its case is kept.
pub(super) fn is_mostly_name(word: &[u8]) -> bool {
    is_among(word, &NAMES)
}

/// Whether a word is a literal value, such as `TRUE`.
pub(super) fn is_value(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"true") || word.eq_ignore_ascii_case(b"false")
}

/// Whether a word is a known PRAGMA value that is not secret.
pub(super) fn says_nothing(word: &[u8]) -> bool {
    is_among(word, &SETTINGS)
}

pub(super) fn names_table(keyword: &str) -> bool {
    matches!(keyword, "FROM" | "INDEX" | "INTO" | "JOIN" | "TABLE" | "TRIGGER" | "UPDATE" | "VIEW")
}

/// Whether a keyword can stand between a keyword such as `TABLE` and the name, as in `IF NOT EXISTS` or
/// `OR IGNORE`.
pub(super) fn is_before_name(keyword: &str) -> bool {
    matches!(
        keyword,
        "ABORT" | "EXISTS" | "FAIL" | "IF" | "IGNORE" | "INTO" | "NOT" | "OR" | "REPLACE" | "ROLLBACK"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_and_found_in_any_case() {
        assert!(KEYWORDS.is_sorted() && SETTINGS.is_sorted() && NAMES.is_sorted());
        assert!(is_keyword(b"select") && is_keyword(b"CURRENT_TIMESTAMP") && !is_keyword(b"selects"));
        assert!(KEYWORDS.iter().all(|word| word.len() <= 17));
        assert!(NAMES.iter().all(|word| is_keyword(word.as_bytes())));
        assert!(says_nothing(b"wal") && !says_nothing(b"swordfish"));
    }
}
