//! The libraries of MPI. Each has its own way to tell a rank of the others.

/// The library of MPI that a program uses, as far as its file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiLibrary {
    /// The program is linked to Open MPI.
    OpenMpi,
    /// It is linked to another library, such as MPICH.
    Other,
    /// Its file names none, but it may load one later, or start a program that does: a script, a
    /// wrapper such as `nice`, or Python.
    Unknown,
}

impl MpiLibrary {
    /// The one among these names of libraries.
    pub(crate) fn among(libraries: &[String]) -> MpiLibrary {
        let is_mpi = |name: &&String| name.starts_with("libmpi") && name.contains(".so");
        let mut found = libraries.iter().filter(is_mpi);
        // The number of its versions 3 to 5, for all languages.
        if found.clone().any(|name| name.contains(".so.40")) {
            MpiLibrary::OpenMpi
        } else if found.next().is_some() {
            MpiLibrary::Other
        } else {
            MpiLibrary::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_recognised_by_their_names() {
        for (names, library) in [
            (&["libm.so.6", "libc.so.6"][..], MpiLibrary::Unknown),
            (&["libmpi.so.40", "libc.so.6"], MpiLibrary::OpenMpi),
            (&["libmpi_mpifh.so.40"], MpiLibrary::OpenMpi),
            (&["libmpich.so.12", "libc.so.6"], MpiLibrary::Other),
            (&["libmpichfort.so.12", "libmpich.so.12"], MpiLibrary::Other),
            (&["libmpi.so.12"], MpiLibrary::Other),
        ] {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(MpiLibrary::among(&names), library, "{names:?}");
        }
    }
}
