//! The libraries of MPI. Each has its own way to tell a rank of the others.

use std::ffi::OsStr;

/// The library of MPI that a program uses, as far as its file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiLibrary {
    /// The program is linked to Open MPI.
    OpenMpi,
    /// It is linked to another library, such as MPICH.
    Other,
    /// Its file names none, but it is an interpreter, which may load one or start a program that
    /// does.
    Unknown,
    /// None, as far as its file tells.
    None,
}

/// The names of interpreters, without their versions.
const INTERPRETERS: [&[u8]; 14] = [
    b"python", b"perl", b"ruby", b"julia", b"octave", b"lua", b"tclsh", b"sh", b"bash", b"dash", b"ash", b"ksh",
    b"zsh", b"fish",
];

impl MpiLibrary {
    /// The one among the names of the libraries of a program with this name.
    pub(crate) fn among(libraries: &[String], program: &OsStr) -> MpiLibrary {
        let name = program.as_encoded_bytes();
        // A version may follow.
        let name = &name[..name.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()];
        let is_mpi = |name: &&String| name.starts_with("libmpi") && name.contains(".so");
        let mut found = libraries.iter().filter(is_mpi);
        // The number of its versions 3 to 5, for all languages.
        if found.clone().any(|name| name.contains(".so.40")) {
            MpiLibrary::OpenMpi
        } else if found.next().is_some() {
            MpiLibrary::Other
        } else if INTERPRETERS.contains(&name) {
            MpiLibrary::Unknown
        } else {
            MpiLibrary::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_recognised_by_their_names() {
        for (names, library) in [
            (&["libm.so.6", "libc.so.6"][..], MpiLibrary::None),
            (&["libmpi.so.40", "libc.so.6"], MpiLibrary::OpenMpi),
            (&["libmpi_mpifh.so.40"], MpiLibrary::OpenMpi),
            (&["libmpich.so.12", "libc.so.6"], MpiLibrary::Other),
            (&["libmpichfort.so.12", "libmpich.so.12"], MpiLibrary::Other),
            (&["libmpi.so.12"], MpiLibrary::Other),
        ] {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(
                MpiLibrary::among(&names, OsStr::new("python3")),
                match library {
                    MpiLibrary::None => MpiLibrary::Unknown,
                    linked => linked,
                }
            );
            assert_eq!(MpiLibrary::among(&names, OsStr::new("pythonic")), library, "{names:?}");
        }
    }
}
