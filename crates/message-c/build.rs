//! Sets the soname of the shared library, so that programs linked with one version find the next
//! compatible one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librowlock_message.so.0");
}
