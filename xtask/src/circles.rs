//! Finds circles of files inside a crate, and imports through a crate's own root.
//!
//! The nodes are the source files of one crate; test files, and test modules at the end of a file, are left out. A file
//! has an edge to each file whose item it names by a path (`crate::…`, `super::…`, or a module's name). A re-export is
//! followed to the file that has the item, and is not an edge of its own: a `mod.rs` that only declares modules and
//! re-exports their items is therefore transparent. A submodule may name the items of its ancestors, as is usual in Rust:
//! it is a part of them. So it has no edge to them.
//!
//! The sources are read as text, not compiled: macros are not expanded, and an item that is reached through a glob import
//! counts as an item of the imported file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use xtask::process;

/// The maximum number of re-exports that are followed for one path; more would be a circle of re-exports.
const RE_EXPORTS_MAX: usize = 16;

/// The path of a module inside its crate; empty for the root.
type Module = Vec<String>;

/// One import: the path after `use`, and the name that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// A source file of a crate.
#[derive(Debug)]
struct File {
    /// The path as reports show it.
    shown: String,
    imports: Vec<Import>,
    /// Paths in the code outside imports.
    paths: Vec<Vec<String>>,
}

/// The files of a crate by module.
#[derive(Debug, Default)]
struct Sources {
    files: BTreeMap<Module, File>,
}

/// Returns the breaches of both rules, one sentence each.
pub fn breaches() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in crates()? {
        let sources = Sources::read(&folder)?;
        found.extend(circles(&sources.edges()).iter().map(|circle| {
            format!("{}: a circle of files; move what they share into a file of its own", shown(circle))
        }));
        found.extend(sources.imports_through_root());
    }
    Ok(found)
}

/// A circle with its first file at its end again.
fn shown(circle: &[&str]) -> String {
    format!("{} → {}", circle.join(" → "), circle[0])
}

/// The folders of the crates, in order.
fn crates() -> Result<Vec<PathBuf>> {
    let root = process::root();
    let mut folders = vec![root.join("studies"), root.join("xtask")];
    let entries = fs::read_dir(root.join("crates")).context("cannot list crates")?;
    for entry in entries {
        folders.push(entry.context("cannot list crates")?.path());
    }
    folders.retain(|folder| folder.join("src").is_dir());
    folders.sort();
    Ok(folders)
}

/// Adds the Rust files of a folder and of the folders in it, in order.
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
            // The program of a crate with a library is a crate of its own, whose modules are in the same
            // folder.
            let is_program = has_library && inside == Path::new("main.rs");
            let module = if is_program { vec!["main".to_owned()] } else { module_of(inside) };
            texts.insert(module, (shown, text));
        }
        Ok(Sources::of(texts))
    }

    /// Leaves out the modules that are compiled for tests only.
    fn of(texts: BTreeMap<Module, (String, String)>) -> Sources {
        let mut tests: BTreeSet<Module> = BTreeSet::new();
        for (module, (_, text)) in &texts {
            tests.extend(test_modules(text).into_iter().map(|name| [module.as_slice(), &[name]].concat()));
        }
        let is_test = |module: &Module| (1..=module.len()).any(|end| tests.contains(&module[..end]));
        let files = texts.into_iter().filter(|(module, _)| !is_test(module));
        let parsed = files.map(|(module, (shown, text))| {
            let (imports, rest) = split_imports(&production_code(&text));
            (module, File { shown, imports, paths: paths_in(&rest) })
        });
        Sources { files: parsed.collect() }
    }

    /// The file that a path leads to from a module, with re-exports followed. `None` if it leaves the crate.
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

    /// The module at which a path begins, and the rest of the path. `None` for a path into another crate.
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

    /// The deepest module on a path that has a file, and the rest of the path.
    fn descend<'a>(&self, module: &[String], path: &'a [String]) -> (&Module, &'a [String]) {
        let longest = (0..=path.len()).rev().find_map(|taken| {
            let inner = [module, &path[..taken]].concat();
            Some((self.files.get_key_value(&inner)?.0, &path[taken..]))
        });
        // A module without a file is in the file of its parent.
        longest.unwrap_or_else(|| self.descend(&module[..module.len().saturating_sub(1)], &[]))
    }

    /// Pairs of files; the first names an item of the second.
    fn edges(&self) -> Vec<(&str, &str)> {
        let mut edges = BTreeSet::new();
        for (module, file) in &self.files {
            let used = file.imports.iter().filter(|import| !import.is_public).map(|import| &import.path);
            // A path may begin with the name of an imported module.
            let inline = file.paths.iter().map(|path| file.with_alias(path));
            for path in used.cloned().chain(inline) {
                let Some(target) = self.resolve(module, &path) else { continue };
                // A submodule is a part of its parent: it may use the parent's types.
                if !module.starts_with(target) {
                    edges.insert((file.shown.as_str(), self.files[target].shown.as_str()));
                }
            }
        }
        edges.into_iter().collect()
    }

    /// Imports of an item from the crate's root, which re-exports it from another module.
    fn imports_through_root(&self) -> Vec<String> {
        let Some(root) = self.files.get(&Vec::new() as &Module) else { return Vec::new() };
        let mut found = BTreeSet::new();
        for (module, file) in &self.files {
            let paths = file.imports.iter().map(|import| &import.path).chain(&file.paths);
            for path in paths.filter(|path| path.len() > 1 && path[0] == "crate") {
                let is_re_export =
                    |import: &&Import| import.name == path[1] && self.start(&[], &import.path).is_some();
                let is_module = self.files.contains_key(&path[1..2]);
                if let Some(import) = root.imports.iter().find(is_re_export)
                    && !module.is_empty()
                    && !is_module
                {
                    found.insert(format!(
                        "{}: imports `crate::{}` through {}; write `crate::{}`",
                        file.shown,
                        path[1],
                        root.shown,
                        import
                            .path
                            .iter()
                            .filter(|word| *word != "crate" && *word != "self")
                            .cloned()
                            .collect::<Vec<_>>()
                            .join("::")
                    ));
                }
            }
        }
        found.into_iter().collect()
    }
}

impl File {
    /// A path in the code with the name of an import replaced by the imported path.
    fn with_alias(&self, path: &[String]) -> Vec<String> {
        match self.imports.iter().find(|import| import.name == path[0]) {
            Some(import) => import.path.iter().chain(&path[1..]).cloned().collect(),
            None => path.to_vec(),
        }
    }
}

/// The module of a file in `src`: `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` is the root, and `main.rs` without it.
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

/// The names of modules that have files of their own and are compiled for tests only.
fn test_modules(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_for_tests = false;
    for line in text.lines().map(str::trim) {
        let declared = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")).map(|(_, name)| name);
        if let Some(name) = declared.filter(|_| is_for_tests) {
            names.push(name.to_owned());
        }
        is_for_tests = line.starts_with("#[cfg(test)]") || (is_for_tests && line.starts_with("#["));
    }
    names
}

/// The code without comments, the contents of strings, and the test module at the end.
fn production_code(text: &str) -> String {
    let end = ["\n#[cfg(test)]\nmod ", "\n#[cfg(test)]\npub(crate) mod ", "\n#[cfg(all(test"]
        .iter()
        .filter_map(|start| {
            let at = text.find(start)?;
            text[at + 1..].lines().nth(1).is_some_and(|line| line.ends_with('{')).then_some(at)
        })
        .min()
        .unwrap_or(text.len());
    let mut code = String::with_capacity(end);
    let mut rest = text[..end].chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|letter| *letter == '\n');
                code.push('\n');
            }
            '"' => {
                while let Some(inside) = rest.next() {
                    match inside {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                code.push_str("\"\"");
            }
            // A quotation mark as a letter does not begin a string.
            '\'' if rest.peek() == Some(&'"') => drop(rest.next()),
            _ => code.push(letter),
        }
    }
    code
}

/// Takes the imports out of the code.
fn split_imports(code: &str) -> (Vec<Import>, String) {
    let mut imports = Vec::new();
    let mut rest = String::new();
    let mut is_for_tests = false;
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        let is_public = trimmed.starts_with("pub");
        let statement = if is_public {
            trimmed.split_once("use ").map(|(_, tree)| tree)
        } else {
            trimmed.strip_prefix("use ")
        };
        // `pub use`, `pub(crate) use`, `pub(super) use`: a word before `use` would be another item.
        let is_import =
            !is_public || trimmed.split_once(" use ").is_some_and(|(before, _)| !before.contains(' '));
        match statement.filter(|_| is_import) {
            Some(first) => {
                let mut tree = first.to_owned();
                while !tree.contains(';') {
                    let Some(next) = lines.next() else { break };
                    tree.push_str(next.trim());
                }
                if !is_for_tests {
                    expand(tree.trim_end_matches(';'), &[], is_public, &mut imports);
                }
            }
            None => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
        is_for_tests = trimmed.starts_with("#[cfg(test)]");
    }
    (imports, rest)
}

/// Adds each path of a tree such as `crate::a::{b, c::{self, D as E}}`.
fn expand(tree: &str, before: &[String], is_public: bool, into: &mut Vec<Import>) {
    let tree = tree.trim();
    if tree.is_empty() {
        return;
    }
    if let Some((head, inner)) = tree.split_once('{') {
        let mut path = before.to_vec();
        path.extend(
            head.split("::").filter(|word| !word.trim().is_empty()).map(|word| word.trim().to_owned()),
        );
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        let (mut depth, mut from) = (0, 0);
        for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inner[from..at], &path, is_public, into);
                    from = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (named, alias) =
        tree.split_once(" as ").map_or((tree, None), |(tree, alias)| (tree, Some(alias.trim())));
    let mut path = before.to_vec();
    path.extend(named.split("::").map(|word| word.trim().to_owned()));
    // `use a::{self}` imports `a`, and a glob names the module.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
        path.pop();
    }
    let name = alias.unwrap_or_else(|| path.last().map_or("", String::as_str)).to_owned();
    into.push(Import { path, name, is_public });
}

/// The paths of at least two words in the code.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut paths = BTreeSet::new();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let start = rest[..at].rfind(|letter| !is_word(letter)).map_or(0, |at| at + 1);
        let mut path = vec![rest[start..at].to_owned()];
        let mut after = &rest[at..];
        while let Some(next) = after.strip_prefix("::") {
            let end = next.find(|letter| !is_word(letter)).unwrap_or(next.len());
            if end == 0 {
                after = next;
                break;
            }
            path.push(next[..end].to_owned());
            after = &next[end..];
        }
        if !path[0].is_empty() {
            paths.insert(path);
        }
        rest = after;
    }
    paths.into_iter().collect()
}

/// The shortest circle of each set of files that reach each other.
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

/// The shortest path from a file to another one.
fn path<'a>(edges: &[(&'a str, &'a str)], from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::from([(from, from)]);
    let mut next = VecDeque::from([from]);
    while let Some(at) = next.pop_front() {
        if at == to {
            let mut path = vec![at];
            while let Some(earlier) =
                path.last().and_then(|last| before.get(last)).filter(|at| **at != path[path.len() - 1])
            {
                path.push(earlier);
            }
            path.reverse();
            return Some(path);
        }
        for (_, reached) in edges.iter().filter(|(from, _)| *from == at) {
            if !before.contains_key(reached) {
                before.insert(reached, at);
                next.push_back(reached);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sources of a crate from pairs of a path in `src` and a text.
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
        // `a` uses `inner`, not the room, and `outer` uses `a`.
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
        expand("crate::a::{self, b::{C, D as E}, f}", &[], false, &mut imports);
        let told: Vec<String> =
            imports.iter().map(|import| format!("{} = {}", import.name, import.path.join("::"))).collect();
        assert_eq!(told, ["a = crate::a", "C = crate::a::b::C", "E = crate::a::b::D", "f = crate::a::f"]);
    }
}
