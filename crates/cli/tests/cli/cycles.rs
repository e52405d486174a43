//! Layers within a crate: import cycles are small. The imports are computed from the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The maximum number of files in an import cycle.
const MAX_FILES: usize = 8;

/// The imports of each module of a crate. Modules are identified by their paths; the root is the
/// empty path.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The module paths and sources of all files below `src`.
fn modules(src: &Path) -> BTreeMap<Vec<String>, String> {
    let files = super::house::files(src, &[".rs"]).into_iter();
    files
        .map(|file| {
            let path = file.strip_prefix(src).unwrap().with_extension("");
            let path: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let path = if path == ["lib"] || path == ["main"] { Vec::new() } else { path };
            (path, std::fs::read_to_string(&file).unwrap())
        })
        .collect()
}

/// The source without comments and without its tests at the end.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Every path in a source that begins with `crate`, `self` or `super`. Groups in braces are
/// expanded.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|char| char.is_alphanumeric() || char == '_' || char == ':') {
                continue;
            }
            expand(&code[at..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Parses a path such as `a::b::{c, d::e}` at the beginning of `code`, adds all paths in it to
/// `found`, and returns the rest.
fn expand<'c>(code: &'c str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'c str {
    let mut rest = code.trim_start();
    let depth = prefix.len();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            rest = group;
            loop {
                rest = expand(rest, prefix, found).trim_start();
                match rest.strip_prefix(',') {
                    Some(next) => rest = next,
                    None => break,
                }
            }
            rest = rest.strip_prefix('}').unwrap_or(rest);
            break;
        }
        let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        prefix.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) => rest = next,
            None => {
                found.push(prefix.clone());
                break;
            }
        }
    }
    prefix.truncate(depth);
    rest
}

/// The modules that each module imports.
fn imports(modules: &BTreeMap<Vec<String>, String>) -> Imports {
    let resolve = |from: &[String], path: &[String]| {
        let mut at: Vec<String> = match path[0].as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            _ => from.split_last().map_or(Vec::new(), |(_, parent)| parent.to_vec()),
        };
        let mut rest = &path[1..];
        while rest.first().is_some_and(|name| name == "super") {
            at.pop();
            rest = &rest[1..];
        }
        at.extend(rest.iter().cloned());
        // The longest prefix that is a file. The root only re-exports and is not a target.
        (1..=at.len()).rev().map(|length| at[..length].to_vec()).find(|path| modules.contains_key(path))
    };
    modules
        .iter()
        .map(|(module, source)| {
            let targets = paths(&code(source)).into_iter().filter_map(|path| resolve(module, &path));
            (module.clone(), targets.filter(|target| target != module).collect())
        })
        .collect()
}

/// All modules that are reachable from one by imports.
fn reachable(imports: &Imports, from: &[String]) -> BTreeSet<Vec<String>> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for target in &imports[&module] {
            if seen.insert(target.clone()) {
                next.push(target.clone());
            }
        }
    }
    seen
}

/// The largest set of modules that all reach each other. Empty if there is no cycle.
fn largest_cycle(imports: &Imports) -> Vec<String> {
    let reached: BTreeMap<_, _> = imports.keys().map(|module| (module, reachable(imports, module))).collect();
    let cycles = imports.keys().map(|module| {
        let with = reached[module].iter().filter(|other| reached[*other].contains(module));
        with.map(|path| path.join("::")).collect::<Vec<_>>()
    });
    cycles.max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn import_cycles_are_small() {
    let too_large = |name: &String| {
        let src = super::house::root().join("crates").join(name).join("src");
        let cycle = largest_cycle(&imports(&modules(&src)));
        (cycle.len() > MAX_FILES).then(|| format!("{name}: a cycle of {} files: {}", cycle.len(), cycle.join(", ")))
    };
    let found: Vec<String> = super::house::crates().iter().filter_map(too_large).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_cycle_is_found_through_groups_and_parents_and_tests_are_left_out() {
    let file = |path: &str, text: &str| (path.split("::").map(str::to_owned).collect(), text.to_owned());
    let sources = BTreeMap::from([
        file("a", "use crate::b::{self, c::{D, e}};"),
        file("b", "// crate::a\nmod c;"),
        file("b::c", "use super::super::a::X;\n#[cfg(test)]\nmod tests {\n    use crate::d;\n}\n"),
        file("d", "use crate::a;"),
    ]);
    assert_eq!(largest_cycle(&imports(&sources)), ["a", "b::c"]);
}
