//! The page for users is held against what the code knows.

use rowlock_pipeline::{environment, structure};

const PAGE: &str = include_str!("../../../../docs/pipeline.md");

#[test]
fn all_that_a_structure_can_say_is_in_the_page_in_the_same_words() {
    for key in structure::KEYS {
        let row = format!("| `{}` | {} |", key.example, key.meaning);
        assert!(PAGE.contains(&row), "docs/pipeline.md lacks the row {row}");
    }
}

#[test]
fn all_variables_are_in_the_page() {
    for variable in [environment::STRUCTURE, environment::REPORT, environment::TRACE] {
        assert!(PAGE.contains(&format!("| `{variable}` |")), "docs/pipeline.md lacks {variable}");
    }
}
