//! Gives the shared library its name for the loader: programs that were linked with one version find the next that they can use.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmy_pthread.so.0");
}
