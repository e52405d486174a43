//! Reasons why the library cannot be preloaded into a program.

use std::fmt;

/// A reason why the library cannot be loaded into a program, or cannot replace its waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is linked statically.
    Static,
    /// It has privileges beyond those of the user.
    Privileged(Privilege),
    /// Its file is for another processor or word size, as described.
    OtherMachine(String),
    /// It asks for the loader of another C library, as named.
    OtherLibrary(String),
    /// It needs this library, which aborts if another library is loaded first.
    MustBeFirst(String),
    /// It is written in Go.
    Go {
        /// Whether it is linked dynamically.
        dynamic: bool,
    },
}

/// The source of a program's privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It runs as the owner of its file.
    User,
    /// It runs with the group of its file.
    Group,
    /// Its file has capabilities.
    Capabilities,
}

impl Obstacle {
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

/// The rest of a sentence that begins with the program's name.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Static => f.write_str(
                "is linked statically, so that no library can be loaded into it: link it dynamically (programs that it starts can still \
                 be helped)",
            ),
            Obstacle::Privileged(privilege) => write!(
                f,
                "{privilege}, and the loader takes no libraries from the environment for such programs: run a copy of it without that, or run \
                 it as the user whose rights it takes"
            ),
            Obstacle::OtherMachine(what) => {
                write!(f, "is for {what}, and this rowlock for {}: use a rowlock that was built for that", own_machine())
            }
            Obstacle::OtherLibrary(loader) => write!(
                f,
                "asks for the loader {loader}, and rowlock's library is for that of the GNU C library: use a build of it for that one"
            ),
            Obstacle::MustBeFirst(library) => write!(
                f,
                "needs {library}, the address sanitizer, which ends programs in which another library is loaded first: build it without \
                 -fsanitize=address, or with -static-libasan as well"
            ),
            Obstacle::Go { dynamic: false } => f.write_str(
                "is a Go program, whose goroutines wait within Go's own run-time system, and no library can be loaded into it: rowlock cannot \
                 help",
            ),
            Obstacle::Go { dynamic: true } => f.write_str(
                "is a Go program, whose goroutines wait within Go's own run-time system: only its C parts can be helped",
            ),
        }
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Privilege::User => "is set-user-ID",
            Privilege::Group => "is set-group-ID",
            Privilege::Capabilities => "has file capabilities",
        })
    }
}

fn own_machine() -> String {
    format!("{} of {} bits", std::env::consts::ARCH, usize::BITS)
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
