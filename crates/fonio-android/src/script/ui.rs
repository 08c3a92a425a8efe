//! Reads the dump of a screen by UI Automator, and finds the elements that can be touched.
//!
//! A dump is XML with an element `node` for each part of the screen; its attributes are `text`, `resource-id`, `class`,
//! `package`, `content-desc`, `clickable`, `enabled`, `bounds="[left,top][right,bottom]"` and others (AOSP,
//! `AccessibilityNodeInfoDumper.java`). Only start tags are read. Texts of apps can contain anything that XML allows.

use fonio_core::printable;

/// The most elements that are read of a screen.
const NODES_MAX: usize = 10_000;

/// An element of the screen that can be touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The package that shows it.
    pub package: String,
    /// Its name: the resource, or else the class.
    pub name: String,
    /// The point in its middle, in pixels from the left and the top.
    pub at: (u32, u32),
}

/// Returns the elements of a dump that can be touched, in the order of the dump; only those of a package, if one is named.
pub fn clickable(dump: &str, package: Option<&str>) -> Vec<Node> {
    tags(dump)
        .take(NODES_MAX)
        .filter(|tag| tag.is("clickable") && tag.is("enabled"))
        .filter(|tag| package.is_none_or(|package| tag.value("package") == Some(package)))
        .filter_map(|tag| {
            let text = |name| tag.value(name).filter(|value| !value.is_empty());
            Some(Node {
                package: printable(text("package").unwrap_or_default()).into_owned(),
                name: printable(text("resource-id").or_else(|| text("class")).unwrap_or_default())
                    .into_owned(),
                at: middle(tag.value("bounds")?)?,
            })
        })
        .collect()
}

/// The text of a start tag `node`, without its brackets.
#[derive(Clone, Copy)]
struct Tag<'t>(&'t str);

/// Returns the start tags of the elements `node`.
fn tags(dump: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = dump;
    std::iter::from_fn(move || {
        let begin = rest.find("<node ")? + "<node ".len();
        let tag = &rest[begin..];
        // A bracket inside a value does not end the tag.
        let mut is_value = false;
        let end = tag.find(|c| {
            is_value ^= c == '"';
            c == '>' && !is_value
        })?;
        rest = &tag[end..];
        Some(Tag(&tag[..end]))
    })
}

impl<'t> Tag<'t> {
    /// Returns the value of an attribute.
    fn value(self, name: &str) -> Option<&'t str> {
        let mut rest = self.0;
        loop {
            let (key, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_once('"')?;
            if key.trim() == name {
                return Some(value);
            }
            rest = after;
        }
    }

    fn is(self, name: &str) -> bool {
        self.value(name) == Some("true")
    }
}

/// Returns the middle of `[left,top][right,bottom]`; nothing for an empty area.
fn middle(bounds: &str) -> Option<(u32, u32)> {
    let (from, to) = bounds.strip_prefix('[')?.strip_suffix(']')?.split_once("][")?;
    let point = |text: &str| {
        let (x, y) = text.split_once(',')?;
        Some((x.parse::<u32>().ok()?, y.parse::<u32>().ok()?))
    };
    let ((left, top), (right, bottom)) = (point(from)?, point(to)?);
    (left < right && top < bottom).then(|| (left.midpoint(right), top.midpoint(bottom)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_can_be_touched() {
        let dump = r#"<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation="0">
<node index="0" text="a &gt; b > c" resource-id="" class="android.widget.FrameLayout" package="com.example" content-desc="clickable=&quot;true&quot;" clickable="false" enabled="true" bounds="[0,0][1080,2340]">
<node index="1" text="OK" resource-id="com.example:id/ok" class="android.widget.Button" package="com.example" clickable="true" enabled="true" bounds="[100,200][301,400]" />
<node index="2" text="" resource-id="" class="android.widget.ImageView" package="com.android.systemui" clickable="true" enabled="true" bounds="[0,0][10,10]" />
<node index="3" resource-id="com.example:id/off" package="com.example" clickable="true" enabled="false" bounds="[0,0][10,10]" />
<node index="4" resource-id="com.example:id/hidden" package="com.example" clickable="true" enabled="true" bounds="[5,5][5,9]" />
</node></hierarchy>"#;
        let ok =
            Node { package: "com.example".to_owned(), name: "com.example:id/ok".to_owned(), at: (200, 300) };
        assert_eq!(clickable(dump, Some("com.example")), std::slice::from_ref(&ok));
        let all = clickable(dump, None);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].name, "android.widget.ImageView");
    }

    #[test]
    fn broken_dumps_have_no_elements() {
        for dump in [
            "",
            "<node ",
            "<node clickable=\"true",
            "<node clickable=\"true\" enabled=\"true\" bounds=\"[1,2][3\">",
            "<node clickable=\"true\" enabled=\"true\" bounds=\"[-1,2][3,4]\">",
            "<node clickable=\"true\" enabled=\"true\" bounds=\"[9999999999,2][3,4]\">",
            "ERROR: could not get idle state.",
        ] {
            assert_eq!(clickable(dump, None), [], "{dump}");
        }
    }
}
