//! Text that stays text inside HTML.

use std::fmt::{self, Write};

/// Text, an attribute's value or a name from outside. Safe in elements and in double-quoted attributes.
///
/// Control characters are written as [`printable`](crate::text::printable) writes them: HTML has no way to hold some.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in crate::text::printable(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// JSON for a `<script type="application/json">`: the element ends at the first `</script`, wherever it stands, so no
/// `<` may occur. JSON has it only inside strings, where an escape says the same.
pub fn json_in_script(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}
