//! Sets the shared library's name for the loader, so that programs that were linked with one
//! version find later compatible ones.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmy_pthread.so.0");
}
