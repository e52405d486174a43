//! The house rules: compares the tree with ARCHITECTURE.md and CONTRIBUTING.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(super) fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.as_ref().display()))
}

/// All files below a folder with one of these extensions, without build output and hidden folders.
pub(super) fn files(below: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || name.starts_with("target") || name == "rowlock-out" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found
}

/// The names of the crates, which are also those of their folders.
pub(super) fn crates() -> BTreeSet<String> {
    let folders = std::fs::read_dir(root().join("crates")).unwrap();
    folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn manifest(name: &str) -> toml::Table {
    read(root().join("crates").join(name).join("Cargo.toml")).parse().unwrap()
}

/// The table of edges in ARCHITECTURE.md: the crates that each crate may use.
fn allowed_edges() -> BTreeMap<String, BTreeSet<String>> {
    let text = read(root().join("ARCHITECTURE.md"));
    let table = text.split("| crate | purpose | may use |").nth(1).expect("the table of edges");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        (names(cells[0]).remove(0), names(cells[2]).into_iter().collect())
    })
    .collect()
}

/// Our crates that a manifest names in any of its tables of dependencies.
fn actual_edges(name: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut tables = vec![manifest(name)];
    while let Some(table) = tables.pop() {
        for (key, value) in table {
            let toml::Value::Table(inner) = value else { continue };
            if key.ends_with("dependencies") {
                // Tests of every crate may use `testing`.
                let is_for_tests = |name: &String| key == "dev-dependencies" && name == "testing";
                // Our packages `rowlock-NAME` are renamed to NAME in the workspace.
                let package = |(alias, value): (&String, &toml::Value)| {
                    let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(alias);
                    package.strip_prefix("rowlock-").unwrap_or(package).to_owned()
                };
                used.extend(
                    inner
                        .iter()
                        .map(package)
                        .filter(|package| crates().contains(package))
                        .filter(|package| !is_for_tests(package)),
                );
            } else {
                tables.push(inner);
            }
        }
    }
    used
}

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let allowed = allowed_edges();
    assert_eq!(allowed.keys().cloned().collect::<BTreeSet<_>>(), crates(), "the table and the folders");
    for (name, allowed_uses) in &allowed {
        let beyond: Vec<String> = actual_edges(name).difference(allowed_uses).cloned().collect();
        assert!(beyond.is_empty(), "`{name}` uses {beyond:?}, which the table in ARCHITECTURE.md does not allow");
    }
}

#[test]
fn the_simulator_and_the_host_do_not_depend_on_each_other() {
    let edges = allowed_edges();
    let reaches = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(name) = next.pop() {
            if seen.insert(name.clone()) {
                next.extend(edges[&name].iter().cloned());
            }
        }
        seen
    };
    for host_crate in ["host", "wait", "sys"] {
        assert!(!reaches("sim").contains(host_crate), "sim reaches {host_crate}");
        assert!(!reaches(host_crate).contains("sim"), "{host_crate} reaches sim");
    }
}

#[test]
fn every_crate_inherits_lints_and_licence() {
    for name in crates() {
        let manifest = manifest(&name);
        assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true), "{name}: lints");
        for key in ["license", "version", "edition", "rust-version"] {
            let inherited = manifest["package"][key].get("workspace").and_then(toml::Value::as_bool);
            assert_eq!(inherited, Some(true), "{name}: {key}");
        }
    }
}

#[test]
fn cargo_run_in_the_workspace_runs_the_command() {
    let default_run = |name: String| manifest(&name)["package"].get("default-run")?.as_str().map(str::to_owned);
    assert_eq!(crates().into_iter().filter_map(default_run).collect::<Vec<_>>(), ["rowlock"]);
}

/// Stamps take the files of other packages, and tests that are not compiled, for no inputs.
#[test]
fn manifests_say_which_files_of_others_the_sources_of_a_package_read() {
    for name in crates() {
        let folder = root().join("crates").join(&name);
        let manifest = manifest(&name);
        let reads = manifest["package"].get("metadata").and_then(|metadata| metadata.get("reads")?.as_array());
        let reads: Vec<&str> = reads.into_iter().flatten().filter_map(toml::Value::as_str).collect();
        for file in files(&folder, &[".rs"]) {
            let text = read(&file);
            let paths = text.split('"').map(|text| text.trim_start_matches('/')).filter(|text| text.starts_with("../"));
            for path in paths {
                let from = [file.parent().unwrap(), &folder];
                let Some(target) = from.iter().find_map(|from| from.join(path).canonicalize().ok()) else { continue };
                let is_test = |path: &Path| {
                    let inner = path.strip_prefix(&folder).unwrap_or(path);
                    ["tests", "examples", "benches"].iter().any(|tests| inner.starts_with(tests))
                };
                let target_at_root = target.strip_prefix(root()).unwrap();
                let is_allowed = if target.starts_with(&folder) {
                    is_test(&file) || !is_test(&target)
                } else if target == root() {
                    !reads.is_empty()
                } else {
                    let is_read = |read: &&str| *read == "." || target_at_root.starts_with(read);
                    target_at_root.starts_with("docs") || reads.iter().any(is_read)
                };
                assert!(is_allowed, "{}: {path} is not in `package.metadata.reads` of {name}", file.display());
            }
        }
    }
}

#[test]
fn tests_start_children_through_the_helper() {
    let exceptions = [
        // The test interrupts the standard library while it starts a child and reads from it.
        "fiber/tests/fiber/adversary/processes.rs",
        // The test's own process becomes the other program.
        "preload/tests/preloaded/processes.rs",
    ];
    let own = concat!("Command::", "new(");
    let tests = crates().into_iter().map(|name| root().join("crates").join(name).join("tests"));
    let files = tests.filter(|folder| folder.exists()).flat_map(|folder| files(&folder, &[".rs"]));
    let offenders = files.filter(|file| read(file).contains(own));
    let found: BTreeSet<PathBuf> =
        offenders.map(|file| file.strip_prefix(root().join("crates")).unwrap().to_owned()).collect();
    assert_eq!(found, exceptions.map(PathBuf::from).into(), "`testing::command` starts the children of tests");
}

/// The sources of a package's tests, including unit tests.
fn sources_of_tests(name: &str) -> Vec<String> {
    let folder = root().join("crates").join(name);
    let folders = ["src", "tests"].map(|part| folder.join(part)).into_iter().filter(|folder| folder.exists());
    folders.flat_map(|folder| files(&folder, &[".rs"])).map(read).collect()
}

#[test]
fn recorded_seeds_belong_to_existing_tests() {
    for name in crates() {
        let sources = sources_of_tests(&name);
        let seeds = std::fs::read_dir(root().join("crates").join(&name).join("tests/seeds"));
        for test in seeds.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
            let takes_seeds = |source: &String| {
                source.contains(&format!("fn {test}()")) && source.contains("testing::for_each_seed(")
            };
            let exists = test == "properties" || sources.iter().any(takes_seeds);
            assert!(exists, "crates/{name}/tests/seeds/{test}: no test of this name takes its seeds from here");
        }
    }
}

#[test]
fn recorded_failures_belong_to_existing_property_tests() {
    let lines = read(root().join("crates/testing/tests/seeds/properties"));
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let tests = line.split(' ').nth(2).unwrap_or_default();
        let mut parts = tests.split("::");
        let (package, program) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = package.strip_prefix("rowlock-").unwrap_or_default();
        let tests = root().join("crates").join(name).join("tests");
        let is_program =
            [format!("{program}.rs"), format!("{program}/main.rs")].iter().any(|file| tests.join(file).exists());
        assert!(crates().contains(name) && is_program, "{line}: no such program with tests");
        let sources = sources_of_tests(name);
        for part in parts.filter(|part| !part.is_empty()) {
            let says =
                |source: &String| source.contains(&format!("mod {part};")) || source.contains(&format!("fn {part}("));
            assert!(sources.iter().any(says), "{line}: no module and no test is called {part}");
        }
    }
}

#[test]
fn no_file_is_longer_than_600_lines() {
    for file in files(&root(), &[".rs"]) {
        let lines = read(&file).lines().count();
        assert!(lines <= 600, "{} has {lines} lines: divide it", file.display());
    }
}

/// The targets of a document's links to files and headings.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("::") && !target.contains("://"))
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    headings
        .map(|heading| heading.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn links_in_the_documents_have_targets() {
    for file in files(&root(), &[".md"]) {
        for target in links(&read(&file)) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let is_there = path.exists() && (anchor.is_empty() || anchors(&read(&path)).contains(anchor));
            assert!(is_there, "{} links to {target}, which does not exist", file.display());
        }
    }
}

#[test]
fn the_book_has_every_document_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let text = read(&summary);
    let mut listed: Vec<PathBuf> = links(&text).map(|target| docs.join(target)).collect();
    listed.sort();
    let mut documents: Vec<PathBuf> = files(&docs, &[".md"]).into_iter().filter(|file| *file != summary).collect();
    documents.sort();
    assert_eq!(listed, documents);
}

#[test]
fn links_out_of_the_book_lead_to_files_that_it_does_not_rename() {
    for file in files(&root().join("docs"), &[".md"]) {
        for target in links(&read(&file)) {
            let renamed = target.contains("../crates/") && target.contains(".md");
            assert!(!renamed, "{}: link to the folder of {target}: mdBook would look for .html", file.display());
        }
    }
}
