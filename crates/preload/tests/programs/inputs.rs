//! The inputs of programs, and programs that have to be compiled first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::catalogue::Program;

/// The folder of this process, since other processes may create the same files at the same time.
fn folder() -> &'static Path {
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{}", std::process::id()));
        for part in ["input", "made"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        folder
    })
}

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Removes the folder, if it exists.
pub(crate) fn remove() {
    if let Some(folder) = FOLDER.get() {
        fs::remove_dir_all(folder).unwrap();
    }
}

/// The folder of the compiled programs.
pub(crate) fn built() -> PathBuf {
    folder().join("made")
}

/// The folder of the inputs, which never change.
pub(crate) fn inputs() -> &'static Path {
    static INPUTS: OnceLock<PathBuf> = OnceLock::new();
    INPUTS.get_or_init(|| {
        let folder = folder().join("input");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut words = |times: usize| {
            let mut text = String::new();
            for _ in 0..times {
                let word = random.next_u64();
                // Some words are frequent.
                let word = if word.is_multiple_of(3) { word >> 32 & 63 } else { word >> 44 };
                text.push_str(&format!("{word:x}"));
                text.push(if word % 11 == 0 { '\n' } else { ' ' });
            }
            text.push('\n');
            text
        };
        fs::write(folder.join("text"), words(600_000)).unwrap();
        fs::write(folder.join("little"), words(20_000)).unwrap();
        folder
    })
}

/// Prepares a program, once.
pub(crate) fn prepare(program: &Program) -> Result<(), String> {
    static DONE: Mutex<BTreeMap<&str, Result<(), String>>> = Mutex::new(BTreeMap::new());
    let mut done = DONE.lock().unwrap();
    done.entry(program.prepare).or_insert_with(|| {
        inputs();
        let mut shell = testing::command("/bin/sh");
        shell.arg("-c").arg(format!("set -e; {}", program.prepare)).env("MADE", built());
        shell.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sources"));
        let output = testing::run(&mut shell);
        let why = "`.ci/setup-programs` installs the requirements on Debian";
        output.status.success().then_some(()).ok_or_else(|| format!("{}: {why}\n{output}", program.name))
    });
    done[program.prepare].clone()
}
