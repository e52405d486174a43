//! Shared memory of MPICH, and of UCX, that would outlive its ranks.
//!
//! A rank of MPICH creates a file, tells its name to the others by the server, and removes the name
//! when all have opened it. If ranks are killed before that, the file stays. So the server removes
//! it when all ranks have ended. If the server was killed as well, or the rank before it had told
//! the name, the next job removes the file: one of this user that no process has mapped for a
//! minute. The name of a file that all ranks have opened is not needed any more, so removing it is
//! harmless.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::process::geteuid;
use sys::files::Folder;

/// The folder of shared memory.
const FOLDER: &str = "/dev/shm";
/// The beginning of the names of files.
const PREFIX: &str = "mpich_shar_tmp";
/// UCX, which MPICH may use, creates files as well. The server does not learn their names.
const PREFIX_OF_UCX: &str = "ucx_shm_posix_";
/// The age at which a file without users is abandoned.
const ABANDONED: Duration = Duration::from_secs(60);

/// The name of the file that a value tells. MPICH writes its path in hexadecimal digits.
pub(super) fn told_by(value: &str) -> Option<String> {
    let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let (digits, rest) = value.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = digits.iter().map(|digits| byte(digits)).collect();
    let path = String::from_utf8(bytes.filter(|_| rest.is_empty())?).ok()?;
    // It is the content of a string, and may include the end of it.
    let name = path.trim_end_matches('\0').strip_prefix(FOLDER)?.strip_prefix('/')?;
    let is_name = name.starts_with(PREFIX) && !name.contains(['/', '\0']);
    is_name.then(|| name.to_owned())
}

/// Removes these files, of ranks that have ended.
pub(super) fn remove(names: &[String]) {
    let Ok(folder) = Folder::open(Path::new(FOLDER)) else { return };
    if cfg!(rowlock_canary = "memory-of-ranks-stays") {
        return;
    }
    // Most of them are gone.
    names.iter().filter(|name| is_own(&folder, name)).for_each(|name| drop(folder.remove(name.as_str())));
}

/// Removes the files of this user that no process has mapped for some time.
pub(super) fn remove_abandoned() {
    let names = Folder::open(Path::new(FOLDER)).and_then(|folder| abandoned(&folder));
    remove(&names.unwrap_or_default());
}

fn abandoned(folder: &Folder) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)?.flatten() {
        let name = entry.file_name().to_str().unwrap_or_default();
        let is_of_mpi = [PREFIX, PREFIX_OF_UCX].iter().any(|prefix| name.starts_with(prefix));
        if is_of_mpi && is_own(folder, name) && is_old(name) {
            names.push(name.to_owned());
        }
    }
    if !names.is_empty() {
        let mapped = mapped()?;
        names.retain(|name| !mapped.contains(&format!("{FOLDER}/{name}\n")));
    }
    Ok(names)
}

/// The mappings of all processes that this one sees.
fn mapped() -> io::Result<String> {
    let processes = fs::read_dir("/proc")?
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())));
    // A process that has ended, and one of another user, has none of these files.
    Ok(processes.filter_map(|process| fs::read_to_string(process.path().join("maps")).ok()).collect())
}

fn is_own(folder: &Folder, name: &str) -> bool {
    let about = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    about.is_ok_and(|about| about.st_uid == geteuid().as_raw() && FileType::from_raw_mode(about.st_mode).is_file())
}

fn is_old(name: &str) -> bool {
    let changed = fs::metadata(Path::new(FOLDER).join(name)).and_then(|about| about.modified());
    changed.is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age >= ABANDONED))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use sys::shared_memory::Mapping;

    use super::*;

    /// A file of this test, as MPICH or UCX would make it.
    fn create(prefix: &str, of: &str) -> String {
        let name = format!("{prefix}-{of}-{}", std::process::id());
        fs::write(path(&name), "memory").unwrap();
        name
    }

    fn path(name: &str) -> std::path::PathBuf {
        Path::new(FOLDER).join(name)
    }

    #[test]
    fn the_name_of_a_file_is_read_from_a_value_and_nothing_else_is() {
        let encode = |text: &str| text.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
        let told = |text: &str| told_by(&encode(text));
        assert_eq!(
            told_by("2F6465762F73686D2F6D706963685F736861725F746D7053696B6A6E71").as_deref(),
            Some("mpich_shar_tmpSikjnq")
        );
        assert_eq!(told("/dev/shm/mpich_shar_tmpA\0").as_deref(), Some("mpich_shar_tmpA"));
        for other in ["", "/dev/shm/x", "/dev/shm/mpich_shar_tmp/../../etc/passwd", "/tmp/mpich_shar_tmpA", "\u{e9}"] {
            assert_eq!(told(other), None, "{other}");
        }
        for value in ["2F6", "ZZ", "(vector,(0,1,2))", "+F"] {
            assert_eq!(told_by(value), None, "{value}");
        }
    }

    #[test]
    fn files_of_ranks_that_have_ended_are_removed() {
        let name = create(PREFIX, "ended");
        remove(&[name.clone(), "mpich_shar_tmp-is-gone".to_owned()]);
        assert!(!path(&name).exists());
    }

    #[test]
    fn old_files_are_abandoned_unless_a_process_has_mapped_them() {
        for prefix in [PREFIX, PREFIX_OF_UCX] {
            expect_abandoned(["new", "old", "mapped"].map(|of| create(prefix, of)));
        }
    }

    fn expect_abandoned(names: [String; 3]) {
        let old = |name: &str| {
            let file = fs::File::options().read(true).write(true).open(path(name)).unwrap();
            file.set_modified(SystemTime::now() - ABANDONED).unwrap();
            file
        };
        old(&names[1]);
        let _mapping = Mapping::new(old(&names[2]), NonZeroUsize::MIN).unwrap();
        remove_abandoned();
        let left = names.each_ref().map(|name| path(name).exists());
        remove(&names);
        assert_eq!(left, [true, false, true]);
    }
}
