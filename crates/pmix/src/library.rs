//! The library: found, loaded, and compared with what this crate knows of it.

use std::env::{self, consts::ARCH};
use std::ffi::{CStr, CString, OsString, c_void};
use std::mem::{size_of, transmute_copy};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt;
use std::ptr::{NonNull, null_mut};
use std::slice;

use crate::interface::{
    AddToList, ConvertList, DataArray, DeregisterClient, DeregisterNamespace, ErrorString, GetVersion, Info,
    RegisterClient, RegisterHandler, RegisterNamespace, ReleaseList, SUCCESS, ServerFinalize, ServerInit, SetupFork,
    StartList, Status, key, kind,
};

/// The environment variable with the path of the library, in place of that of the system.
pub const VARIABLE: &str = "ROWLOCK_PMIX";

/// The versions whose interface is known.
const VERSIONS: RangeInclusive<u32> = 4..=6;
/// The name of the library in all these versions.
const NAME: &str = "libpmix.so.2";

/// Why there is no library to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// None was found.
    #[error(
        "there is no libpmix, by which programs of Open MPI start: install `libpmix2` (Debian, Ubuntu) or `pmix` \
         (Fedora), or let {VARIABLE} name the library ({0})"
    )]
    NotFound(String),
    /// It is not a version whose interface is known.
    #[error("{path} is version `{version}`: rowlock knows versions {} to {} of libpmix", VERSIONS.start(), VERSIONS.end())]
    Version {
        /// The name by which the library was loaded.
        path: String,
        /// Its own text about its version.
        version: String,
    },
    /// It has no function of this name.
    #[error("{path} is not a libpmix that can be used: it has no {function}")]
    Function {
        /// The name by which the library was loaded.
        path: String,
        /// The name of the function.
        function: &'static str,
    },
    /// Its attributes are not stored as in the versions that are known.
    #[error("{path} is version `{version}`, but stores attributes in another way than libpmix does")]
    Layout {
        /// The name by which the library was loaded.
        path: String,
        /// Its own text about its version.
        version: String,
    },
}

/// A loaded libpmix of a known version. It remains loaded until the process ends.
#[derive(Debug)]
pub struct Library {
    version: String,
    pub(crate) functions: Functions,
}

/// Declares the functions of the library with their names.
macro_rules! functions {
    ($($field:ident: $type:ty = $name:literal,)*) => {
        /// Functions of the library. All may be called from any thread.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $field: $type,)*
        }

        impl Functions {
            /// Finds them. The error is the name of one that is missing.
            ///
            /// # Safety
            /// The library of this handle is a libpmix of one of the [`VERSIONS`].
            unsafe fn find(handle: Handle) -> Result<Functions, &'static str> {
                // SAFETY: in these versions, the functions of these names have these types.
                Ok(unsafe { Functions { $($field: handle.function($name).ok_or($name)?,)* } })
            }
        }
    };
}

functions! {
    error_string: ErrorString = "PMIx_Error_string",
    server_init: ServerInit = "PMIx_server_init",
    server_finalize: ServerFinalize = "PMIx_server_finalize",
    register_namespace: RegisterNamespace = "PMIx_server_register_nspace",
    deregister_namespace: DeregisterNamespace = "PMIx_server_deregister_nspace",
    register_client: RegisterClient = "PMIx_server_register_client",
    deregister_client: DeregisterClient = "PMIx_server_deregister_client",
    setup_fork: SetupFork = "PMIx_server_setup_fork",
    register_handler: RegisterHandler = "PMIx_Register_event_handler",
}

impl Library {
    /// Loads the library of the system, or the one that [`VARIABLE`] names.
    ///
    /// # Errors
    /// If there is none, or it is not what this crate knows.
    pub fn load() -> Result<Library, LoadError> {
        match env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
            Some(named) => Library::load_one_of([named]),
            None => Library::load_one_of([NAME.into(), format!("/usr/lib/{ARCH}-linux-gnu/pmix2/lib/{NAME}").into()]),
        }
    }

    /// Loads the first of these that is there.
    fn load_one_of(names: impl IntoIterator<Item = OsString>) -> Result<Library, LoadError> {
        let mut first_reason = None;
        for name in names {
            match Handle::open(name.clone()) {
                Ok(handle) => return Library::check(handle, name.to_string_lossy().into_owned()),
                Err(why) => _ = first_reason.get_or_insert(why),
            }
        }
        Err(LoadError::NotFound(first_reason.unwrap_or_default()))
    }

    fn check(handle: Handle, path: String) -> Result<Library, LoadError> {
        let missing = |path| move |function| LoadError::Function { path, function };
        const GET_VERSION: &str = "PMIx_Get_version";
        // SAFETY: a function of this name has this type in all versions of libpmix since the
        // second, and no other library has one. It returns a string that never changes.
        let version = unsafe {
            let get_version: GetVersion =
                handle.function(GET_VERSION).ok_or(GET_VERSION).map_err(missing(path.clone()))?;
            CStr::from_ptr(get_version()).to_string_lossy().into_owned()
        };
        if !major(&version).is_some_and(|major| VERSIONS.contains(&major)) {
            return Err(LoadError::Version { path, version });
        }
        // SAFETY: it is a libpmix of a known version.
        let (functions, stores_attributes_as_known) =
            unsafe { (Functions::find(handle).map_err(missing(path.clone()))?, stores_attributes_as_known(handle)) };
        match stores_attributes_as_known {
            Some(false) => Err(LoadError::Layout { path, version }),
            // Versions before 4.2 cannot be asked, and will not change any more.
            Some(true) | None => Ok(Library { version, functions }),
        }
    }

    /// The text of the library about its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The name of a status.
    pub(crate) fn name_of(&self, status: Status) -> String {
        // SAFETY: the function takes any number, and returns a string that never changes.
        unsafe { CStr::from_ptr((self.functions.error_string)(status)).to_string_lossy().into_owned() }
    }
}

/// The first part of the version in a text like `OpenPMIx 4.2.2, repo rev: v4.2.2`.
fn major(version: &str) -> Option<u32> {
    let number = version.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.split('.').next()?.parse().ok()
}

/// Lets the library store attributes, and reads them as it will read ours. Returns whether they are
/// the same, or `None` if it has no functions for that.
///
/// # Safety
/// The library of this handle is a libpmix of one of the [`VERSIONS`].
unsafe fn stores_attributes_as_known(handle: Handle) -> Option<bool> {
    let values = [(key::JOB_SIZE, u32::MAX), (key::NODE_SIZE, 0x0102_0304)];
    let mut found = DataArray { kind: 0, size: 0, array: null_mut() };
    // SAFETY: the functions of these names have these types. The values are read while they are
    // there, and the array is written to while it is there.
    unsafe {
        let start: StartList = handle.function("PMIx_Info_list_start")?;
        let add: AddToList = handle.function("PMIx_Info_list_add")?;
        let convert: ConvertList = handle.function("PMIx_Info_list_convert")?;
        let release: ReleaseList = handle.function("PMIx_Info_list_release")?;
        let list = start();
        for (key, value) in &values {
            if add(list, key.as_ptr(), (&raw const *value).cast(), kind::UINT32) != SUCCESS {
                return Some(false);
            }
        }
        if convert(list, &raw mut found) != SUCCESS {
            return Some(false);
        }
        release(list);
    }
    if found.kind != kind::INFO || found.size != values.len() || found.array.is_null() {
        return Some(false);
    }
    // SAFETY: the library has allocated this memory by `malloc`, with no other memory that it
    // refers to. It is read if it is large enough, as integers, which the library has written or
    // set to zero.
    unsafe {
        let is_large_enough = libc::malloc_usable_size(found.array) >= values.len() * size_of::<Info>();
        let is_equal = is_large_enough
            && slice::from_raw_parts(found.array.cast::<Info>(), found.size).iter().zip(values).all(
                |(info, (key, value))| {
                    let begins = info.key.starts_with(key.to_bytes_with_nul());
                    begins && info.flags == 0 && info.value.kind == kind::UINT32 && info.value.data.uint32 == value
                },
            );
        libc::free(found.array);
        Some(is_equal)
    }
}

/// A library that is loaded for ever: its threads may run its code at any time.
#[derive(Clone, Copy, Debug)]
struct Handle(NonNull<c_void>);

impl Handle {
    /// Loads it. The error is the text of the loader.
    fn open(name: OsString) -> Result<Handle, String> {
        let name = CString::new(name.into_vec()).map_err(|why| why.to_string())?;
        // SAFETY: the initializers of a library run, which the user trusts: it is one of the
        // system, or one that he has named. The error is a string until the next call on this
        // thread.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
            NonNull::new(handle).map(Handle).ok_or_else(|| match libc::dlerror() {
                why if why.is_null() => "no reason is known".to_owned(),
                why => CStr::from_ptr(why).to_string_lossy().into_owned(),
            })
        }
    }

    /// A function of the library, if it has one of this name.
    ///
    /// # Safety
    /// `Function` is the type of a pointer to a C function, and that of the function of this name.
    unsafe fn function<Function: Copy>(self, name: &str) -> Option<Function> {
        const { assert!(size_of::<Function>() == size_of::<*mut c_void>()) };
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is valid, as it is never closed, and the name is a string.
        let address = NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })?;
        // SAFETY: it is the address of a function of this type, which is not null.
        Some(unsafe { transmute_copy(&address) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_found_in_what_the_versions_say() {
        for (text, expected) in [
            ("OpenPMIx 4.2.2rc1 (PMIx Standard: 4.1, Stable ABI: 0.0, Provisional ABI: 0.0)", Some(4)),
            ("OpenPMIx 3.1.5, repo rev: v3.1.5, Feb 19, 2020", Some(3)),
            ("OpenPMIx 12.0.0", Some(12)),
            ("OpenPMIx", None),
            ("", None),
        ] {
            assert_eq!(major(text), expected, "{text}");
        }
    }
}
