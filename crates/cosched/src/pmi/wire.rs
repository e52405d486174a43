//! The lines of PMI-1, as ranks write and read them.
//!
//! A line is a list of `name=value` that ends with a newline. The first pair is the command. A
//! value of `put` extends to the end of the line. The call to spawn has several lines, of which the
//! first begins with `mcmd=` and the last is `endcmd`; here they are words of one line. To spawn
//! several programs takes several such calls, and the last one is answered.
//!
//! Source: "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems"
//! (Balaji et al., 2010), and what MPICH 4.0 writes.

use std::fmt;

/// The longest line of a rank, in bytes, with its newline: one with a value of the greatest length
/// takes less than half of it.
pub(super) const LONGEST_LINE: usize = 4096;
/// The longest call to spawn. Its arguments can be longer than lines.
pub(super) const LONGEST_SPAWN: usize = 1 << 20;
/// The greatest lengths, with a byte for the end of a string, as the launcher of MPICH has them.
const LONGEST_SPACE: usize = 256;
pub(super) const LONGEST_KEY: usize = 64;
pub(super) const LONGEST_VALUE: usize = 1024;

/// A call of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `init`, with a version of the protocol.
    Init {
        /// Its first number.
        version: u32,
    },
    /// `get_maxes`: the greatest lengths.
    Limits,
    /// `get_appnum`: the number of the rank's program.
    Application,
    /// `get_my_kvsname`: the name of the space of keys.
    Space,
    /// `get_universe_size`: how many ranks there may be.
    UniverseSize,
    /// `put`.
    Put {
        /// The space of keys.
        space: &'a str,
        /// The key.
        key: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// `get`.
    Get {
        /// The space of keys.
        space: &'a str,
        /// The key.
        key: &'a str,
    },
    /// `barrier_in`.
    Barrier,
    /// `finalize`.
    Finalize,
    /// `abort`.
    Abort {
        /// The exit code of the job.
        code: i32,
    },
    /// A part of a call to spawn several programs, which another one follows.
    Incomplete,
    /// A call that no rank may make here.
    Refused(Refused),
}

/// A call that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// To start more ranks.
    Spawn,
    /// To publish the name of a service.
    Publish,
    /// To look up the name of a service.
    LookUp,
    /// To withdraw the name of a service.
    Unpublish,
}

impl Refused {
    const ALL: [Refused; 4] = [Refused::Spawn, Refused::Publish, Refused::LookUp, Refused::Unpublish];

    /// The function of MPI that makes this call.
    pub const fn function(self) -> &'static str {
        match self {
            Refused::Spawn => "MPI_Comm_spawn",
            Refused::Publish => "MPI_Publish_name",
            Refused::LookUp => "MPI_Lookup_name",
            Refused::Unpublish => "MPI_Unpublish_name",
        }
    }

    const fn command(self) -> &'static str {
        match self {
            Refused::Spawn => "spawn",
            Refused::Publish => "publish_name",
            Refused::LookUp => "lookup_name",
            Refused::Unpublish => "unpublish_name",
        }
    }

    const fn answer(self) -> &'static str {
        match self {
            Refused::Spawn => "spawn_result",
            Refused::Publish => "publish_result",
            Refused::LookUp => "lookup_result",
            Refused::Unpublish => "unpublish_result",
        }
    }
}

/// Why a line is no call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The line does not end.
    #[error("a line of more than {0} bytes")]
    TooLong(usize),
    /// The line is not text.
    #[error("a line that is not text")]
    NotText,
    /// The line begins with no command.
    #[error("`{0}`, which begins with no command")]
    NoCommand(String),
    /// The command is not one of PMI-1.
    #[error("the unknown command `{0}`")]
    Unknown(String),
    /// The command lacks a value.
    #[error("`{command}` without a valid `{name}`")]
    Lacks {
        /// The command.
        command: String,
        /// The name of the value.
        name: &'static str,
    },
}

impl<'a> Request<'a> {
    /// Reads a line, without its newline.
    ///
    /// # Errors
    /// If it is no call.
    pub fn parse(line: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let line = str::from_utf8(line).map_err(|_| Malformed::NotText)?;
        let start = line.trim_start();
        let (command, rest) = start.split_once(' ').unwrap_or((start, ""));
        let command = command.strip_prefix("cmd=").or_else(|| command.strip_prefix("mcmd="));
        let command = command.ok_or_else(|| Malformed::NoCommand(shortened(line)))?;
        let lacks = |name| Malformed::Lacks { command: shortened(command), name };
        let word = |words, name| value_of(words, name).ok_or(lacks(name));
        Ok(match command {
            "init" => Request::Init { version: number(rest, "pmi_version").ok_or(lacks("pmi_version"))? },
            "get_maxes" => Request::Limits,
            "get_appnum" => Request::Application,
            "get_my_kvsname" => Request::Space,
            "get_universe_size" => Request::UniverseSize,
            "put" => {
                let (words, value) = rest.split_once(" value=").ok_or(lacks("value"))?;
                Request::Put { space: word(words, "kvsname")?, key: word(words, "key")?, value }
            }
            "get" => Request::Get { space: word(rest, "kvsname")?, key: word(rest, "key")? },
            "barrier_in" => Request::Barrier,
            "finalize" => Request::Finalize,
            "abort" => Request::Abort { code: number(rest, "exitcode").unwrap_or(1) },
            "spawn" if number::<u32>(rest, "spawnssofar") < number(rest, "totspawns") => Request::Incomplete,
            other => {
                let refused = Refused::ALL.into_iter().find(|refused| refused.command() == other);
                Request::Refused(refused.ok_or_else(|| Malformed::Unknown(shortened(other)))?)
            }
        })
    }
}

/// The value with this name among words `name=value`.
fn value_of<'a>(words: &'a str, name: &str) -> Option<&'a str> {
    words.split(' ').find_map(|word| word.split_once('=').filter(|(found, _)| *found == name)).map(|(_, value)| value)
}

fn number<N: std::str::FromStr>(words: &str, name: &str) -> Option<N> {
    value_of(words, name)?.parse().ok()
}

/// The beginning of a text of a rank, for a message.
fn shortened(text: &str) -> String {
    text.chars().filter(|symbol| !symbol.is_control()).take(40).collect()
}

/// An answer to a rank. It prints as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `init`: whether the version is known.
    Init(bool),
    /// The greatest lengths.
    Limits,
    /// The number of the rank's program.
    Application(u32),
    /// The name of the space of keys.
    Space(&'static str),
    /// How many ranks there may be.
    UniverseSize(u32),
    /// To `put`, with the reason if it failed.
    Put(Result<(), &'static str>),
    /// To `get`: the value, or the reason why there is none.
    Get(Result<String, String>),
    /// All ranks have come to the barrier.
    BarrierOut,
    /// To `finalize`.
    Finalize,
    /// The call is refused.
    Refused(Refused),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Init(known) => {
                let result = if *known { 0 } else { -1 };
                writeln!(f, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={result}")
            }
            Answer::Limits => {
                writeln!(f, "cmd=maxes kvsname_max={LONGEST_SPACE} keylen_max={LONGEST_KEY} vallen_max={LONGEST_VALUE}")
            }
            Answer::Application(number) => writeln!(f, "cmd=appnum appnum={number}"),
            Answer::Space(name) => writeln!(f, "cmd=my_kvsname kvsname={name}"),
            Answer::UniverseSize(size) => writeln!(f, "cmd=universe_size size={size}"),
            Answer::Put(Ok(())) => writeln!(f, "cmd=put_result rc=0 msg=success"),
            Answer::Put(Err(why)) => writeln!(f, "cmd=put_result rc=-1 msg={why}"),
            Answer::Get(Ok(value)) => writeln!(f, "cmd=get_result rc=0 msg=success value={value}"),
            Answer::Get(Err(why)) => writeln!(f, "cmd=get_result rc=-1 msg={why} value=unknown"),
            Answer::BarrierOut => writeln!(f, "cmd=barrier_out"),
            Answer::Finalize => writeln!(f, "cmd=finalize_ack"),
            Answer::Refused(call) => writeln!(f, "cmd={} rc=-1 msg=not_supported", call.answer()),
        }
    }
}

/// Takes the next line that is complete from what a rank has written, without its newline. Those of
/// a call to spawn become one.
///
/// # Errors
/// If it is too long.
pub fn take_line(written: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Malformed> {
    const LAST_OF_MANY: &[u8] = b"\nendcmd\n";
    let (last, longest): (&[u8], _) =
        if written.starts_with(b"mcmd=") { (LAST_OF_MANY, LONGEST_SPAWN) } else { (b"\n", LONGEST_LINE) };
    let end = written.windows(last.len()).position(|piece| piece == last);
    if end.unwrap_or(written.len()) >= longest {
        return Err(Malformed::TooLong(longest));
    }
    Ok(end.map(|end| {
        let mut line: Vec<u8> = written.drain(..end + last.len()).take(end).collect();
        line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        line
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request<'_>, Malformed> {
        Request::parse(line.as_bytes())
    }

    #[test]
    fn calls_are_read_as_mpich_writes_them() {
        for (line, request) in [
            ("cmd=init pmi_version=1 pmi_subversion=1", Request::Init { version: 1 }),
            ("cmd=get_maxes", Request::Limits),
            ("cmd=get_appnum", Request::Application),
            ("cmd=get_my_kvsname", Request::Space),
            ("cmd=get_universe_size", Request::UniverseSize),
            ("cmd=put kvsname=k key=-bcast-1-0 value=2F", Request::Put { space: "k", key: "-bcast-1-0", value: "2F" }),
            ("cmd=put kvsname=k key=a value=(b, c=d) e", Request::Put { space: "k", key: "a", value: "(b, c=d) e" }),
            ("cmd=put kvsname=k key=a value=", Request::Put { space: "k", key: "a", value: "" }),
            ("cmd=get kvsname=k key=a", Request::Get { space: "k", key: "a" }),
            ("cmd=barrier_in", Request::Barrier),
            ("cmd=finalize", Request::Finalize),
            ("cmd=abort exitcode=-42", Request::Abort { code: -42 }),
            ("cmd=abort", Request::Abort { code: 1 }),
            ("mcmd=spawn", Request::Refused(Refused::Spawn)),
            ("mcmd=spawn nprocs=2 totspawns=2 spawnssofar=2", Request::Refused(Refused::Spawn)),
            ("mcmd=spawn nprocs=2 totspawns=2 spawnssofar=1", Request::Incomplete),
            ("cmd=publish_name service=a port=b", Request::Refused(Refused::Publish)),
            ("cmd=lookup_name service=a", Request::Refused(Refused::LookUp)),
            ("cmd=unpublish_name service=a", Request::Refused(Refused::Unpublish)),
        ] {
            assert_eq!(parse(line), Ok(request), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_no_call_is_refused_with_the_reason() {
        for (line, why) in [
            ("", "``, which begins with no command"),
            ("init", "`init`, which begins with no command"),
            ("\u{1b}[2Jhello world", "`[2Jhello world`, which begins with no command"),
            ("cmd=", "the unknown command ``"),
            ("cmd=dance", "the unknown command `dance`"),
            ("cmd=init", "`init` without a valid `pmi_version`"),
            ("cmd=init pmi_version=one", "`init` without a valid `pmi_version`"),
            ("cmd=put kvsname=k key=a", "`put` without a valid `value`"),
            ("cmd=put key=a value=v kvsname=k", "`put` without a valid `kvsname`"),
            ("cmd=get kvsname=k", "`get` without a valid `key`"),
        ] {
            assert_eq!(parse(line).map_err(|why| why.to_string()), Err(why.to_owned()), "{line}");
        }
        assert_eq!(Request::parse(b"cmd=\xff"), Err(Malformed::NotText));
        let long = format!("cmd={}", "a".repeat(100));
        assert_eq!(parse(&long), Err(Malformed::Unknown("a".repeat(40))));
    }

    #[test]
    fn each_answer_is_one_line_that_says_whether_the_call_succeeded() {
        for (answer, line) in [
            (Answer::Init(true), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
            (Answer::Init(false), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1"),
            (Answer::Limits, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"),
            (Answer::Application(2), "cmd=appnum appnum=2"),
            (Answer::Space("k"), "cmd=my_kvsname kvsname=k"),
            (Answer::UniverseSize(4), "cmd=universe_size size=4"),
            (Answer::Put(Ok(())), "cmd=put_result rc=0 msg=success"),
            (Answer::Put(Err("no")), "cmd=put_result rc=-1 msg=no"),
            (Answer::Get(Ok("v".into())), "cmd=get_result rc=0 msg=success value=v"),
            (Answer::Get(Err("no".into())), "cmd=get_result rc=-1 msg=no value=unknown"),
            (Answer::BarrierOut, "cmd=barrier_out"),
            (Answer::Finalize, "cmd=finalize_ack"),
            (Answer::Refused(Refused::Spawn), "cmd=spawn_result rc=-1 msg=not_supported"),
        ] {
            assert_eq!(answer.to_string(), format!("{line}\n"));
        }
        const { assert!(LONGEST_VALUE + LONGEST_KEY + LONGEST_SPACE < LONGEST_LINE / 2) };
    }
}
