//! Libraries for C and C++ in tests: programs that are compiled with the header, linked with the
//! library, and run; and what the library exports, declares and installs.
//!
//! Without a compiler, or another tool, tests pass with a note, unless `ROWLOCK_REQUIRE_CC` is set.
//! `CC` and `CXX` name compilers other than `cc` and `c++`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::{command, library, run, tool};

/// The system libraries that a program with the static library needs.
const SYSTEM: [&str; 4] = ["-lgcc_s", "-lm", "-ldl", "-lc"];

/// A package that makes a shared and a static library for C.
#[derive(Debug)]
pub struct CLibrary {
    package: &'static str,
    /// As in `lib{name}.so` and `{name}.h`.
    name: &'static str,
    root: &'static str,
    target: &'static str,
    folder: OnceLock<PathBuf>,
}

/// How a program is linked.
#[derive(Clone, Copy, Debug)]
pub enum Linked {
    /// With the shared library.
    Shared,
    /// With the static library.
    Static,
    /// Without it, for a comparison.
    Without,
}

/// A compiled program. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct CProgram {
    folder: TempDir,
    libraries: PathBuf,
}

impl CLibrary {
    /// The library of the calling test's package, which gives `CARGO_MANIFEST_DIR` and
    /// `CARGO_TARGET_TMPDIR` of its environment.
    pub const fn new(package: &'static str, name: &'static str, root: &'static str, target: &'static str) -> CLibrary {
        CLibrary { package, name, root, target, folder: OnceLock::new() }
    }

    /// The folder of the package.
    pub fn root(&self) -> &'static Path {
        Path::new(self.root)
    }

    /// The folder of the headers.
    pub fn include(&self) -> PathBuf {
        self.root().join("include")
    }

    fn header(&self) -> PathBuf {
        self.include().join(self.name).with_extension("h")
    }

    /// The folder of both libraries, which are built if necessary.
    pub fn folder(&self) -> &Path {
        self.folder.get_or_init(|| {
            let folder = Path::new(self.target).join(format!("lib{}", self.name));
            let files = [("so", "so"), ("so", "so.0"), ("a", "a")]
                .map(|(from, to)| [from, to].map(|end| format!("lib{}.{end}", self.name)));
            let files = files.each_ref().map(|[from, to]| (from.as_str(), to.as_str()));
            library::install(self.package, &folder, &files);
            folder
        })
    }

    /// Compiles a program of the package, without warnings. `None` without a compiler.
    ///
    /// # Panics
    /// If it does not compile.
    #[track_caller]
    pub fn compile(&self, source: &str, flags: &[&str], linked: Linked) -> Option<CProgram> {
        let is_cpp = source.ends_with("pp");
        let compiler = if is_cpp { tool("CXX", "c++") } else { tool("CC", "cc") }?;
        let program = CProgram { folder: temporary(), libraries: self.folder().to_owned() };
        let mut compile = command(compiler);
        compile.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread"]).args(flags);
        compile.arg("-o").arg(program.path()).arg(self.root().join(source)).arg("-I").arg(self.include());
        match linked {
            Linked::Shared => compile.arg("-L").arg(self.folder()).arg(format!("-l{}", self.name)).arg("-lm"),
            Linked::Static => compile.arg(self.folder().join(format!("lib{}.a", self.name))).args(SYSTEM),
            Linked::Without => &mut compile,
        };
        run(&mut compile).expect_success();
        Some(program)
    }

    /// Runs a program of the package, which prints this. Does nothing without a compiler.
    ///
    /// # Panics
    /// If it does not compile, fails, or prints something else.
    #[track_caller]
    pub fn expect_printed(&self, source: &str, standard: &str, linked: Linked, printed: &str) {
        if let Some(program) = self.compile(source, &[standard], linked) {
            assert_eq!(run(&mut program.command()).expect_success().stdout, printed, "{source}");
        }
    }

    /// Expects that a document quotes these examples, one for each language, and nothing else.
    ///
    /// # Panics
    /// If it quotes something else in that language, or less than two pieces.
    #[track_caller]
    pub fn expect_quoted(&self, document: &str, examples: &[&str]) {
        let document = read(&self.root().join(document));
        for example in examples {
            let language = example.rsplit('.').next().unwrap_or_default();
            let example = read(&self.root().join(example));
            let fence = format!("```{language}\n");
            let quotes: Vec<&str> =
                document.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect();
            assert!(quotes.len() >= 2);
            for quote in quotes {
                assert!(example.contains(quote), "not in the example:\n{quote}");
            }
        }
    }

    /// Compares the exported names with the functions of the header. Does nothing without `nm`.
    ///
    /// # Panics
    /// If they differ.
    #[track_caller]
    pub fn expect_only_documented_exports(&self) {
        let Some(nm) = tool("NM", "nm") else { return };
        let library = self.folder().join(format!("lib{}.so", self.name));
        let mut list = command(nm);
        let symbols = run(list.args(["--dynamic", "--defined-only", "--format=posix"]).arg(library)).expect_success();
        let exported: BTreeSet<&str> = symbols.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
        let header = read(&self.header());
        // A declaration begins in the first column, and a comment does not.
        let declarations = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']));
        let declared = declarations.filter_map(|line| line[..line.find('(')?].rsplit([' ', '*']).next());
        assert_eq!(exported, declared.collect(), "exported names, and functions in the header");
    }

    /// Installs the package, as `install.sh` does, and runs an example that pkg-config says how to
    /// compile. Does nothing without a compiler or pkg-config.
    ///
    /// # Panics
    /// If that fails, or the example prints something else.
    #[track_caller]
    pub fn expect_installed(&self, example: &str, printed: &str) {
        let [Some(compiler), Some(_)] = [tool("CC", "cc"), tool("PKG_CONFIG", "pkg-config")] else { return };
        let program = CProgram { folder: temporary(), libraries: PathBuf::new() };
        let prefix = program.folder.path().join("usr");
        run(command(self.root().join("install.sh")).arg(&prefix)).expect_success();
        let program = CProgram { libraries: prefix.join("lib"), ..program };
        let module = self.name.replace('_', "-");
        let mut flags = command("pkg-config");
        flags.args(["--cflags", "--libs", &module]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let flags = run(&mut flags).expect_success().stdout;
        let mut compile = command(compiler);
        compile.args(["-Wall", "-Werror", "-pthread", "-o"]).arg(program.path()).arg(self.root().join(example));
        run(compile.args(flags.split_whitespace())).expect_success();
        assert_eq!(run(&mut program.command()).expect_success().stdout, printed, "{example}");
    }

    /// Compares the header with the sources that it is generated from, which are paths from the
    /// folder of the package. With `ROWLOCK_BLESS` in the environment, writes it.
    ///
    /// # Panics
    /// If it differs.
    #[cfg(feature = "header")]
    #[track_caller]
    pub fn expect_generated_header(&self, sources: &[&str]) {
        let config = cbindgen::Config::from_file(self.root().join("cbindgen.toml")).expect("cbindgen.toml");
        let mut builder = cbindgen::Builder::new().with_config(config);
        for source in sources {
            builder = builder.with_src(self.root().join(source));
        }
        let mut generated = Vec::new();
        builder.generate().expect("sources that cbindgen reads").write(&mut generated);
        let generated = without_safety_sections(&String::from_utf8_lossy(&generated));
        let header = self.header();
        if std::env::var_os("ROWLOCK_BLESS").is_some() {
            std::fs::write(&header, &generated).expect("the header");
        }
        let found = std::fs::read_to_string(&header).unwrap_or_default();
        assert!(found == generated, "{} does not match the sources; ROWLOCK_BLESS=1 generates it", header.display());
    }
}

impl CProgram {
    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// The command that runs it.
    pub fn command(&self) -> Command {
        let mut program = command(self.path());
        // The C library overwrites freed memory, so that its use is detected.
        program.env("LD_LIBRARY_PATH", &self.libraries).env("MALLOC_PERTURB_", "165");
        program
    }
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[track_caller]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The header without the sections that say what a caller in Rust guarantees. For callers in C, its
/// beginning and the other text say so. Each section is the last of a comment.
#[cfg(feature = "header")]
fn without_safety_sections(header: &str) -> String {
    let mut kept = Vec::new();
    let mut is_within = false;
    for line in header.lines() {
        if line == "// # Safety" {
            is_within = true;
            kept.pop_if(|line| *line == "//");
        }
        is_within &= line.starts_with("//");
        if !is_within {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}
