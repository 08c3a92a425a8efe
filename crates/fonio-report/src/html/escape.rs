//! Escapes text for HTML.

use std::fmt::{self, Write};

/// Text or an attribute value that is escaped when it is written. The escaped text is safe in elements and in
/// double-quoted attributes.
///
/// Control characters are replaced as in [`printable`](fonio_core::printable), because HTML cannot represent
/// some of them.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in fonio_core::printable(self.0).chars() {
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

/// Returns JSON for a `<script type="application/json">`. The first `</script` ends the element, even inside
/// a string, so `<` is escaped. In JSON, `<` occurs only in strings.
pub fn json_in_script(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}
