//! Decides whether blocking calls of the C library are interposed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(interposed)");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_{what}")).unwrap_or_default();
    let has_real_symbols = target("TARGET_OS") == "linux"
        && target("TARGET_ENV") == "gnu"
        && ["x86_64", "aarch64"].contains(&target("TARGET_ARCH").as_str())
        && !target("TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    // Sanitizers interpose the same functions.
    if has_real_symbols && target("SANITIZE").is_empty() && std::env::var_os("CARGO_CFG_LOOM").is_none() {
        println!("cargo:rustc-cfg=interposed");
    }
}
