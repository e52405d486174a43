//! The diagnostics of a collection of invalid files, one snapshot for each.

#[test]
fn every_invalid_file_has_complete_diagnostics() {
    let gallery = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenario/bad");
    let mut files: Vec<_> = std::fs::read_dir(gallery).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10);
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let diagnostics = rowlock_scenario::read(name, &bytes).expect_err(name);
        insta::assert_snapshot!(name, diagnostics.to_string());
    }
}

#[test]
fn the_first_invalid_byte_of_a_binary_file_is_reported() {
    let diagnostics = rowlock_scenario::read("junk.toml", b"[machine]\ncpus = \xff\xfe\x00\x01").unwrap_err();
    insta::assert_snapshot!("junk.toml", diagnostics.to_string());
}

#[test]
fn colours_change_only_the_colour() {
    let diagnostics = rowlock_scenario::read("file.toml", b"titel = 1").unwrap_err();
    let coloured = diagnostics.render(true);
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut escaped = false;
    for c in coloured.chars() {
        match c {
            '\u{1b}' => escaped = true,
            'm' if escaped => escaped = false,
            c if !escaped => plain.push(c),
            _ => {}
        }
    }
    assert_eq!(plain, diagnostics.render(false));
}
