//! Reasons why the library cannot be preloaded into a program.

use std::io::{Read, Seek};

use crate::elf;
use crate::library::EMBEDDED;

/// A reason why the library cannot be loaded into a program, or cannot replace its waits.
///
/// Its text is the rest of a sentence that begins with the program's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// It is linked statically.
    #[error(
        "is linked statically, so that no library can be loaded into it: link it dynamically (programs that it starts can still \
         be helped)"
    )]
    Static,
    /// It has privileges beyond those of the user.
    #[error(
        "{0}, and the loader takes no libraries from the environment for such programs: run a copy of it without that, or run \
         it as the user whose rights it takes"
    )]
    Privileged(Privilege),
    /// Its file is for another processor or word size, as described.
    #[error(
        "is for {0}, and this rowlock for {arch} of {bits} bits: use a rowlock that was built for that",
        arch = std::env::consts::ARCH,
        bits = usize::BITS
    )]
    OtherMachine(String),
    /// It asks for the loader of another C library, as named.
    #[error(
        "asks for the loader {0}, and rowlock's library is for that of the GNU C library: use a build of it for that one"
    )]
    OtherLibrary(String),
    /// It needs this library, which aborts if another library is loaded first.
    #[error(
        "needs {0}, the address sanitizer, which ends programs in which another library is loaded first: build it without \
         -fsanitize=address, or with -static-libasan as well"
    )]
    MustBeFirst(String),
    /// It is written in Go.
    #[error(
        "is a Go program, whose goroutines wait within Go's own run-time system{}",
        if *.dynamic {
            ": only its C parts can be helped"
        } else {
            ", and no library can be loaded into it: rowlock cannot help"
        }
    )]
    Go {
        /// Whether it is linked dynamically.
        dynamic: bool,
    },
}

/// The source of a program's privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Privilege {
    /// It runs as the owner of its file.
    #[error("is set-user-ID")]
    User,
    /// It runs with the group of its file.
    #[error("is set-group-ID")]
    Group,
    /// Its file has capabilities.
    #[error("has file capabilities")]
    Capabilities,
}

impl Obstacle {
    /// The obstacle that the ELF file of a program tells of. A file that is not ELF, or cannot be
    /// read, has none: the kernel will report the error.
    pub fn in_file(file: impl Read + Seek) -> Option<Obstacle> {
        elf::obstacle(file, EMBEDDED)
    }

    /// Its name in JSON reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Obstacle::Static => "static",
            Obstacle::Privileged(_) => "privileged",
            Obstacle::OtherMachine(_) => "other_machine",
            Obstacle::OtherLibrary(_) => "other_c_library",
            Obstacle::MustBeFirst(_) => "address_sanitizer",
            Obstacle::Go { .. } => "go",
        }
    }

    /// Whether to set `LD_PRELOAD` nevertheless, for programs that this one starts. In the other
    /// cases its loader would print an error or abort.
    pub(crate) const fn may_preload(&self) -> bool {
        match self {
            Obstacle::Static | Obstacle::Privileged(_) | Obstacle::Go { .. } => true,
            Obstacle::OtherMachine(_) | Obstacle::OtherLibrary(_) | Obstacle::MustBeFirst(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_has_a_description_and_a_remedy() {
        for (obstacle, begins, asked) in [
            (Obstacle::Static, "is linked statically", true),
            (Obstacle::Privileged(Privilege::Group), "is set-group-ID, and", true),
            (Obstacle::OtherMachine("i386".into()), "is for i386, and", false),
            (Obstacle::OtherLibrary("/lib/ld-musl-x86_64.so.1".into()), "asks for the loader /lib/ld-musl", false),
            (Obstacle::MustBeFirst("libasan.so.8".into()), "needs libasan.so.8", false),
            (Obstacle::Go { dynamic: false }, "is a Go program", true),
        ] {
            let text = obstacle.to_string();
            assert!(text.starts_with(begins) && text.contains(": "), "{text}");
            assert_eq!(obstacle.may_preload(), asked);
        }
    }
}
