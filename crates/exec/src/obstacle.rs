//! Why a program cannot be helped.

use std::fmt;

/// What keeps the library out of a program, or from what it waits at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is linked statically.
    Static,
    /// It runs with other rights than those of who starts it, for this reason.
    Privileged(Privilege),
    /// It is for another processor, or for another width of words: what its file says.
    OtherMachine(String),
    /// It is for another C library: the loader that it asks for.
    OtherLibrary(String),
    /// It needs this library, which ends a program in which another was loaded before it.
    ComesFirst(String),
    /// It is written in Go, and linked statically or not.
    Go {
        /// Whether it uses libraries.
        dynamic: bool,
    },
}

/// What gives a program other rights.
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
    /// What it is called in reports for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Obstacle::Static => "static",
            Obstacle::Privileged(_) => "privileged",
            Obstacle::OtherMachine(_) => "other_machine",
            Obstacle::OtherLibrary(_) => "other_c_library",
            Obstacle::ComesFirst(_) => "address_sanitizer",
            Obstacle::Go { .. } => "go",
        }
    }

    /// Whether the program is to be asked to load the library nevertheless: for those that it starts, as where it does not notice.
    /// Otherwise its loader would complain, or give up.
    pub(crate) const fn may_be_asked(&self) -> bool {
        match self {
            Obstacle::Static | Obstacle::Privileged(_) | Obstacle::Go { .. } => true,
            Obstacle::OtherMachine(_) | Obstacle::OtherLibrary(_) | Obstacle::ComesFirst(_) => false,
        }
    }
}

/// What is said of the program: the rest of a sentence that begins with its name.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Static => f.write_str(
                "is linked statically, so that no library can be loaded into it: link it dynamically (programs that it starts are helped \
                 all the same)",
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
            Obstacle::ComesFirst(library) => write!(
                f,
                "needs {library}, the address sanitizer, which ends programs in which another library is loaded first: build it without \
                 -fsanitize=address, or with -static-libasan as well"
            ),
            Obstacle::Go { dynamic: false } => f.write_str(
                "is a Go program, whose goroutines wait within Go's own run-time system, and no library can be loaded into it: nothing \
                 from outside helps",
            ),
            Obstacle::Go { dynamic: true } => f.write_str(
                "is a Go program, whose goroutines wait within Go's own run-time system: only what it has of C can be helped",
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
    fn each_says_what_it_is_and_what_would_help() {
        for (obstacle, begins, asked) in [
            (Obstacle::Static, "is linked statically", true),
            (Obstacle::Privileged(Privilege::Group), "is set-group-ID, and", true),
            (Obstacle::OtherMachine("i386".into()), "is for i386, and", false),
            (Obstacle::OtherLibrary("/lib/ld-musl-x86_64.so.1".into()), "asks for the loader /lib/ld-musl", false),
            (Obstacle::ComesFirst("libasan.so.8".into()), "needs libasan.so.8", false),
            (Obstacle::Go { dynamic: false }, "is a Go program", true),
        ] {
            let text = obstacle.to_string();
            assert!(text.starts_with(begins) && text.contains(": "), "{text}");
            assert_eq!(obstacle.may_be_asked(), asked);
        }
    }
}
