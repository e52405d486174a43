//! Libraries that are not there, or are not a libpmix that is known.

use std::path::Path;

use crate::job;

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("a_missing_library_is_an_error_that_says_what_to_install", a_missing_library),
    ("a_library_that_is_no_libpmix_of_a_known_version_is_refused_by_name", unknown_libraries),
];

/// Runs a job with this library, and expects that it is refused.
#[track_caller]
fn expect_refusal(library: &Path, text: &str) {
    let mut job = job::command(&[0], "true");
    testing::run(job.env("ROWLOCK_PMIX", library)).expect_exit(3).expect_stdout(text);
}

fn a_missing_library() {
    expect_refusal(Path::new("/no/libpmix.so"), "install `libpmix2` (Debian, Ubuntu) or `pmix` (Fedora)");
    expect_refusal(Path::new("/no/libpmix.so"), "/no/libpmix.so: cannot open shared object file");
    expect_refusal(Path::new("/dev/null"), "there is no libpmix");
}

fn unknown_libraries() {
    let Some(compiler) = testing::tool("CC", "cc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libpmix.so");
    let says = |version: &str| format!("const char *PMIx_Get_version(void) {{ return \"{version}\"; }}\n");
    // All functions are there, but attributes are stored in another way.
    let functions = [
        "PMIx_Error_string",
        "PMIx_server_init",
        "PMIx_server_finalize",
        "PMIx_server_register_nspace",
        "PMIx_server_deregister_nspace",
        "PMIx_server_register_client",
        "PMIx_server_deregister_client",
        "PMIx_server_setup_fork",
        "PMIx_Register_event_handler",
        "PMIx_Info_list_add",
        "PMIx_Info_list_release",
    ];
    let functions: String = functions.iter().map(|name| format!("int {name}(void) {{ return 0; }}\n")).collect();
    let other = "#include <stdlib.h>
        void *PMIx_Info_list_start(void) { return malloc(1); }
        struct array { unsigned short type; size_t size; void *array; };
        int PMIx_Info_list_convert(void *list, struct array *to) {
            to->type = 24; to->size = 2; to->array = calloc(2, LENGTH); return 0;
        }\n";
    let other = |length: &str| says("OpenPMIx 6.1.0") + &functions + &other.replace("LENGTH", length);
    for (source, text) in [
        (says("OpenPMIx 3.2.3 (PMIx Standard: 3.2)"), "is version `OpenPMIx 3.2.3 (PMIx Standard: 3.2)`"),
        (says("OpenPMIx 7.0.0a1"), "rowlock knows versions 4 to 6"),
        (says("none"), "is version `none`"),
        (String::new(), "it has no PMIx_Get_version"),
        (says("OpenPMIx 5.0.1"), "it has no PMIx_Error_string"),
        (other("8"), "is version `OpenPMIx 6.1.0`, but stores attributes in another way"),
        (other("552"), "is version `OpenPMIx 6.1.0`, but stores attributes in another way"),
    ] {
        let file = folder.path().join("library.c");
        std::fs::write(&file, source).unwrap();
        let mut cc = testing::command(&compiler);
        testing::run(cc.args(["-shared", "-fPIC", "-o"]).args([&library, &file])).expect_success();
        expect_refusal(&library, text);
        expect_refusal(&library, library.to_str().unwrap());
    }
}
