//! Compares the guide for users with the tables in the code.

use rowlock_pipeline::{environment, structure};

const PAGE: &str = include_str!("../../../../docs/pipeline.md");

#[test]
fn the_page_lists_all_keys_with_their_meanings() {
    for key in structure::KEYS {
        let row = format!("| `{}` | {} |", key.example, key.meaning);
        assert!(PAGE.contains(&row), "docs/pipeline.md lacks the row {row}");
    }
}

#[test]
fn the_page_lists_all_variables() {
    for variable in [environment::STRUCTURE, environment::REPORT, environment::TRACE] {
        assert!(PAGE.contains(&format!("| `{variable}` |")), "docs/pipeline.md lacks {variable}");
    }
}
