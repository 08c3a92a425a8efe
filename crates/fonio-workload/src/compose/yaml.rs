//! YAML as a tree of nodes that know their lines.
//!
//! Aliases are replaced by what they stand for, and merge keys (`<<`) by the entries of their mappings. The number of nodes
//! is limited, because a few aliases of aliases can stand for more nodes than the memory holds.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::error::Problem;

/// Maximum number of nodes of a file, after aliases are replaced.
const NODES_MAX: usize = 100_000;
/// Maximum depth of nodes.
const DEPTH_MAX: usize = 64;

/// A value and the line where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The line, from 1.
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    /// A text, a number or a Boolean: the reader of the value decides.
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The line of the key.
    pub(super) line: usize,
    pub(super) value: Node,
}

/// A collection that has begun.
struct Open {
    node: Node,
    anchor: usize,
    /// The key of a mapping whose value comes next, and its line.
    key: Option<(String, usize)>,
}

/// Parses a file with one document. Fails with the line if it is not YAML, has no document or several, or exceeds a limit.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: Vec<(usize, Node, usize)> = Vec::new();
    let (mut top, mut nodes): (Option<Node>, usize) = (None, 0);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            Problem::at(error.marker().line(), format!("this is not YAML: {}", error.info()))
        })?;
        let line = line(&span);
        let (finished, anchor, size) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
                    return Err(Problem::at(line, format!("the tag {tag} is not supported: leave it out")));
                }
                let is_null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { Value::Null } else { Value::Text(text.into_owned()) };
                (Node { line, value }, anchor, 1)
            }
            Event::SequenceStart(_, Some(tag)) | Event::MappingStart(_, Some(tag)) => {
                return Err(Problem::at(line, format!("the tag {tag} is not supported: leave it out")));
            }
            Event::SequenceStart(anchor, None) => {
                open.push(Open { node: Node { line, value: Value::List(Vec::new()) }, anchor, key: None });
                continue;
            }
            Event::MappingStart(anchor, None) => {
                open.push(Open { node: Node { line, value: Value::Map(Vec::new()) }, anchor, key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = open.pop() else { continue };
                let mut node = ended.node;
                merge(&mut node)?;
                (node, ended.anchor, 1)
            }
            Event::Alias(anchor) => {
                let found = anchors.iter().find(|(known, ..)| *known == anchor);
                let Some((_, node, size)) = found else {
                    return Err(Problem::at(
                        line,
                        "this alias stands for a part that contains it".to_owned(),
                    ));
                };
                // Errors name the place where the value is written.
                (node.clone(), 0, *size)
            }
            Event::DocumentStart(_) if top.is_some() => {
                return Err(Problem::at(
                    line,
                    "a second document begins here: write one per file".to_owned(),
                ));
            }
            _ => continue,
        };
        nodes += size;
        if nodes > NODES_MAX || open.len() > DEPTH_MAX {
            return Err(Problem::at(line, "the file has too many or too deep values".to_owned()));
        }
        if anchor != 0 {
            let size = count(&finished);
            nodes += size;
            anchors.push((anchor, finished.clone(), size));
        }
        match open.last_mut() {
            None => top = Some(finished),
            Some(Open { node: Node { value: Value::List(list), .. }, .. }) => list.push(finished),
            Some(Open { node: Node { value: Value::Map(map), .. }, key, .. }) => match key.take() {
                None => match finished.value {
                    Value::Text(text) => *key = Some((text, line)),
                    _ => return Err(Problem::at(line, "a key must be a text".to_owned())),
                },
                Some((key, line)) => {
                    if let Some(first) = map.iter().find(|entry| entry.key == key && key != "<<") {
                        let problem = format!("`{key}` is written twice; first in line {}", first.line);
                        return Err(Problem::at(line, problem));
                    }
                    map.push(Entry { key, line, value: finished });
                }
            },
            Some(_) => {}
        }
    }
    top.ok_or_else(|| Problem::at(1, "the file is empty".to_owned()))
}

fn line(span: &Span) -> usize {
    span.start.line()
}

fn count(node: &Node) -> usize {
    match &node.value {
        Value::Null | Value::Text(_) => 1,
        Value::List(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|entry| count(&entry.value)).sum::<usize>(),
    }
}

/// Replaces the merge keys of a mapping. Its own keys, and earlier mappings, win (yaml.org/type/merge.html).
fn merge(node: &mut Node) -> Result<(), Problem> {
    let Value::Map(map) = &mut node.value else { return Ok(()) };
    let (merged, mut kept): (Vec<Entry>, Vec<Entry>) =
        std::mem::take(map).into_iter().partition(|entry| entry.key == "<<");
    for entry in merged {
        let sources = match entry.value.value {
            Value::List(list) => list,
            value => vec![Node { line: entry.line, value }],
        };
        for source in sources {
            let Value::Map(entries) = source.value else {
                return Err(Problem::at(
                    source.line,
                    "`<<` needs a mapping, or a list of mappings".to_owned(),
                ));
            };
            for other in entries {
                if !kept.iter().any(|known| known.key == other.key) {
                    kept.push(other);
                }
            }
        }
    }
    *map = kept;
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Writes a node on one line, with the line numbers of keys.
    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Null => "null".to_owned(),
            Value::Text(text) => format!("{text:?}"),
            Value::List(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
            Value::Map(map) => {
                let entry = |entry: &Entry| format!("{}@{}: {}", entry.key, entry.line, shown(&entry.value));
                format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn check(text: &str, expected: &Expect) {
        let said = match parse(text) {
            Ok(node) => shown(&node),
            Err(Problem { line, problem }) => format!("line {line}: {problem}"),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn nodes_know_their_lines() {
        check("a: 1\nb:\n  - x\n  - 'null'\n  - ~\n", &expect![[r#"{a@1: "1", b@2: ["x", "null", null]}"#]]);
        check(
            "x-all: &all\n  image: i\n  user: u\none:\n  <<: *all\n  user: v\ntwo: *all\n",
            &expect![[
                r#"{x-all@1: {image@2: "i", user@3: "u"}, one@4: {user@6: "v", image@2: "i"}, two@7: {image@2: "i", user@3: "u"}}"#
            ]],
        );
        check("a: |\n  one\n  two\n", &expect![[r#"{a@1: "one\ntwo\n"}"#]]);
    }

    #[test]
    fn bad_files_are_refused_with_their_line() {
        check("", &expect!["line 1: the file is empty"]);
        check("a: 1\na: 2\n", &expect!["line 2: `a` is written twice; first in line 1"]);
        check("a: b\n---\nc: d\n", &expect!["line 2: a second document begins here: write one per file"]);
        check(
            "a: 1\nb: [1, 2\nc: 3\n",
            &expect!["line 3: this is not YAML: illegal placement of ':' indicator"],
        );
        check(
            "a:\n\tb: 1\n",
            &expect!["line 2: this is not YAML: tabs disallowed within this context (block indentation)"],
        );
        check("a: !reset null\n", &expect!["line 1: the tag !reset is not supported: leave it out"]);
        check("a: !reset {}\n", &expect!["line 1: the tag !reset is not supported: leave it out"]);
        check("a: &x [*x]\n", &expect!["line 1: this alias stands for a part that contains it"]);
        check("? [a]\n: 1\n", &expect!["line 1: a key must be a text"]);
    }

    #[test]
    fn aliases_of_aliases_are_limited() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for at in 1..20 {
            let before = at - 1;
            text += &format!("a{at}: &a{at} [{}]\n", vec![format!("*a{before}"); 10].join(", "));
        }
        check(&text, &expect!["line 5: the file has too many or too deep values"]);
        check(
            &"[".repeat(100),
            &expect!["line 2: this is not YAML: while parsing a node, did not find expected node content"],
        );
    }
}
