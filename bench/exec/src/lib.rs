//! Benchmarks of commands that run programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// Builds an optimized `rowlock` and returns its path.
///
/// # Errors
/// If it cannot be built.
pub fn build_rowlock() -> anyhow::Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--package", "rowlock-cli", "--message-format", "json"]);
    let output = cargo.current_dir(&root).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "rowlock cannot be built: {}", output.status);
    let messages = String::from_utf8(output.stdout)?;
    let path = messages.split(r#""executable":""#).skip(1).filter_map(|rest| rest.split('"').next()).last();
    Ok(path.context("cargo names no executable")?.to_owned())
}
