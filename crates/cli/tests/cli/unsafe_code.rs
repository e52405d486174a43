//! The inventory of unsafe code: SECURITY.md says how much of it each crate has.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::house::{crates, files, read, root};

/// How much unsafe code there is: blocks; functions; traits and their implementations; attributes.
/// An extern block counts as a block.
type Counts = [usize; 4];

/// Adds the unsafe code of a source, for all processors and configurations. A macro counts once.
fn count(source: TokenStream, counts: &mut Counts) {
    let mut tokens = source.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => count(group.stream(), counts),
            TokenTree::Ident(word) if word == "unsafe" => {
                let mut rest = tokens.clone();
                if rest.next_if(|token| token.to_string() == "extern").is_some() {
                    rest.next_if(|token| matches!(token, TokenTree::Literal(_)));
                }
                let kind = match rest.next() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => Some(3),
                    Some(TokenTree::Group(_)) => Some(0),
                    Some(TokenTree::Ident(word)) if word == "trait" || word == "impl" => Some(2),
                    // A function has a name, or a macro gives it one. A type of functions has none.
                    Some(TokenTree::Ident(word)) if word == "fn" => {
                        rest.next().filter(|next| !matches!(next, TokenTree::Group(_))).map(|_| 1)
                    }
                    _ => None,
                };
                kind.into_iter().for_each(|kind| counts[kind] += 1);
            }
            _ => (),
        }
    }
}

/// The unsafe code of a crate without that of `tests/`.
fn counts(name: &str) -> Counts {
    let mut counts = Counts::default();
    for file in files(&root().join("crates").join(name).join("src"), &[".rs"]) {
        let source = read(&file).parse().unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        count(source, &mut counts);
    }
    counts
}

/// The rows of the table in SECURITY.md, by crate.
fn recorded() -> BTreeMap<String, String> {
    let text = read(root().join("SECURITY.md"));
    let table = text.split("| crate | blocks |").nth(1).expect("the table of unsafe code");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| (row.split('`').nth(1).unwrap_or_default().to_owned(), row.to_owned())).collect()
}

#[test]
fn only_the_listed_crates_contain_unsafe_code() {
    for name in crates().into_iter().filter(|name| !recorded().contains_key(name)) {
        let source = root().join("crates").join(&name).join("src");
        let entry = ["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().find(|file| file.exists()).unwrap();
        assert!(read(&entry).contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
    }
}

#[test]
fn the_amount_of_unsafe_code_is_recorded() {
    let mut changes = String::new();
    for (name, row) in recorded() {
        let [blocks, functions, traits, attributes] = counts(&name);
        let found = format!("| `{name}` | {blocks} | {functions} | {traits} | {attributes} |");
        if row != found {
            changes += &format!("-{row}\n+{found}\n");
        }
    }
    assert!(
        changes.is_empty(),
        "\nThe table in SECURITY.md does not match the sources. If there is more unsafe code: can safe code, a library \
         or a function that exists do the same? If not, check that each block has its argument and each function its \
         conditions. Then change the table in the same commit, also if there is less:\n\n{changes}"
    );
}

#[test]
fn unsafe_code_is_counted_by_kind() {
    let source = r##"
        // unsafe { comment() }
        const TEXT: &str = "unsafe { text() }";
        type Function = unsafe extern "C" fn(unsafe fn(u8));
        unsafe trait Promise {}
        unsafe impl Promise for u8 {}
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn exported() { unsafe { unsafe { inner() } } }
        unsafe extern "C" { fn foreign(); }
        macro_rules! makes { ($name:ident) => { unsafe fn $name() {} }; }
    "##;
    let mut counts = Counts::default();
    count(source.parse().unwrap(), &mut counts);
    assert_eq!(counts, [3, 2, 2, 1]);
}
