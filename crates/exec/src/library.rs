//! The preloaded library: finds it, or unpacks it.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;
use sys::files::{Folder, is_safe_from_others, remove_leftovers};

/// The variable that names another library to preload.
pub const VARIABLE: &str = "ROWLOCK_PRELOAD";

/// The library that was built together with this program.
pub(crate) static EMBEDDED: &[u8] = include_bytes!(env!("ROWLOCK_BUILT_PRELOAD"));
/// The begin of its SHA-256, in hexadecimal.
const DIGEST: &str = env!("ROWLOCK_BUILT_PRELOAD_DIGEST");

/// The prefix of the file names of unpacked libraries.
const UNPACKED: &str = "librowlock_preload-";
/// The time between two marks of a used library, and the time without a mark until another build
/// removes it.
const MARK_INTERVAL: Duration = Duration::from_secs(24 * 3600);
const REMOVE_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why there is no library to preload.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The library in [`VARIABLE`] cannot be used.
    #[error("{VARIABLE} names {}, which cannot be preloaded: {why}", path.display())]
    Named {
        /// The named path.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// There is no folder to unpack it.
    #[error(
        "there is no place for the library to preload: {}; let XDG_CACHE_HOME name a folder on a file system that allows execution, \
         whose path contains no blank, colon or dollar",
        .0.join("; ")
    )]
    NoPlace(Vec<String>),
}

/// The path of the library, absolute and suitable for `LD_PRELOAD`. In this order: the one in
/// [`VARIABLE`]; the one that was installed with this program, in `../lib/rowlock`; the embedded
/// one, unpacked in the user's cache or in another folder. For root the folder is readable by all
/// users, because root's programs start others as other users.
///
/// # Errors
/// If the library in [`VARIABLE`] cannot be used, and if there is no folder to unpack the embedded
/// one.
pub fn find() -> Result<PathBuf, LibraryError> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return named(Path::new(&path));
    }
    if let Some(path) = installed().filter(|path| is_fit(path) && fs::read(path).is_ok_and(|bytes| bytes == EMBEDDED)) {
        return Ok(path);
    }
    unpack(EMBEDDED, DIGEST, &places(geteuid().is_root()))
}

fn named(path: &Path) -> Result<PathBuf, LibraryError> {
    let refused = |why: String| LibraryError::Named { path: path.to_owned(), why };
    let path = fs::canonicalize(path).map_err(|why| refused(why.to_string()))?;
    let file = File::open(&path).map_err(|why| refused(why.to_string()))?;
    if !is_fit(&path) {
        return Err(refused("paths in LD_PRELOAD cannot contain blanks, colons or dollars".to_owned()));
    }
    if !sys::executable::can_be_mapped(&file) {
        return Err(refused("it is not a file, or its file system does not allow execution".to_owned()));
    }
    Ok(path)
}

/// The path in a distribution's package.
fn installed() -> Option<PathBuf> {
    let program = fs::canonicalize(env::current_exe().ok()?).ok()?;
    Some(program.parent()?.parent()?.join("lib/rowlock/librowlock_preload.so"))
}

/// In `LD_PRELOAD`, blanks and colons end a path, and a dollar begins a variable.
fn is_fit(path: &Path) -> bool {
    path.is_absolute() && !path.as_os_str().as_bytes().iter().any(|byte| b" \t\n:$".contains(byte))
}

/// A folder for the library. It belongs to this user alone.
#[derive(Clone, Debug)]
struct Place {
    /// A folder that must exist: a missing home, for example, is not created.
    within: PathBuf,
    folder: PathBuf,
    /// Whether other users may read the folder. They can never write to it.
    is_public: bool,
}

/// The folders to try, the best first.
fn places(is_root: bool) -> Vec<Place> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let place = |within: PathBuf, folder: PathBuf| Place { within, folder, is_public: is_root };
    let mut places = Vec::new();
    // The specification allows creating this folder. Root may have inherited the variable from
    // another user, who could put another file there.
    let cache = absolute("XDG_CACHE_HOME").map(|cache| cache.join("rowlock/preload"));
    let cache = cache.filter(|folder| !is_root || is_safe_from_others(folder));
    places.extend(cache.map(|folder| place("/".into(), folder)));
    if is_root {
        places.push(place("/var/cache".into(), "/var/cache/rowlock".into()));
    } else {
        places.extend(absolute("HOME").map(|home| place(home.clone(), home.join(".cache/rowlock/preload"))));
    }
    let own = format!("rowlock-{}", geteuid().as_raw());
    let common = ["/var/tmp", "/tmp", "/dev/shm"].map(Path::new);
    places.extend(common.map(|folder| place(folder.to_owned(), folder.join(&own))));
    // A library of root that other users cannot reach is the last resort. The sort is stable.
    places.sort_by_key(|place| place.is_public && !is_reachable_by_all(&place.folder));
    places
}

/// Whether every user can reach a folder, as far as its existing ancestors tell.
fn is_reachable_by_all(folder: &Path) -> bool {
    let above = folder.ancestors().skip(1);
    above.filter_map(|folder| fs::metadata(folder).ok()).all(|about| about.mode() & 0o001 != 0)
}

/// Writes the library with this digest to the first suitable folder, unless it is there already.
fn unpack(library: &[u8], digest: &str, places: &[Place]) -> Result<PathBuf, LibraryError> {
    let name = format!("{UNPACKED}{digest}.so");
    let mut refusals = Vec::new();
    for place in places {
        match unpack_in(place, &name, library) {
            Ok(path) => {
                mark(&path);
                remove_unused(&place.folder, &path);
                return Ok(path);
            }
            Err(why) => refusals.push(format!("{}: {why}", place.folder.display())),
        }
    }
    Err(LibraryError::NoPlace(refusals))
}

fn unpack_in(place: &Place, name: &str, library: &[u8]) -> io::Result<PathBuf> {
    let path = place.folder.join(name);
    if !is_fit(&path) {
        return Err(io::Error::other("paths in LD_PRELOAD cannot contain blanks, colons or dollars"));
    }
    if !place.within.is_dir() {
        return Err(io::Error::other(format!("there is no folder {}", place.within.display())));
    }
    let mode = if place.is_public { 0o755 } else { 0o700 };
    // Another user may have made the folder in `/tmp`, or a link.
    let folder = Folder::create_private(&place.folder, mode)?;
    if place.is_public {
        folder.set_mode(mode)?;
    }
    if !is_the_library(&folder, name, library) {
        remove_leftovers(&folder);
        folder.replace(name, library, Some(0o755))?;
    }
    if !sys::executable::can_be_mapped(File::open(&path)?) {
        // It is useless there.
        let _ = folder.remove(name);
        return Err(io::Error::other("its file system does not allow execution"));
    }
    Ok(path)
}

fn is_the_library(folder: &Folder, name: &str, library: &[u8]) -> bool {
    let is_executable = |about: fs::Metadata| about.mode() & 0o777 == 0o755;
    folder.read_private(name).is_ok_and(|bytes| bytes == library)
        && fs::symlink_metadata(folder.path().join(name)).is_ok_and(is_executable)
}

/// Marks a library as used, by its modification time. On failure it may be removed and unpacked
/// again later.
fn mark(library: &Path) {
    if is_older(library, MARK_INTERVAL) {
        let _ = File::open(library).and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// Removes libraries of other builds that have not been marked for long. Running programs keep
/// theirs; programs that they start would run without it.
fn remove_unused(folder: &Path, ours: &Path) {
    let Ok(opened) = Folder::open_private(folder) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_of_ours = name.starts_with(UNPACKED) && name.ends_with(".so");
        if is_of_ours && path != ours && is_older(&path, REMOVE_AFTER) {
            let _ = opened.remove(&*name);
        }
    }
}

/// Whether a file was last modified longer ago than this. False if that is unknown.
fn is_older(path: &Path, age: Duration) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|about| about.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|elapsed| elapsed > age))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, lchown};

    use sha2::{Digest, Sha256};

    use super::*;

    /// A file that can be mapped.
    const LIBRARY: &[u8] = b"a library";

    /// A place of one user, and the temporary folder around it.
    fn place() -> (tempfile::TempDir, Place) {
        let within = tempfile::tempdir().unwrap();
        let place = own(within.path().join("cache/rowlock"));
        (within, place)
    }

    fn own(folder: PathBuf) -> Place {
        Place { within: "/".into(), folder, is_public: false }
    }

    fn digest(library: &[u8]) -> String {
        crate::hex(&Sha256::digest(library)[..8])
    }

    fn unpack(library: &[u8], places: &[Place]) -> Result<PathBuf, LibraryError> {
        super::unpack(library, &digest(library), places)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_embedded_file_is_a_shared_library_with_its_digest() {
        assert_eq!(DIGEST, digest(EMBEDDED));
        assert_eq!(EMBEDDED.get(..4), Some(&b"\x7fELF"[..]));
        assert_eq!(EMBEDDED.get(16..18), Some(&3_u16.to_ne_bytes()[..]));
    }

    #[test]
    fn the_library_is_unpacked_once_and_only_for_this_user() {
        let (_within, place) = place();
        let path = unpack(LIBRARY, std::slice::from_ref(&place)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        assert_eq!((mode(&place.folder), mode(&path)), (0o700, 0o755));
        let unpacked = fs::metadata(&path).unwrap().ino();
        assert_eq!(unpack(LIBRARY, std::slice::from_ref(&place)).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), unpacked);
        assert_eq!(fs::read_dir(&place.folder).unwrap().count(), 1);
        assert_ne!(unpack(b"another", &[place]).unwrap(), path);
    }

    #[test]
    fn all_users_can_read_the_library_of_root() {
        let (within, place) = place();
        let places = [Place { is_public: true, ..place }];
        let path = unpack(LIBRARY, &places).unwrap();
        let modes = || [&within.path().join("cache"), &places[0].folder, &path].map(|path| mode(path));
        assert_eq!(modes(), [0o755; 3]);
        // The mode of a private folder.
        fs::set_permissions(&places[0].folder, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(unpack(LIBRARY, &places).unwrap(), path);
        assert_eq!(modes(), [0o755; 3]);
    }

    #[test]
    fn the_folders_of_root_are_not_in_a_home_and_others_can_reach_them() {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let in_home = |place: &Place| place.folder.starts_with(home.join(".cache/rowlock"));
        let of_root = places(true);
        assert!(
            of_root.iter().all(|place| place.is_public && (env::var_os("XDG_CACHE_HOME").is_some() || !in_home(place)))
        );
        assert!(of_root.iter().any(|place| place.folder == Path::new("/var/cache/rowlock")));
        assert!(places(false).iter().all(|place| !place.is_public));
        assert!(is_reachable_by_all(Path::new("/usr/x/y")));
        let (within, place) = place();
        fs::set_permissions(within.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(is_reachable_by_all(&place.folder));
        fs::set_permissions(within.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!is_reachable_by_all(&place.folder));
    }

    #[test]
    fn a_missing_home_is_not_created() {
        let (within, place) = place();
        let home = within.path().join("home");
        let places = [Place { within: home.clone(), folder: home.join(".cache/rowlock"), is_public: false }, place];
        assert_eq!(unpack(LIBRARY, &places).unwrap().parent(), Some(places[1].folder.as_path()));
        assert!(!home.exists());
        fs::create_dir(&home).unwrap();
        assert_eq!(unpack(LIBRARY, &places).unwrap().parent(), Some(places[0].folder.as_path()));
    }

    #[test]
    fn libraries_that_were_unused_for_long_are_removed() {
        let (_within, place) = place();
        let places = [place];
        let folder = &places[0].folder;
        let [ours, old, newer] = [LIBRARY, b"old", b"newer"].map(|library| unpack(library, &places).unwrap());
        let foreign = folder.join("foreign.so");
        fs::write(&foreign, "").unwrap();
        let since = |days: u32| SystemTime::now() - days * MARK_INTERVAL;
        let set = |path: &Path, days| File::open(path).unwrap().set_modified(since(days)).unwrap();
        for path in [&ours, &old, &foreign] {
            set(path, 31);
        }
        set(&newer, 29);
        assert_eq!(unpack(LIBRARY, &places).unwrap(), ours);
        assert_eq!([&ours, &old, &newer, &foreign].map(|path| path.exists()), [true, false, true, true]);
        // The used one was marked.
        assert!(!is_older(&ours, MARK_INTERVAL));
    }

    #[test]
    fn existing_files_are_not_trusted() {
        let (_within, place) = place();
        let places = [place];
        let path = unpack(LIBRARY, &places).unwrap();
        fs::write(&path, "something else").unwrap();
        assert_eq!(fs::read(unpack(LIBRARY, &places).unwrap()).unwrap(), LIBRARY);
        // The content is right, but other users could change it.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(mode(&unpack(LIBRARY, &places).unwrap()), 0o755);
        let elsewhere = places[0].folder.join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(fs::symlink_metadata(unpack(LIBRARY, &places).unwrap()).unwrap().is_file());
    }

    #[test]
    fn unsuitable_folders_are_skipped_and_reported() {
        let (within, place) = place();
        let world_writable = within.path().join("world_writable");
        fs::create_dir(&world_writable).unwrap();
        fs::set_permissions(&world_writable, Permissions::from_mode(0o777)).unwrap();
        let link = within.path().join("link");
        std::os::unix::fs::symlink(&place.folder, &link).unwrap();
        let mut bad = vec![world_writable, within.path().join("with blank"), "/proc".into(), "/dev/null/x".into()];
        if geteuid().is_root() {
            // This user's own link would be followed.
            lchown(&link, Some(testing::NOBODY), Some(testing::NOBODY)).unwrap();
            fs::create_dir_all(&place.folder).unwrap();
            bad.push(link);
        }
        let bad: Vec<Place> = bad.into_iter().map(own).collect();
        let all: Vec<Place> = bad.iter().chain([&place]).cloned().collect();
        assert_eq!(unpack(LIBRARY, &all).unwrap().parent(), Some(place.folder.as_path()));
        let Err(LibraryError::NoPlace(refusals)) = unpack(LIBRARY, &bad) else { panic!("there is a place") };
        assert_eq!(refusals.len(), bad.len());
    }

    #[test]
    fn a_named_library_must_be_loadable() {
        let (_within, place) = place();
        let path = unpack(LIBRARY, &[place]).unwrap();
        assert_eq!(named(&path).unwrap(), path.canonicalize().unwrap());
        for bad in ["/nowhere", "/", "/proc/self/status"] {
            assert!(matches!(named(Path::new(bad)), Err(LibraryError::Named { .. })), "{bad}");
        }
    }
}
