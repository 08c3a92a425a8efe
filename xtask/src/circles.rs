//! Finds circular dependencies between the files of a crate, and imports through the crate's own root.
//!
//! The nodes of the graph are the source files of one crate, without test files, and without test modules at
//! the end of a file. If a file names an item by a path that begins with `crate::`, `super::` or the name of
//! a module, the graph has an edge from this file to the file that defines the item. A re-export adds no
//! edge: a path through a re-export is followed to the file that defines the item. Therefore, a `mod.rs` with
//! only modules and re-exports is transparent. A submodule has no edge to its ancestors, because in Rust a
//! submodule may use their items.
//!
//! The sources are read as text. Macros are not expanded, and an item from a glob import is attributed to the
//! imported file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use xtask::process;

/// Maximum number of re-exports that are followed for one path. A path with more re-exports would be
/// circular.
const RE_EXPORTS_MAX: usize = 16;

/// The path of a module inside its crate; empty for the crate's root.
type Module = Vec<String>;

/// One imported name, with the path after `use`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// A source file of a crate.
#[derive(Debug)]
struct File {
    /// The path of the file, as violations show it.
    shown: String,
    imports: Vec<Import>,
    /// The paths of at least two words that occur in the code outside imports.
    paths: BTreeSet<Vec<String>>,
}

/// The source files of a crate, by module.
#[derive(Debug, Default)]
struct Sources {
    files: BTreeMap<Module, File>,
}

/// Returns the violations of the rules on circles and imports, one sentence each.
pub fn breaches() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in crates()? {
        let sources = Sources::read(&folder)?;
        found.extend(circles(&sources.edges()).iter().map(|circle| {
            format!(
                "{}: these files form a cycle; move the items that they share to a new file",
                shown(circle)
            )
        }));
        found.extend(sources.imports_through_root());
    }
    Ok(found)
}

fn shown(circle: &[&str]) -> String {
    format!("{} → {}", circle.join(" → "), circle[0])
}

fn crates() -> Result<Vec<PathBuf>> {
    let root = process::root();
    let mut folders = vec![root.join("python"), root.join("studies"), root.join("xtask")];
    let entries = fs::read_dir(root.join("crates")).context("cannot list crates")?;
    for entry in entries {
        folders.push(entry.context("cannot list crates")?.path());
    }
    folders.retain(|folder| folder.join("src").is_dir());
    folders.sort();
    Ok(folders)
}

/// Adds the paths of the Rust files in a folder and its subfolders, in order.
pub fn collect_sources(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("node_modules") && !path.ends_with("target") {
            collect_sources(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
    into.sort();
    Ok(())
}

impl Sources {
    fn read(folder: &Path) -> Result<Sources> {
        let mut paths = Vec::new();
        collect_sources(&folder.join("src"), &mut paths)?;
        let has_library = folder.join("src/lib.rs").is_file();
        let mut texts = BTreeMap::new();
        for path in paths {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let shown = path.strip_prefix(process::root()).unwrap_or(&path).display().to_string();
            let inside = path.strip_prefix(folder.join("src")).unwrap_or(&path);
            // If a package has a library, `main.rs` is the root of another crate. The modules of both crates
            // are in the same folder.
            let is_program = has_library && inside == Path::new("main.rs");
            let module = if is_program { vec!["main".to_owned()] } else { module_of(inside) };
            texts.insert(module, (shown, text));
        }
        Ok(Sources::of(texts))
    }

    /// Removes the modules that are compiled only for tests.
    fn of(texts: BTreeMap<Module, (String, String)>) -> Sources {
        let mut tests: BTreeSet<Module> = BTreeSet::new();
        let mut files = BTreeMap::new();
        for (module, (shown, text)) in texts {
            let (file, for_tests) = File::parse(shown, &text);
            tests.extend(for_tests.into_iter().map(|name| [module.as_slice(), &[name]].concat()));
            files.insert(module, file);
        }
        files.retain(|module, _| !(1..=module.len()).any(|end| tests.contains(&module[..end])));
        Sources { files }
    }

    /// Returns the module with the file that defines the item of a path; `None` if the path leads to another
    /// crate. Re-exports are followed.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<&Module> {
        let mut at = self.start(from, path)?;
        for _ in 0..RE_EXPORTS_MAX {
            let (module, rest) = self.descend(&at.0, &at.1);
            let Some(item) = rest.first() else { return Some(module) };
            let re_export = self.files[module].imports.iter().find(|import| import.name == *item);
            let Some(import) = re_export else { return Some(module) };
            let mut path = import.path.clone();
            path.extend_from_slice(&rest[1..]);
            match self.start(module, &path) {
                Some(next) => at = next,
                None => return Some(module),
            }
        }
        None
    }

    /// Returns the module at which a path begins, and the rest of the path; `None` for a path into another
    /// crate.
    fn start(&self, from: &[String], path: &[String]) -> Option<(Module, Vec<String>)> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest.to_vec())),
            "self" => Some((from.to_vec(), rest.to_vec())),
            "super" => {
                let up = path.iter().take_while(|word| *word == "super").count();
                Some((from[..from.len().checked_sub(up)?].to_vec(), path[up..].to_vec()))
            }
            child if self.files.contains_key(&[from, &[child.to_owned()]].concat()) => {
                Some((from.to_vec(), path.to_vec()))
            }
            _ => None,
        }
    }

    /// Returns the deepest module on a path among those that have their own file, and the rest of the path.
    fn descend<'a>(&self, module: &[String], path: &'a [String]) -> (&Module, &'a [String]) {
        let longest = (0..=path.len()).rev().find_map(|taken| {
            let inner = [module, &path[..taken]].concat();
            Some((self.files.get_key_value(&inner)?.0, &path[taken..]))
        });
        // A module without its own file is in its parent's file.
        longest.unwrap_or_else(|| self.descend(&module[..module.len().saturating_sub(1)], &[]))
    }

    /// Returns pairs of files in which the first file names an item of the second file.
    fn edges(&self) -> Vec<(&str, &str)> {
        let mut edges = BTreeSet::new();
        for (module, file) in &self.files {
            let used = file.imports.iter().filter(|import| !import.is_public).map(|import| &import.path);
            // A path may begin with the name of an imported module.
            let inline = file.paths.iter().map(|path| file.with_alias(path));
            for path in used.cloned().chain(inline) {
                let Some(target) = self.resolve(module, &path) else { continue };
                // A submodule may use its ancestors' items.
                if !module.starts_with(target) {
                    edges.insert((file.shown.as_str(), self.files[target].shown.as_str()));
                }
            }
        }
        edges.into_iter().collect()
    }

    /// Returns the imports through the crate's root of items that the root re-exports from another module.
    fn imports_through_root(&self) -> Vec<String> {
        let Some(root) = self.files.get(&Vec::new() as &Module) else { return Vec::new() };
        let is_shortened = |word: &&String| !["crate", "self"].contains(&word.as_str());
        let mut found = BTreeSet::new();
        for (_, file) in self.files.iter().filter(|(module, _)| !module.is_empty()) {
            let paths = file.imports.iter().map(|import| &import.path).chain(&file.paths);
            for path in paths.filter(|path| path.len() > 1 && path[0] == "crate") {
                let name = &path[1];
                let re_export = root.imports.iter().find(|import| import.name == *name);
                let re_export = re_export.filter(|import| self.start(&[], &import.path).is_some());
                if let Some(import) = re_export
                    && !self.files.contains_key(&path[1..2])
                {
                    let own: Vec<String> = import.path.iter().filter(is_shortened).cloned().collect();
                    let (file, root, own) = (&file.shown, &root.shown, own.join("::"));
                    found.insert(format!(
                        "{file}: imports `crate::{name}` through {root}; write `crate::{own}`"
                    ));
                }
            }
        }
        found.into_iter().collect()
    }
}

impl File {
    /// Reads the imports and paths of a file outside its test modules. Also returns the names of modules that
    /// are in other files and are compiled only for tests.
    fn parse(shown: String, text: &str) -> (File, Vec<String>) {
        let mut file = File { shown, imports: Vec::new(), paths: BTreeSet::new() };
        let (mut for_tests, mut is_for_tests) = (Vec::new(), false);
        let tokens = tokens(text);
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += match rest {
                ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "all", "(", "test", ..] => {
                    is_for_tests = true;
                    5
                }
                ["mod", name, ";", ..] if is_for_tests => {
                    for_tests.push((*name).to_owned());
                    2
                }
                ["mod", _, "{", ..] if is_for_tests => closed(rest),
                ["use", next, ..] if *next != "<" => {
                    let end = rest.iter().position(|token| *token == ";").unwrap_or(rest.len());
                    let is_public = at > 0 && ["pub", ")"].contains(&tokens[at - 1]);
                    if !is_for_tests {
                        expand(&rest[1..end], &[], is_public, &mut file.imports);
                    }
                    end
                }
                [first, "::", ..] if first.chars().all(is_word) => {
                    let pairs = rest[1..].chunks_exact(2);
                    let words = pairs.take_while(|pair| pair[0] == "::" && pair[1].chars().all(is_word));
                    let path: Vec<&str> = std::iter::once(*first).chain(words.map(|pair| pair[1])).collect();
                    let length = path.len() * 2 - 1;
                    if path.len() > 1 {
                        file.paths.insert(path.into_iter().map(str::to_owned).collect());
                    }
                    length
                }
                [token, ..] => {
                    is_for_tests &= ![";", "{", "}"].contains(token);
                    1
                }
                [] => break,
            };
        }
        (file, for_tests)
    }

    /// Replaces an imported name at the start of a path by the imported path.
    fn with_alias(&self, path: &[String]) -> Vec<String> {
        match self.imports.iter().find(|import| import.name == path[0]) {
            Some(import) => import.path.iter().chain(&path[1..]).cloned().collect(),
            None => path.to_vec(),
        }
    }
}

/// Returns the module of a file in `src`: `a/b.rs` and `a/b/mod.rs` are `a::b`. The root is `lib.rs` or, if
/// it does not exist, `main.rs`.
fn module_of(inside: &Path) -> Module {
    let mut module: Module =
        inside.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_own =
        |last: &String| last == "mod" || (inside.iter().count() == 1 && (last == "lib" || last == "main"));
    if module.last().is_some_and(is_own) {
        module.pop();
    }
    module
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Splits code into words, `::` and other tokens, without comments, strings and character literals.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = |end: &str, after: usize| {
            rest.get(after..).and_then(|rest| rest.find(end)).map_or(rest.len(), |at| after + at + end.len())
        };
        let (length, is_code) = match first {
            'r' if rest.starts_with("r#\"") => (found("\"#", 3), false),
            '/' if rest.starts_with("//") => (found("\n", 2), false),
            '"' => (string(rest), false),
            '\'' if rest.starts_with("'\\") => (found("'", 3), false),
            '\'' => match rest.char_indices().nth(2) {
                Some((at, '\'')) => (at + 1, false),
                _ => (1, false),
            },
            ':' if rest.starts_with("::") => (2, true),
            letter if is_word(letter) => (rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()), true),
            letter => (letter.len_utf8(), !letter.is_whitespace()),
        };
        let (token, after) = rest.split_at(length);
        tokens.extend(is_code.then_some(token));
        rest = after;
    }
    tokens
}

/// Returns the length of the string literal at the start of a text.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text[1..].find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |at| at + 2)
}

/// Returns the number of tokens up to the brace that closes the first brace.
fn closed(tokens: &[&str]) -> usize {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        depth == 0 && *token == "}"
    });
    end.map_or(tokens.len(), |at| at + 1)
}

/// Adds each path of an import tree such as `crate::a::{b, c::{self, D as E}}`.
fn expand(tree: &[&str], before: &[String], is_public: bool, into: &mut Vec<Import>) {
    let joined = |words: &[&str]| {
        let words = words.iter().filter(|word| **word != "::").map(|word| (*word).to_owned());
        before.iter().cloned().chain(words).collect::<Vec<String>>()
    };
    if let Some(open) = tree.iter().position(|token| *token == "{") {
        let path = joined(&tree[..open]);
        let mut depth = 0;
        let parts = tree[open + 1..tree.len() - 1].split(|token| {
            depth += i32::from(*token == "{") - i32::from(*token == "}");
            depth == 0 && *token == ","
        });
        parts.for_each(|part| expand(part, &path, is_public, into));
        return;
    }
    let (named, alias) = match tree {
        [] => return,
        [named @ .., "as", alias] => (named, Some((*alias).to_owned())),
        named => (named, None),
    };
    let mut path = joined(named);
    // `use a::{self}` imports `a`, and a glob import names the imported module.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
        path.pop();
    }
    let name = alias.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
    into.push(Import { path, name, is_public });
}

/// Returns the shortest circle in each set of files that all depend on each other.
fn circles<'a>(edges: &[(&'a str, &'a str)]) -> Vec<Vec<&'a str>> {
    let mut all: Vec<Vec<&str>> = edges.iter().filter_map(|(from, to)| path(edges, to, from)).collect();
    all.iter_mut().for_each(|circle| circle.rotate_right(1));
    all.sort_by_key(Vec::len);
    let mut found: Vec<Vec<&str>> = Vec::new();
    for circle in all {
        let is_connected = |other: &Vec<&'a str>| {
            path(edges, other[0], circle[0]).is_some() && path(edges, circle[0], other[0]).is_some()
        };
        if !found.iter().any(is_connected) {
            found.push(circle);
        }
    }
    found
}

/// Returns the shortest path of dependencies from one file to another.
fn path<'a>(edges: &[(&'a str, &'a str)], from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
    let mut known = BTreeSet::from([from]);
    let mut next = VecDeque::from([vec![from]]);
    while let Some(path) = next.pop_front() {
        let at = path[path.len() - 1];
        if at == to {
            return Some(path);
        }
        for (_, reached) in edges.iter().filter(|(from, _)| *from == at) {
            if known.insert(reached) {
                next.push_back([&path[..], &[reached]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the sources of a crate from pairs of a path in `src` and a text.
    fn sources(files: &[(&str, &str)]) -> Sources {
        let file = |(path, text): &(&str, &str)| {
            (module_of(Path::new(path)), ((*path).to_owned(), (*text).to_owned()))
        };
        Sources::of(files.iter().map(file).collect())
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        circles(&sources(files).edges()).iter().map(|circle| shown(circle)).collect()
    }

    #[test]
    fn a_circle_over_three_files_is_found_once() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::{B, other};\n"),
            ("b.rs", "fn b() { super::c::run(); }\n"),
            ("c.rs", "use super::a;\nfn run() { a::go(); }\n"),
        ];
        assert_eq!(found(&files), ["a.rs → b.rs → c.rs → a.rs"]);
        assert!(found(&files[..3]).is_empty());
    }

    #[test]
    fn re_exports_are_followed_and_submodules_are_parts_of_their_parent() {
        let files = [
            ("lib.rs", "mod a;\nmod room;\n"),
            ("a.rs", "use crate::room::Inner;\n"),
            ("room/mod.rs", "mod inner;\nmod outer;\npub use inner::Inner;\nfn f() { outer::go(); }\n"),
            ("room/inner.rs", "use super::Room;\n"),
            ("room/outer.rs", "use super::inner::Inner;\nuse crate::a;\n"),
        ];
        // Through the re-export, `a` uses `inner` and not the parent of `inner`. `outer` uses `a`.
        assert!(found(&files).is_empty());
        let closed = [&files[..], &[("room/inner.rs", "use crate::room::outer::Outer;\n")]].concat();
        assert_eq!(found(&closed), ["room/inner.rs → room/outer.rs → room/inner.rs"]);
    }

    #[test]
    fn tests_comments_and_strings_are_left_out() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod loads;\n"),
            ("a.rs", "use crate::b::B;\n"),
            (
                "b.rs",
                "// crate::a::A\nconst TEXT: &str = \"crate::a::A\";\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
            ("loads.rs", "use crate::a::A;\n"),
        ];
        assert!(found(&files).is_empty());
        assert_eq!(sources(&files).files.len(), 3);
    }

    #[test]
    fn an_import_through_the_root_is_found() {
        let files = [
            ("lib.rs", "mod a;\npub mod b;\npub use a::{Thing, b};\n"),
            ("a.rs", "use crate::b;\n"),
            ("b.rs", "use crate::Thing;\n"),
        ];
        assert_eq!(
            sources(&files).imports_through_root(),
            ["b.rs: imports `crate::Thing` through lib.rs; write `crate::a::Thing`"]
        );
    }

    #[test]
    fn a_tree_of_imports_is_expanded() {
        let mut imports = Vec::new();
        expand(&tokens("crate::a::{self, b::{C, D as E}, f}"), &[], false, &mut imports);
        let shown: Vec<String> =
            imports.iter().map(|import| format!("{} = {}", import.name, import.path.join("::"))).collect();
        assert_eq!(shown, ["a = crate::a", "C = crate::a::b::C", "E = crate::a::b::D", "f = crate::a::f"]);
    }
}
