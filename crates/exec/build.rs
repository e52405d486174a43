//! Builds the preloaded library, which `rowlock` embeds.
//!
//! Stable Cargo cannot make one package's shared library the input of another package. So this runs
//! another Cargo with another target folder, because the outer Cargo holds the lock of its own. The
//! library is always optimized, and does not use the flags of the outer build: sanitizers and lints
//! do not belong in the programs of others.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The crates from which the library is built.
const PARTS: [&str; 4] = ["counters", "policy", "sys", "wait"];
/// Settings of the outer build that do not apply to the library.
const REMOVED_VARIABLES: [&str; 10] = [
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CLIPPY_ARGS",
    "RUSTC_BOOTSTRAP",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
];

fn main() {
    if let Err(why) = build() {
        // Cargo shows these lines for a failed build script.
        eprintln!("error: the library that rowlock preloads cannot be built: {why}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let crates = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("..");
    let preload = crates.join("preload");
    let workspace = crates.join("..");
    let mut sources = vec![preload.join("src"), preload.join("Cargo.toml"), preload.join("build.rs")];
    sources.extend(PARTS.iter().flat_map(|part| ["src", "Cargo.toml"].map(|file| crates.join(part).join(file))));
    sources.extend(["Cargo.toml", "Cargo.lock"].map(|file| workspace.join(file)));
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo would run this script each time if it depended on a missing file.
    for source in sources.iter().filter(|source| source.exists()) {
        println!("cargo::rerun-if-changed={}", source.display());
    }

    let (target, out) = (variable("TARGET")?, PathBuf::from(variable("OUT_DIR")?));
    // Outside of the profiles' folders, so that all profiles share it: the library does not depend
    // on the profile.
    let folder = out.ancestors().nth(4).unwrap_or(&out).join("preload");
    if variable("CARGO_CFG_TARGET_OS")? != "linux" || variable("CARGO_CFG_TARGET_ENV")? != "gnu" {
        return Err(format!("it is for Linux with glibc, and {target} is not that").into());
    }
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.args(["build", "--release", "--locked", "--quiet", "--lib"]);
    cargo.arg("--manifest-path").arg(preload.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&folder).args(["--target", &target]);
    for name in REMOVED_VARIABLES {
        cargo.env_remove(name);
    }
    let is_build_setting = |name: &str| name.starts_with("CARGO_PROFILE_") || name.ends_with("_RUSTFLAGS");
    for name in env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(|name| is_build_setting(name)) {
        cargo.env_remove(name);
    }
    // Line tables would make it ten times as large.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    let status = cargo.status().map_err(|why| format!("cannot run {:?}: {why}", cargo.get_program()))?;
    if !status.success() {
        return Err(format!("{cargo:?} failed ({status}); its messages are above").into());
    }
    let library = folder.join(&target).join("release/librowlock_preload.so");
    if !library.is_file() {
        return Err(format!("there is no {}", library.display()).into());
    }
    println!("cargo::rustc-env=ROWLOCK_BUILT_PRELOAD={}", library.display());
    // Hashing at each start would take longer than anything else there.
    let digest = Sha256::digest(std::fs::read(&library)?);
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=ROWLOCK_BUILT_PRELOAD_DIGEST={hex}");
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|why| format!("Cargo did not say {name}: {why}"))
}
