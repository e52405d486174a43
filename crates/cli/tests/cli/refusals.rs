//! Commands that are refused memory end with a sentence and exit code 1.

use std::fmt::Write;
use std::fs;

#[test]
fn a_table_that_does_not_fit_into_memory_is_an_error_and_no_abort() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = "y,a\n".to_owned();
    (0..300_000).for_each(|row| writeln!(table, "{row},{}", row % 7).unwrap());
    fs::write(folder.path().join("table.csv"), table).unwrap();
    let line = "ulimit -d 8000; exec \"$0\" regress table.csv --on y --from a";
    let mut shell = testing::command("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_rowlock")]).current_dir(&folder);
    testing::run(&mut shell).expect_exit(1).expect_stderr(" bytes of memory were refused; see `ulimit -v`");
}
