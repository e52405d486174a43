//! The library that is preloaded: where it is, or where it is unpacked to.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;
use sha2::{Digest, Sha256};

/// The variable that names a library to be taken instead of ours.
pub const VARIABLE: &str = "ROWLOCK_PRELOAD";

/// The library as it was built together with this program.
pub(crate) static EMBEDDED: &[u8] = include_bytes!(env!("ROWLOCK_BUILT_PRELOAD"));

/// What is unpacked begins its name with this, and a draft of it with that.
const UNPACKED: &str = "librowlock_preload-";
const DRAFT: &str = "draft-";
/// How often a library that is used is marked so, and after how long without a mark that of another build is removed.
const MARKED_EVERY: Duration = Duration::from_secs(24 * 3600);
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The one that was asked for cannot be used.
    #[error("{VARIABLE} names {}, which cannot be preloaded: {why}", path.display())]
    Named {
        /// What was asked for.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It can be unpacked nowhere.
    #[error(
        "there is no place for the library that is to be preloaded: {}; let XDG_CACHE_HOME name a folder from which programs can be executed, \
         and in whose path there is no blank, colon or dollar",
        .0.join("; ")
    )]
    NoPlace(Vec<String>),
}

/// The path of the library, absolute and fit for `LD_PRELOAD`: that which [`VARIABLE`] names; that which was installed with this program, in
/// `../lib/rowlock`; else the one that this program carries, unpacked in the user's cache or where there is room for it. The superuser's
/// is where everybody can read it: its programs start others as other users.
///
/// # Errors
/// When the one that is asked for cannot be used, and when there is nowhere to unpack ours.
pub fn find() -> Result<PathBuf, LibraryError> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return named(Path::new(&path));
    }
    if let Some(path) = installed().filter(|path| is_fit(path) && fs::read(path).is_ok_and(|bytes| bytes == EMBEDDED)) {
        return Ok(path);
    }
    unpack(EMBEDDED, &places(geteuid().is_root()))
}

fn named(path: &Path) -> Result<PathBuf, LibraryError> {
    let refused = |why: String| LibraryError::Named { path: path.to_owned(), why };
    let path = fs::canonicalize(path).map_err(|why| refused(why.to_string()))?;
    let file = File::open(&path).map_err(|why| refused(why.to_string()))?;
    if !is_fit(&path) {
        return Err(refused("LD_PRELOAD takes no blanks, colons and dollars".to_owned()));
    }
    if !sys::executable::can_be_mapped(&file) {
        return Err(refused("it is no file, or where nothing can be executed".to_owned()));
    }
    Ok(path)
}

/// Where a distribution's package has it.
fn installed() -> Option<PathBuf> {
    let program = fs::canonicalize(env::current_exe().ok()?).ok()?;
    Some(program.parent()?.parent()?.join("lib/rowlock/librowlock_preload.so"))
}

/// The loader takes blanks and colons for the end of a path, and dollars for the beginning of a name.
fn is_fit(path: &Path) -> bool {
    path.is_absolute() && !path.as_os_str().as_bytes().iter().any(|byte| b" \t\n:$".contains(byte))
}

/// A folder for the library, which belongs to this user alone.
#[derive(Clone, Debug)]
struct Place {
    /// What has to be there already: nobody's home is made for this.
    within: PathBuf,
    folder: PathBuf,
    /// Whether others may read what is in it. Nobody else can write to it.
    is_public: bool,
}

/// Where the library may be unpacked, the best place first.
fn places(is_root: bool) -> Vec<Place> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let place = |within: PathBuf, folder: PathBuf| Place { within, folder, is_public: is_root };
    let mut places = Vec::new();
    // This one may be made, says who has specified it. The superuser may have it from another user, who could put something else there.
    let cache = absolute("XDG_CACHE_HOME").map(|cache| cache.join("rowlock/preload"));
    let cache = cache.filter(|folder| !is_root || is_in_safe_hands(folder));
    places.extend(cache.map(|folder| place("/".into(), folder)));
    if is_root {
        places.push(place("/var/cache".into(), "/var/cache/rowlock".into()));
    } else {
        places.extend(absolute("HOME").map(|home| place(home.clone(), home.join(".cache/rowlock/preload"))));
    }
    let own = format!("rowlock-{}", geteuid().as_raw());
    let common = ["/var/tmp", "/tmp", "/dev/shm"].map(Path::new);
    places.extend(common.map(|folder| place(folder.to_owned(), folder.join(&own))));
    // What others cannot reach is the last resort of who has to share. The order is kept otherwise.
    places.sort_by_key(|place| place.is_public && !is_reached_by_all(&place.folder));
    places
}

/// Whether every user can come to a folder, as far as the folders above it that exist tell.
fn is_reached_by_all(folder: &Path) -> bool {
    let above = folder.ancestors().skip(1);
    above.filter_map(|folder| fs::metadata(folder).ok()).all(|about| about.mode() & 0o001 != 0)
}

/// Whether only this user and the superuser can put another folder in the place of this one, as far as the folders above it exist.
fn is_in_safe_hands(folder: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    let is_safe = |about: fs::Metadata| {
        let is_trusted = about.uid() == 0 || about.uid() == geteuid().as_raw();
        is_trusted && (about.mode() & 0o022 == 0 || about.mode() & STICKY != 0)
    };
    folder.ancestors().skip(1).filter_map(|folder| fs::metadata(folder).ok()).all(is_safe)
}

/// Puts the library into the first of these places in which it can be, unless it is there already.
fn unpack(library: &[u8], places: &[Place]) -> Result<PathBuf, LibraryError> {
    let hash: String = Sha256::digest(library).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{UNPACKED}{hash}.so");
    let mut refusals = Vec::new();
    for place in places {
        match unpack_in(place, name.as_ref(), library) {
            Ok(path) => {
                mark(&path);
                remove_forgotten(&place.folder, &path);
                return Ok(path);
            }
            Err(why) => refusals.push(format!("{}: {why}", place.folder.display())),
        }
    }
    Err(LibraryError::NoPlace(refusals))
}

fn unpack_in(place: &Place, name: &OsStr, library: &[u8]) -> io::Result<PathBuf> {
    let folder = &place.folder;
    let path = folder.join(name);
    if !is_fit(&path) {
        return Err(io::Error::other("LD_PRELOAD takes no blanks, colons and dollars"));
    }
    make(place)?;
    // A folder that is a link of somebody else's making, in `/tmp`, is none of ours.
    let about = fs::symlink_metadata(folder)?;
    if !about.is_dir() || !is_ours_alone(&about) {
        return Err(io::Error::other("it is no folder that this user alone can write to"));
    }
    if place.is_public && about.mode() & 0o777 != 0o755 {
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    if !is_the_library(&path, library) {
        let mut draft = tempfile::NamedTempFile::with_prefix_in(DRAFT, folder)?;
        draft.write_all(library)?;
        draft.as_file().set_permissions(Permissions::from_mode(0o755))?;
        draft.persist(&path).map_err(|failed| failed.error)?;
    }
    if !sys::executable::can_be_mapped(File::open(&path)?) {
        // It would only lie about there.
        let _ = fs::remove_file(&path);
        return Err(io::Error::other("nothing can be executed there"));
    }
    Ok(path)
}

/// Makes the folder of a place, and those between it and what has to be there.
fn make(Place { within, folder, is_public }: &Place) -> io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    if !within.is_dir() {
        return Err(io::Error::other(format!("there is no folder {}", within.display())));
    }
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    let mode = if *is_public { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    if *is_public {
        // The mask for new files has taken something away, maybe.
        missing.into_iter().try_for_each(|made| fs::set_permissions(made, Permissions::from_mode(mode)))?;
    }
    Ok(())
}

fn is_the_library(path: &Path, library: &[u8]) -> bool {
    let is_ours = |about: fs::Metadata| about.is_file() && is_ours_alone(&about) && about.mode() & 0o777 == 0o755;
    fs::symlink_metadata(path).is_ok_and(is_ours) && fs::read(path).is_ok_and(|bytes| bytes == library)
}

/// Whether it belongs to this user and nobody else can write to it.
fn is_ours_alone(about: &fs::Metadata) -> bool {
    about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0
}

/// Notes in the time of its last change that a library is in use. Where that does not work it may be unpacked once more some day.
fn mark(library: &Path) {
    if is_older(library, MARKED_EVERY) {
        let _ = File::open(library).and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// Removes the libraries of other builds, and drafts of killed processes, that nobody has marked for long. Programs that run have theirs
/// still; those that they start would be without.
fn remove_forgotten(folder: &Path, ours: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_of_ours = name.starts_with(UNPACKED) && name.ends_with(".so") || name.starts_with(DRAFT);
        if is_of_ours && path != ours && is_older(&path, FORGOTTEN_AFTER) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether a file was last changed longer ago than this; no if that cannot be known.
fn is_older(path: &Path, age: Duration) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|about| about.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|elapsed| elapsed > age))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that can be mapped.
    const LIBRARY: &[u8] = b"a library";

    /// A place for one user, and what it is in.
    fn place() -> (tempfile::TempDir, Place) {
        let within = tempfile::tempdir().unwrap();
        let place = own(within.path().join("cache/rowlock"));
        (within, place)
    }

    fn own(folder: PathBuf) -> Place {
        Place { within: "/".into(), folder, is_public: false }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_embedded_is_a_shared_library() {
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
    fn everybody_can_read_the_superusers() {
        let (within, place) = place();
        let places = [Place { is_public: true, ..place }];
        let path = unpack(LIBRARY, &places).unwrap();
        let modes = || [&within.path().join("cache"), &places[0].folder, &path].map(|path| mode(path));
        assert_eq!(modes(), [0o755; 3]);
        // As it was made when it was for one user.
        fs::set_permissions(&places[0].folder, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(unpack(LIBRARY, &places).unwrap(), path);
        assert_eq!(modes(), [0o755; 3]);
    }

    #[test]
    fn the_superusers_places_are_no_homes_and_others_can_reach_them() {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let in_home = |place: &Place| place.folder.starts_with(home.join(".cache/rowlock"));
        let of_root = places(true);
        assert!(
            of_root.iter().all(|place| place.is_public && (env::var_os("XDG_CACHE_HOME").is_some() || !in_home(place)))
        );
        assert!(of_root.iter().any(|place| place.folder == Path::new("/var/cache/rowlock")));
        assert!(places(false).iter().all(|place| !place.is_public));
        assert!(is_reached_by_all(Path::new("/usr/x/y")));
        let (within, place) = place();
        fs::set_permissions(within.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(is_reached_by_all(&place.folder));
        fs::set_permissions(within.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!is_reached_by_all(&place.folder));
    }

    #[test]
    fn a_folder_that_others_could_exchange_is_not_safe() {
        let (within, place) = place();
        for (mode, is_safe) in [(0o755, true), (0o777, false), (0o775, false), (0o1777, true)] {
            fs::set_permissions(within.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_in_safe_hands(&place.folder), is_safe, "{mode:o}");
        }
    }

    #[test]
    fn no_home_is_made() {
        let (within, place) = place();
        let home = within.path().join("home");
        let places = [Place { within: home.clone(), folder: home.join(".cache/rowlock"), is_public: false }, place];
        assert_eq!(unpack(LIBRARY, &places).unwrap().parent(), Some(places[1].folder.as_path()));
        assert!(!home.exists());
        fs::create_dir(&home).unwrap();
        assert_eq!(unpack(LIBRARY, &places).unwrap().parent(), Some(places[0].folder.as_path()));
    }

    #[test]
    fn libraries_that_nobody_has_used_for_long_are_removed() {
        let (_within, place) = place();
        let places = [place];
        let folder = &places[0].folder;
        let [ours, old, newer] = [LIBRARY, b"old", b"newer"].map(|library| unpack(library, &places).unwrap());
        let [draft, foreign] = ["draft-x", "foreign.so"].map(|name| folder.join(name));
        for file in [&draft, &foreign] {
            fs::write(file, "").unwrap();
        }
        let since = |days: u32| SystemTime::now() - days * MARKED_EVERY;
        let set = |path: &Path, days| File::open(path).unwrap().set_modified(since(days)).unwrap();
        for path in [&ours, &old, &draft, &foreign] {
            set(path, 31);
        }
        set(&newer, 29);
        assert_eq!(unpack(LIBRARY, &places).unwrap(), ours);
        assert_eq!([&ours, &old, &newer, &draft, &foreign].map(|path| path.exists()), [true, false, true, false, true]);
        // What is used is marked so that it stays.
        assert!(!is_older(&ours, MARKED_EVERY));
    }

    #[test]
    fn what_is_there_is_not_trusted() {
        let (_within, place) = place();
        let places = [place];
        let path = unpack(LIBRARY, &places).unwrap();
        fs::write(&path, "something else").unwrap();
        assert_eq!(fs::read(unpack(LIBRARY, &places).unwrap()).unwrap(), LIBRARY);
        // The right bytes, but others could change them.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(mode(&unpack(LIBRARY, &places).unwrap()), 0o755);
        let elsewhere = places[0].folder.join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(fs::symlink_metadata(unpack(LIBRARY, &places).unwrap()).unwrap().is_file());
    }

    #[test]
    fn a_place_that_will_not_do_is_passed_over_and_said() {
        let (within, place) = place();
        let everybodys = within.path().join("everybodys");
        fs::create_dir(&everybodys).unwrap();
        fs::set_permissions(&everybodys, Permissions::from_mode(0o777)).unwrap();
        let link = within.path().join("link");
        std::os::unix::fs::symlink(&place.folder, &link).unwrap();
        let bad = [everybodys, link, within.path().join("with blank"), "/proc".into(), "/dev/null/x".into()].map(own);
        let all: Vec<Place> = bad.iter().chain([&place]).cloned().collect();
        assert_eq!(unpack(LIBRARY, &all).unwrap().parent(), Some(place.folder.as_path()));
        let Err(LibraryError::NoPlace(refusals)) = unpack(LIBRARY, &bad) else { panic!("there is a place") };
        assert_eq!(refusals.len(), bad.len());
    }

    #[test]
    fn a_library_that_is_asked_for_must_be_one_that_can_be_loaded() {
        let (_within, place) = place();
        let path = unpack(LIBRARY, &[place]).unwrap();
        assert_eq!(named(&path).unwrap(), path.canonicalize().unwrap());
        for bad in ["/nowhere", "/", "/proc/self/status"] {
            assert!(matches!(named(Path::new(bad)), Err(LibraryError::Named { .. })), "{bad}");
        }
    }
}
