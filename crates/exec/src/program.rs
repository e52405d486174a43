//! The program behind a command: finds and inspects it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use sys::executable::{candidates, may_be_executed};

use crate::elf;
use crate::mpi::MpiLibrary;
use crate::obstacle::{Obstacle, Privilege};

/// The magic number of ELF files.
const ELF: &[u8] = b"\x7fELF";
/// The maximum depth of scripts that are interpreters of scripts. It is the kernel's limit.
const MAX_SCRIPTS: usize = 5;

/// A program's file. For a script, it is the file of its interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The file that the kernel maps.
    pub(crate) path: PathBuf,
    /// The obstacle to preloading the library into it.
    pub(crate) obstacle: Option<Obstacle>,
}

/// Finds and inspects the program that a command starts. `None` if it does not exist or cannot be
/// started, in which case the system will report the error.
pub(crate) fn inspect(command: &OsStr) -> Option<Program> {
    let path = env::var_os("PATH");
    let mut file = resolve(command, path.as_deref())?;
    for _ in 0..MAX_SCRIPTS {
        match interpreter(&beginning(&file)) {
            Some(interpreter) => file = resolve(&interpreter, path.as_deref())?,
            None => break,
        }
    }
    let opened = File::open(&file);
    let obstacle = opened.ok().and_then(Obstacle::in_file);
    let privilege = privilege(&file).map(Obstacle::Privileged);
    Some(Program { obstacle: obstacle.or(privilege), path: file })
}

/// The file of a command that is an ELF program and not a script.
pub(crate) fn elf(command: &OsStr) -> Option<PathBuf> {
    resolve(command, env::var_os("PATH").as_deref()).filter(|file| beginning(file).starts_with(ELF))
}

/// The library of MPI that a program uses.
pub(crate) fn mpi(program: &Path) -> MpiLibrary {
    let libraries = File::open(program).map_or_else(|_| Vec::new(), elf::libraries);
    MpiLibrary::among(&libraries, program.file_name().unwrap_or_default())
}

/// The library of MPI that a command uses. `None` if there is no such command.
pub(crate) fn mpi_of_command(command: &OsStr) -> Option<MpiLibrary> {
    Some(mpi(&inspect(command)?.path))
}

/// A missing file that an existing command needs: the interpreter of a script, or the loader of a
/// program.
pub(crate) fn missing(command: &OsStr) -> Option<PathBuf> {
    let mut file = resolve(command, env::var_os("PATH").as_deref())?;
    for _ in 0..MAX_SCRIPTS {
        let bytes = beginning(&file);
        let next = match first_line(&bytes) {
            Some(mut words) => PathBuf::from(OsString::from_vec(words.next()?.to_vec())),
            None => elf::loader(File::open(&file).ok()?)?.into(),
        };
        if !next.exists() {
            return Some(next);
        }
        file = next;
    }
    None
}

/// The file that `execvp` starts, or the error that it has.
pub(crate) fn executable(command: &OsStr) -> io::Result<PathBuf> {
    let path = env::var_os("PATH");
    resolve(command, path.as_deref()).ok_or_else(|| {
        let is_there = candidates(command, path.as_deref()).iter().any(|file| file.exists());
        if is_there { Errno::ACCESS } else { Errno::NOENT }.into()
    })
}

/// The file that `execvp` starts.
fn resolve(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    candidates(command, path).into_iter().find(|file| may_be_executed(file))
}

/// The first bytes of a file, as many as the kernel reads for a script's first line. Empty if the
/// file cannot be read.
fn beginning(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(file).and_then(|file| file.take(256).read_to_end(&mut bytes)).map_or_else(|_| Vec::new(), |_| bytes)
}

/// The interpreter of a file that begins with these bytes. Returns `None` if the kernel executes it
/// directly.
pub fn interpreter(bytes: &[u8]) -> Option<OsString> {
    let Some(mut words) = first_line(bytes) else {
        // `execvp` runs other files by a shell.
        let is_program = bytes.starts_with(ELF) || bytes.is_empty();
        return (!is_program).then(|| "/bin/sh".into());
    };
    let first = words.next()?;
    if first.rsplit(|&byte| byte == b'/').next() != Some(b"env") {
        return Some(OsString::from_vec(first.to_vec()));
    }
    // `env` runs the first word that is neither an option nor an assignment.
    let word = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    Some(OsString::from_vec(word.unwrap_or(first).to_vec()))
}

/// The words of the first line of a script. `None` if the file has no such line.
fn first_line(bytes: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty()))
}

/// The source of rights that the program with this file has beyond the caller's, so that its loader
/// ignores the environment.
fn privilege(file: &Path) -> Option<Privilege> {
    let about = fs::metadata(file).ok()?;
    let is_void = statvfs(file).is_ok_and(|mounted| mounted.f_flag.contains(StatVfsMountFlags::NOSUID));
    if is_void || has_no_new_privileges() {
        return None;
    }
    let has_capabilities = getxattr(file, "security.capability", &mut [0_u8; 64]).is_ok();
    let rights = FileRights { mode: about.mode(), user: about.uid(), group: about.gid(), has_capabilities };
    rights.beyond_those_of(geteuid().as_raw(), getegid().as_raw())
}

/// The rights that a file gives to the process that executes it.
struct FileRights {
    mode: u32,
    user: u32,
    group: u32,
    has_capabilities: bool,
}

impl FileRights {
    /// The source of rights that this user and group do not have already.
    fn beyond_those_of(&self, user: u32, group: u32) -> Option<Privilege> {
        const SET_USER: u32 = 0o4000;
        const SET_GROUP: u32 = 0o2000;
        const GROUP_EXECUTES: u32 = 0o010;
        if self.mode & SET_USER != 0 && self.user != user {
            return Some(Privilege::User);
        }
        // Without the group's execute bit, this bit used to mark mandatory locking.
        if self.mode & SET_GROUP != 0 && self.mode & GROUP_EXECUTES != 0 && self.group != group {
            return Some(Privilege::Group);
        }
        // Root has all capabilities.
        (self.has_capabilities && user != 0).then_some(Privilege::Capabilities)
    }
}

/// Whether files cannot give this process further rights.
fn has_no_new_privileges() -> bool {
    // Its name in there may be other than UTF-8.
    let is_it = |line: &[u8]| line == b"NoNewPrivs:\t1";
    fs::read("/proc/self/status").is_ok_and(|status| status.split(|&byte| byte == b'\n').any(is_it))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Writes an executable file.
    fn write(path: &Path, content: impl AsRef<[u8]>) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn commands_are_found_like_the_system_finds_them() {
        let place = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| place.path().join(name));
        for folder in [&one, &two] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(one.join("tool"), "cannot be executed").unwrap();
        fs::create_dir(one.join("folder")).unwrap();
        write(&two.join("tool"), "");
        let path = env::join_paths([&one, &two]).unwrap();
        let resolve = |command: &str| resolve(command.as_ref(), Some(&path));
        assert_eq!(resolve("tool"), Some(two.join("tool")));
        assert_eq!(resolve("folder"), None);
        assert_eq!(resolve(""), None);
        assert_eq!(resolve("no/tool"), None);
        assert_eq!(resolve(two.join("tool").to_str().unwrap()), Some(two.join("tool")));
    }

    #[test]
    fn scripts_are_executed_by_the_interpreter_in_their_first_line() {
        let interpreter = |text: &str| interpreter(text.as_bytes()).map(|found| found.into_string().unwrap());
        for (text, found) in [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#! /usr/bin/perl -w\n", Some("/usr/bin/perl")),
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S A=1 node --flag\n", Some("node")),
            ("#!/usr/bin/env\n", Some("/usr/bin/env")),
            ("echo no first line\n", Some("/bin/sh")),
            ("#!\n", None),
            ("\x7fELF", None),
            ("", None),
        ] {
            assert_eq!(interpreter(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn a_script_has_the_obstacle_of_its_interpreter() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let inspect = |name: &str| inspect(path(name).as_os_str());
        symlink(env::current_exe().unwrap(), path("program")).unwrap();
        write(&path("script"), format!("#!{}\n", path("program").display()));
        write(&path("outer"), format!("#! {} -x\n", path("script").display()));
        let program = Some(Program { path: path("program"), obstacle: None });
        for name in ["program", "script", "outer"] {
            assert_eq!(inspect(name), program, "{name}");
        }
        write(&path("orphan"), "#!/nowhere/sh\n");
        assert_eq!((inspect("orphan"), inspect("nothing")), (None, None));
        // A script that is its own interpreter does not lead to an infinite loop.
        write(&path("itself"), format!("#!{}\n", path("itself").display()));
        assert_eq!(inspect("itself").map(|program| program.obstacle), Some(None));
    }

    #[test]
    fn missing_interpreters_and_loaders_are_found() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for (name, content, missing_file) in [
            ("fine", "#!/bin/sh\n", None),
            ("script", "#! /nowhere/sh -e\n", Some("/nowhere/sh")),
            ("outer", &format!("#!{}\n", path("script").display()), Some("/nowhere/sh")),
            ("of-dos", "#!/bin/sh\r\n", Some("/bin/sh\r")),
            ("no-script", "echo\n", None),
        ] {
            write(&path(name), content);
            assert_eq!(missing(path(name).as_os_str()), missing_file.map(PathBuf::from), "{name}");
        }
        assert_eq!(missing("rowlock-has-no-such-program".as_ref()), None);
        let program = env::current_exe().unwrap();
        assert_eq!((missing(program.as_os_str()), elf(program.as_os_str())), (None, Some(program)));
        assert_eq!(elf(path("fine").as_os_str()), None);
    }

    #[test]
    fn only_rights_beyond_the_user_s_own_are_an_obstacle() {
        let file = |mode, has_capabilities| FileRights { mode, user: 0, group: 5, has_capabilities };
        for (rights, for_user, for_root) in [
            (file(0o755, false), None, None),
            (file(0o4755, false), Some(Privilege::User), None),
            (file(0o2755, false), Some(Privilege::Group), Some(Privilege::Group)),
            (file(0o2745, false), None, None),
            (file(0o755, true), Some(Privilege::Capabilities), None),
        ] {
            assert_eq!((rights.beyond_those_of(1000, 1000), rights.beyond_those_of(0, 0)), (for_user, for_root));
            assert_eq!(rights.beyond_those_of(0, 5), None);
        }
    }
}
