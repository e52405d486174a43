//! Libraries that are not there, or are not a libpmix that is known.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::job;

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("a_missing_library_is_an_error_that_says_what_to_install", a_missing_library),
    ("a_library_that_fails_or_dies_is_an_error_and_may_print", failing_libraries),
    ("a_server_that_does_not_end_is_ended", a_library_that_does_not_end),
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

/// A library in C, for jobs that it must not serve.
struct Fake {
    compiler: OsString,
    folder: TempDir,
}

impl Fake {
    /// `None` if there is no compiler.
    fn new() -> Option<Fake> {
        Some(Fake { compiler: testing::tool("CC", "cc")?, folder: tempfile::tempdir().unwrap() })
    }

    /// Builds the library, and expects that it is refused.
    #[track_caller]
    fn expect_refusal(&self, source: &str, text: &str) {
        expect_refusal(&self.build(source), text);
    }

    /// Builds the library.
    fn build(&self, source: &str) -> PathBuf {
        let [library, file] = ["libpmix.so", "library.c"].map(|name| self.folder.path().join(name));
        std::fs::write(&file, source).unwrap();
        let mut cc = testing::command(&self.compiler);
        testing::run(cc.args(["-shared", "-fPIC", "-o"]).args([&library, &file])).expect_success();
        library
    }
}

/// A function that says the version.
fn says(version: &str) -> String {
    format!("const char *PMIx_Get_version(void) {{ return \"{version}\"; }}\n")
}

/// The functions that the server uses, except those of the last argument. They do nothing.
fn functions(except: &[&str]) -> String {
    let names = [
        "PMIx_Error_string",
        "PMIx_server_init",
        "PMIx_server_finalize",
        "PMIx_server_register_nspace",
        "PMIx_server_deregister_nspace",
        "PMIx_server_register_client",
        "PMIx_server_deregister_client",
        "PMIx_server_setup_fork",
        "PMIx_Register_event_handler",
    ];
    let used = names.iter().filter(|name| !except.contains(name));
    used.map(|name| format!("int {name}(void) {{ return 0; }}\n")).collect()
}

fn unknown_libraries() {
    let Some(fake) = Fake::new() else { return };
    // All functions are there, but attributes are stored in another way.
    let other = "#include <stdlib.h>
        void *PMIx_Info_list_start(void) { return malloc(1); }
        int PMIx_Info_list_add(void *list) { return 0; }
        void PMIx_Info_list_release(void *list) { free(list); }
        struct array { unsigned short type; size_t size; void *array; };
        int PMIx_Info_list_convert(void *list, struct array *to) {
            to->type = 24; to->size = 2; to->array = calloc(2, LENGTH); return 0;
        }\n";
    let other = |length: &str| says("OpenPMIx 6.1.0") + &functions(&[]) + &other.replace("LENGTH", length);
    for (source, text) in [
        (says("OpenPMIx 3.2.3 (PMIx Standard: 3.2)"), "is version `OpenPMIx 3.2.3 (PMIx Standard: 3.2)`"),
        (says("OpenPMIx 7.0.0a1"), "libpmix.so is version `OpenPMIx 7.0.0a1`: rowlock knows versions 4 to 6"),
        (says("none"), "is version `none`"),
        (String::new(), "it has no PMIx_Get_version"),
        (says("OpenPMIx 5.0.1"), "it has no PMIx_Error_string"),
        (other("8"), "is version `OpenPMIx 6.1.0`, but stores attributes in another way"),
        (other("552"), "is version `OpenPMIx 6.1.0`, but stores attributes in another way"),
    ] {
        fake.expect_refusal(&source, text);
    }
}

fn failing_libraries() {
    let Some(fake) = Fake::new() else { return };
    let init = |body: &str| {
        says("OpenPMIx 4.0.0")
            + &functions(&["PMIx_server_init", "PMIx_Error_string"])
            + "#include <stdio.h>\n#include <stdlib.h>\n"
            + "const char *PMIx_Error_string(int status) { return status == -1 ? \"ERROR\" : \"OTHER\"; }\n"
            + &format!("int PMIx_server_init(void) {{ {body} }}\n")
    };
    let fails = "puts(\"it prints\"); fflush(stdout); return -1;";
    fake.expect_refusal(&init(fails), "PMIx_server_init has failed: ERROR");
    fake.expect_refusal(&init("abort();"), "the PMIx server has not started: signal: 6");
    fake.expect_refusal(&init("exit(0);"), "the PMIx server has not started: exit status: 0");
}

fn a_library_that_does_not_end() {
    let Some(fake) = Fake::new() else { return };
    let waiting = ["PMIx_server_finalize", "PMIx_server_deregister_client"];
    let waiting: String =
        waiting.iter().map(|name| format!("int {name}(void) {{ for (;;) pause(); return 0; }}\n")).collect();
    // Each call is done when it returns, and there is no variable.
    let done = ["PMIx_server_register_nspace", "PMIx_server_register_client", "PMIx_Register_event_handler"];
    let done: String = done.iter().map(|name| format!("int {name}(void) {{ return -157; }}\n")).collect();
    let other = "void PMIx_server_deregister_nspace(void) {}
        int PMIx_server_init(void) { signal(SIGTERM, SIG_IGN); return 0; }
        int PMIx_server_setup_fork(void) { return 0; }
        const char *PMIx_Error_string(int status) { return \"?\"; }\n";
    let source = says("OpenPMIx 4.1.2") + "#include <signal.h>\n#include <unistd.h>\n" + &waiting + &done + other;
    let mut job = job::command(&[0, 0], "true");
    testing::run(job.env("ROWLOCK_PMIX", fake.build(&source))).expect_success().expect_stdout("the server has ended");
}
