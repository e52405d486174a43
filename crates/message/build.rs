//! With the feature `mpi`, compiles the calls of MPI, and finds out how to link its library: by
//! the compiler that the library brings, `mpicc`, or the one that `MPICC` names.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "mpi")]
    if let Err(why) = mpi::build() {
        // Cargo shows these lines for a failed build script.
        eprintln!("error: the feature `mpi` of rowlock-message cannot be built: {why}");
        std::process::exit(1);
    }
}

#[cfg(feature = "mpi")]
mod mpi {
    use std::error::Error;
    use std::process::Command;

    const SHIM: &str = "src/mpi/shim.c";

    pub(super) fn build() -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-env-changed=MPICC");
        println!("cargo::rerun-if-changed={SHIM}");
        let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
        // Its tests start their ranks by the launcher of the same library.
        println!("cargo::rustc-env=ROWLOCK_MPICC={compiler}");
        // MPICH and its relatives, and Open MPI, show so what they would call.
        let shown = Command::new(&compiler).arg("-show").output().map_err(|why| {
            format!("`{compiler}` does not start ({why}): install an MPI library for developers, or name its compiler by MPICC")
        })?;
        let shown = String::from_utf8(shown.stdout)?;
        cc::Build::new().compiler(&compiler).file(SHIM).try_compile("rowlock_mpi_shim")?;
        for word in shown.split_whitespace() {
            match word.split_at(word.len().min(2)) {
                ("-L", folder) => println!("cargo::rustc-link-search=native={folder}"),
                ("-l", library) => println!("cargo::rustc-link-lib={library}"),
                _ => {}
            }
        }
        Ok(())
    }
}
