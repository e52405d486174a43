//! Tells the linker what kind of shared library this is.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librowlock_preload.so");
    // It stays where it is until the process ends.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
