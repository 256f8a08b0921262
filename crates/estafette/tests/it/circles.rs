//! No circles: files of a room do not import each other in a loop, however long. Who reads one of
//! them need not know the others that build on it. A room's `mod.rs` introduces its files and is
//! known to them; what it imports does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{Source, shipped, sources};

/// The files of one crate, by their module paths.
struct Crate {
    files: BTreeMap<Vec<String>, usize>,
    texts: Vec<String>,
    paths: Vec<String>,
    /// What each file hands on: `pub use`.
    handed_on: Vec<Vec<Import>>,
    imports: Vec<Vec<Import>>,
}

/// A path as it is written, and the name that it has in the file.
#[derive(Clone)]
struct Import {
    name: String,
    path: Vec<String>,
}

impl Crate {
    /// `folder` is such as `service/src/`.
    fn of(folder: &str, all: &[Source]) -> Self {
        let mut found = Self {
            files: BTreeMap::new(),
            texts: vec![],
            paths: vec![],
            handed_on: vec![],
            imports: vec![],
        };
        for source in all {
            let Some(inside) = source.path.strip_prefix(folder) else { continue };
            if inside == "main.rs" {
                continue;
            }
            found.files.insert(module(inside), found.texts.len());
            let text = without_comments(&source.text);
            let (handed_on, imports) = uses(&text);
            found.texts.push(text);
            found.paths.push(source.path.clone());
            found.handed_on.push(handed_on);
            found.imports.push(imports);
        }
        found
    }

    /// The file that a path in the module `at` leads to; `None` outside of the crate.
    fn file(&self, at: &[String], path: &[String], depth: usize) -> Option<usize> {
        let mut here = at.to_vec();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (here, rest) = (vec![], &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    here.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                here.push(first.to_owned());
                self.files.get(&here)?;
                rest = &rest[1..];
            }
        }
        while let Some(part) = rest.first() {
            here.push(part.clone());
            if !self.files.contains_key(&here) {
                here.pop();
                break;
            }
            rest = &rest[1..];
        }
        let file = *self.files.get(&here)?;
        let handed = rest.first().filter(|_| depth < 5).and_then(|name| {
            let import = self.handed_on[file].iter().find(|import| import.name == *name)?;
            self.file(&here, &import.path, depth + 1)
        });
        Some(handed.unwrap_or(file))
    }

    /// Whom a file knows.
    fn known_to(&self, at: &[String], file: usize) -> BTreeSet<usize> {
        if self.paths[file].ends_with("/mod.rs") || self.paths[file].ends_with("/lib.rs") {
            return BTreeSet::new();
        }
        let named: BTreeMap<&str, &Import> =
            self.imports[file].iter().map(|import| (import.name.as_str(), import)).collect();
        let imported = self.imports[file].iter().map(|import| import.path.clone());
        let inline = inline(&self.texts[file]).into_iter().map(|path| {
            let Some(import) = path.first().and_then(|first| named.get(first.as_str())) else {
                return path;
            };
            [&import.path[..], &path[1..]].concat()
        });
        let known = imported.chain(inline).filter_map(|path| self.file(at, &path, 0));
        known.filter(|other| *other != file).collect()
    }

    /// The circles: files that lead to each other.
    fn circles(&self) -> Vec<String> {
        let arrows: Vec<(usize, BTreeSet<usize>)> =
            self.files.iter().map(|(at, file)| (*file, self.known_to(at, *file))).collect();
        let arrows: BTreeMap<usize, BTreeSet<usize>> = arrows.into_iter().collect();
        let reached = |from: usize| {
            let mut seen = BTreeSet::new();
            let mut open: Vec<usize> = arrows[&from].iter().copied().collect();
            while let Some(file) = open.pop() {
                if seen.insert(file) {
                    open.extend(&arrows[&file]);
                }
            }
            seen
        };
        let reached: BTreeMap<usize, BTreeSet<usize>> =
            arrows.keys().map(|file| (*file, reached(*file))).collect();
        let is_circle = |file: &usize| reached[file].contains(file);
        let mut circles = BTreeSet::new();
        for file in arrows.keys().copied().filter(is_circle) {
            let together =
                reached[&file].iter().filter(|other| reached[other].contains(&file)).copied();
            circles.insert(together.collect::<BTreeSet<usize>>());
        }
        let say = |circle: BTreeSet<usize>| {
            let names: Vec<&str> = circle.iter().map(|file| self.paths[*file].as_str()).collect();
            names.join(", ")
        };
        circles.into_iter().map(say).collect()
    }
}

/// `access/staff/mod.rs` is the module `access::staff`.
fn module(inside: &str) -> Vec<String> {
    let mut parts: Vec<String> =
        inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// What a text hands on, and what it imports, which is both.
fn uses(text: &str) -> (Vec<Import>, Vec<Import>) {
    let (mut handed_on, mut imports) = (vec![], vec![]);
    for line_start in std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)) {
        let rest = text[line_start..].trim_start();
        let is_public = rest.starts_with("pub");
        let tree = match rest.split_once("use ") {
            Some((before, tree)) if before.is_empty() || is_visibility(before) => tree,
            _ => continue,
        };
        let Some((tree, _)) = tree.split_once(';') else { continue };
        let mut found = vec![];
        expand(&[], tree, &mut found);
        if is_public {
            handed_on.extend(found.iter().cloned());
        } else {
            imports.extend(found);
        }
    }
    (handed_on, imports)
}

fn is_visibility(text: &str) -> bool {
    ["pub ", "pub(super) ", "pub(crate) "].contains(&text)
}

/// `a::{b, c as d}` is `a::b` and `a::c`, known here as `d`.
fn expand(before: &[String], tree: &str, found: &mut Vec<Import>) {
    let mut depth = 0;
    let mut start = 0;
    let mut parts = vec![];
    for (at, letter) in tree.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        let segments = |text: &str| -> Vec<String> {
            let parts = text.split("::").map(str::trim).filter(|part| !part.is_empty());
            before.iter().cloned().chain(parts.map(str::to_owned)).collect()
        };
        if let Some((head, rest)) = part.split_once('{') {
            expand(&segments(head), rest.trim_end().trim_end_matches('}'), found);
            continue;
        }
        let (path, alias) = part.split_once(" as ").map_or((part, None), |(p, a)| (p, Some(a)));
        let mut path = segments(path);
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let Some(last) = path.last().cloned() else { continue };
        found.push(Import { name: alias.map_or(last, |alias| alias.trim().to_owned()), path });
    }
}

/// Paths in the code, such as `store::ADD` or `super::find`.
fn inline(text: &str) -> Vec<Vec<String>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = text.split(|letter: char| !is_part(letter));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with("::"));
    paths
        .map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect())
        .filter(|path: &Vec<String>| path.len() > 1)
        .collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut circles = vec![];
    for name in [
        "service",
        "engines",
        "devtools",
        "store",
        "smpp",
        "playground",
        "clock",
        "numbering",
        "sms-text",
    ] {
        let all = shipped(sources(&crates.join(name).join("src")));
        let found = Crate::of(&format!("{name}/src/"), &all);
        assert!(!found.texts.is_empty(), "no files of {name}");
        circles.extend(found.circles());
    }
    assert!(circles.is_empty(), "{} circles:\n{}", circles.len(), circles.join("\n"));
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let of = |name: &str, text: &str| Source {
        path: format!("service/src/otp/{name}.rs"),
        text: text.to_owned(),
    };
    let mod_rs = || of("mod", "mod send;\nmod store;\nmod view;\npub use view::View;\n");
    let circles = |texts: [&str; 3]| {
        let [send, store, view] = texts;
        let all = [mod_rs(), of("send", send), of("store", store), of("view", view)];
        Crate::of("service/src/", &all).circles()
    };
    let straight = ["use super::store as sql;", "", "use super::{send, store};"];
    assert_eq!(circles(straight), Vec::<String>::new());
    let whole = "service/src/otp/send.rs, service/src/otp/store.rs";
    assert_eq!(circles(["use super::store as sql;", "use super::send::Order;", ""]), [whole]);
    assert_eq!(circles(["fn a() { super::store::b() }", "use crate::otp::{send};", ""]), [whole]);
    let three = "service/src/otp/send.rs, service/src/otp/store.rs, service/src/otp/view.rs";
    let handed_on = ["use super::store;", "use super::View;", "use super::send::{self, Order};"];
    assert_eq!(circles(handed_on), [three], "`View` is handed on by mod.rs");
    assert_eq!(circles(["// use super::store;", "use super::send;", ""]), Vec::<String>::new());
}
