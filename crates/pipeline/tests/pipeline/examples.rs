//! Runs the examples as a user would, on files of edge-case sizes and with targets that cannot be
//! written.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use testing::child::TEST_LIMIT;
use testing::{Child, run};
use walkdir::WalkDir;

const HUP: i32 = 1;
const TERM: i32 = 15;

/// The compressor's block size.
const BLOCK: usize = 128 * 1024;

/// The folder of the examples. Cargo builds them for `cargo test` but not for `cargo test --test
/// examples`. If they are missing or old, they are built here. Not always, because Cargo would
/// rebuild all dependencies for a single package, with other features.
static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let examples = profile.join("examples");
    if NAMES.iter().all(|name| is_new(&examples.join(name)) == Some(true)) {
        return examples;
    }
    let mut command = testing::command(env!("CARGO"));
    command.args(["build", "--quiet", "--locked", "--examples", "--package", env!("CARGO_PKG_NAME")]);
    command.args((profile.file_name().unwrap() == "release").then_some("--release"));
    command.arg("--target-dir").arg(profile.parent().unwrap());
    command.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    Child::start(&mut command).with_limit(TEST_LIMIT).wait().expect_success();
    examples
});

const NAMES: [&str; 3] = ["checksum", "compress", "word-count"];

/// Whether an example is newer than all its sources, which Cargo lists beside it.
fn is_new(example: &Path) -> Option<bool> {
    let modified = |path: &Path| path.metadata().ok()?.modified().ok();
    let built = modified(example)?;
    let note = fs::read_to_string(example.with_extension("d")).ok()?;
    let (_, sources) = note.split_once(": ")?;
    Some(sources.split_whitespace().all(|source| modified(Path::new(source)).is_some_and(|changed| changed < built)))
}

fn example(name: &str) -> Command {
    testing::command(EXAMPLES.join(name))
}

/// The standard output of a command that succeeds without messages.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let output = run(command).expect_success();
    let is_quiet = output.stderr.is_empty();
    output.expect(is_quiet, "nothing on standard error").stdout
}

/// Pseudorandom words of a few letters, with some bytes that are not ASCII.
fn text(length: usize, mut seed: u64) -> Vec<u8> {
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"aaaabcdeeeefghiijklmnoopqrsttuvwxyz \n\t  ,.\xc3\xa4"[(seed >> 33) as usize % 44]
    };
    (0..length).map(|_| letter()).collect()
}

/// Incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    (0_u64..).flat_map(|number| -> [u8; 32] { Sha256::digest(number.to_le_bytes()).into() }).take(length).collect()
}

fn folder_with(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The content of a gzip file with exactly one stream.
fn unpacked(compressed: &[u8]) -> Vec<u8> {
    let mut decoder = GzDecoder::new(compressed);
    let mut content = Vec::new();
    decoder.read_to_end(&mut content).unwrap();
    assert!(decoder.into_inner().is_empty(), "there is more than one stream");
    content
}

#[track_caller]
fn check_round_trip(content: &[u8], arguments: &[&str], structure: &str) -> usize {
    let folder = folder_with(&[("input", content)]);
    let mut command = example("compress");
    command.args(arguments).arg("--stdout").arg(folder.path().join("input")).env("ROWLOCK_PIPELINE", structure);
    let output = run(&mut command).expect_success();
    assert!(unpacked(&output.bytes) == content, "{} bytes, {arguments:?}, {structure}: other bytes", content.len());
    output.bytes.len()
}

#[test]
fn compression_is_lossless_at_every_size() {
    let all = text(40 * BLOCK + 12_345, 1);
    for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, all.len()] {
        check_round_trip(&all[..size], &[], "");
    }
}

#[test]
fn compression_is_lossless_at_every_level_even_for_noise() {
    for level in 0..=9 {
        let level = format!("--level={level}");
        check_round_trip(&text(2 * BLOCK + 1, 2), &[&level], "");
        check_round_trip(&noise(2 * BLOCK + 1), &[&level], "");
    }
}

#[test]
fn compression_is_lossless_in_every_structure() {
    let content = text(3 * BLOCK + 1, 3);
    // With blocks shorter than deflate's window, the dictionary spans several blocks.
    for structure in
        ["threads=each", "buffers=2 block=4KiB", "workers=1", "fork=compress*5", "fuse=read+compress", "block=1MiB"]
    {
        check_round_trip(&content, &[], structure);
    }
}

#[test]
fn the_output_does_not_depend_on_the_structure() {
    let folder = folder_with(&[("input", &text(24 * BLOCK, 11))]);
    let output = |structure: &str| {
        let mut command = example("compress");
        command.args(["--stdout", "input"]).current_dir(folder.path()).env("ROWLOCK_PIPELINE", structure);
        run(&mut command).expect_success().bytes
    };
    let alone = output("fork=compress*1");
    for structure in ["fork=compress*2", "fork=compress*3", "threads=each", "buffers=2"] {
        assert!(output(structure) == alone, "{structure}: other bytes");
    }
}

#[test]
fn a_block_refers_to_the_one_before() {
    // Repeated noise compresses well only if a block can refer to the one before.
    let once = noise(16 * 1024);
    let content = once.repeat(16);
    let size = check_round_trip(&content, &[], "block=16KiB");
    assert!(size < 2 * once.len(), "{} bytes became {size}", content.len());
}

#[test]
fn doubled_io_does_not_change_the_output() {
    let content = text(3 * BLOCK + 1, 8);
    let folder = folder_with(&[("text", &content)]);
    let path = |name: &str| folder.path().join(name);
    let mut command = example("compress");
    printed(command.arg("-9").arg(path("text")).env("ROWLOCK_PIPELINE", "double=io block=16KiB"));
    assert!(unpacked(&fs::read(path("text.gz")).unwrap()) == content);
    // A file that the program did not create is not written twice, because appended data would
    // stay.
    let appended = File::options().append(true).create(true).open(path("appended")).unwrap();
    let mut command = example("compress");
    command.arg("--stdout").arg(path("text")).env("ROWLOCK_PIPELINE", "double=io");
    Child::start_into(&mut command, appended).wait().expect_success();
    assert!(unpacked(&fs::read(path("appended")).unwrap()) == content);
}

#[test]
fn standard_input_is_compressed_to_standard_output() {
    let content = text(BLOCK + 7, 4);
    let mut child = Child::start_piped(&mut example("compress"));
    let mut input = child.process().stdin.take().unwrap();
    let sent = content.clone();
    // In small pieces that do not fill a block.
    let writer = std::thread::spawn(move || sent.chunks(1000).try_for_each(|chunk| input.write_all(chunk)));
    let output = child.wait().expect_success();
    writer.join().unwrap().unwrap();
    assert!(unpacked(&output.bytes) == content);
}

#[test]
fn a_long_input_is_written_before_its_end_except_for_the_buffers() {
    const LENGTH: usize = 64 * BLOCK;
    const BUFFERS: usize = 4;
    let mut command = example("compress");
    command.arg("--level=0").env("ROWLOCK_PIPELINE", format!("buffers={BUFFERS}"));
    let mut child = Child::start_piped(&mut command);
    let mut input = child.process().stdin.take().unwrap();
    let mut output = child.process().stdout.take().unwrap();
    let content = text(LENGTH, 9);
    let sent = content.clone();
    // The input stays open, so the program cannot know that this is all.
    let writer = std::thread::spawn(move || input.write_all(&sent).map(|()| input));
    // Level 0 does not compress, so bytes missing from the output are in buffers. If the program
    // held more than its buffers, it would never write this much, and the test would hang.
    let mut compressed = vec![0; LENGTH - BUFFERS * BLOCK];
    output.read_exact(&mut compressed).unwrap();
    drop(writer.join().unwrap().unwrap());
    output.read_to_end(&mut compressed).unwrap();
    child.wait().expect_success();
    assert!(unpacked(&compressed) == content);
}

#[test]
fn files_are_kept_and_compressed_beside_themselves() {
    let (one, other) = (text(10, 5), text(BLOCK * 2, 6));
    let folder = folder_with(&[("one", &one), ("other.txt", &other)]);
    let path = |name: &str| folder.path().join(name);
    fs::set_permissions(path("one"), PermissionsExt::from_mode(0o640)).unwrap();
    printed(example("compress").args([path("one"), path("other.txt")]));
    assert_eq!(names(folder.path()), ["one", "one.gz", "other.txt", "other.txt.gz"]);
    assert!(unpacked(&fs::read(path("one.gz")).unwrap()) == one);
    assert!(unpacked(&fs::read(path("other.txt.gz")).unwrap()) == other);
    let (before, after) = (fs::metadata(path("one")).unwrap(), fs::metadata(path("one.gz")).unwrap());
    assert_eq!(after.permissions().mode() & 0o777, 0o640);
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
}

#[test]
fn a_missing_file_is_named_and_the_others_are_compressed() {
    let folder = folder_with(&[("there", b"text")]);
    let path = |name: &str| folder.path().join(name);
    run(example("compress").args([path("missing"), path("there")]))
        .expect_exit(1)
        .expect_stderr("missing: No such file");
    assert_eq!(names(folder.path()), ["there", "there.gz"]);
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let folder = folder_with(&[("text", b"new"), ("text.gz", b"old")]);
    let path = |name: &str| folder.path().join(name);
    run(example("compress").arg(path("text"))).expect_exit(1).expect_stderr("--force");
    assert_eq!(fs::read(path("text.gz")).unwrap(), b"old");
    printed(example("compress").arg("--force").arg(path("text")));
    assert_eq!(unpacked(&fs::read(path("text.gz")).unwrap()), b"new");
    assert_eq!(names(folder.path()), ["text", "text.gz"]);
}

#[test]
fn the_output_never_replaces_the_input() {
    let folder = folder_with(&[("text", b"precious")]);
    std::os::unix::fs::symlink("text", folder.path().join("link")).unwrap();
    for target in ["text", "link"] {
        let mut command = example("compress");
        command.arg("--force").arg("--output").arg(folder.path().join(target)).arg(folder.path().join("text"));
        run(&mut command).expect_exit(1).expect_stderr("it is the input");
    }
    assert_eq!(fs::read(folder.path().join("text")).unwrap(), b"precious");
}

#[test]
fn a_full_target_is_an_error() {
    let folder = folder_with(&[("noise", &noise(4 * BLOCK))]);
    let input = folder.path().join("noise");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let to_output = Child::start_into(example("compress").arg("--stdout").arg(&input), full()).wait();
    let to_file = run(example("compress").arg("--output=/dev/full").arg(&input));
    for output in [to_output, to_file] {
        output.expect_exit(1).expect_stderr("cannot write: No space left on device");
    }
    assert!(Path::new("/dev/full").exists(), "a device must not be replaced");
}

#[test]
fn an_incomplete_target_is_removed() {
    let folder = folder_with(&[("noise", &noise(8 * BLOCK))]);
    // Files are limited to 64 KiB, and the signal is ignored, so the write fails.
    let script = r#"trap "" XFSZ; ulimit -f 128; exec "$@""#;
    let program = example("compress").get_program().to_owned();
    let mut command = testing::command("sh");
    command.args(["-c", script, "sh"]).arg(program).arg(folder.path().join("noise"));
    run(&mut command).expect_exit(1).expect_stderr("cannot write: File too large");
    assert_eq!(names(folder.path()), ["noise"]);
}

#[test]
fn an_unfinished_target_is_removed_on_termination() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = example("compress");
    command.arg("--output").arg(folder.path().join("output.gz")).stdin(Stdio::piped());
    let mut child = Child::start(&mut command);
    // It waits for its input while the pipe is open.
    let input = child.process().stdin.take().unwrap();
    while names(folder.path()).is_empty() {
        assert!(child.process().try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    child.send(TERM);
    child.wait().expect_signal(TERM);
    drop(input);
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn an_ignored_hangup_does_not_end_the_program() {
    let program = example("compress").get_program().to_owned();
    let mut command = testing::command("sh");
    command.args(["-c", r#"trap "" HUP; exec "$@""#, "sh"]).arg(program);
    let mut child = Child::start_piped(&mut command);
    child.process().stdin.as_mut().unwrap().write_all(&noise(BLOCK + 1)).unwrap();
    // The first block has arrived, so the signal handlers are installed.
    let mut compressed = vec![0; 1];
    child.process().stdout.as_mut().unwrap().read_exact(&mut compressed).unwrap();
    child.send(HUP);
    compressed.extend(child.wait().expect_success().bytes);
    assert_eq!(unpacked(&compressed), noise(BLOCK + 1));
}

/// Counts the words of a text byte by byte.
fn count_naively(text: &[u8]) -> usize {
    text.split(|byte| b" \t\n\x0b\x0c\r".contains(byte)).filter(|word| !word.is_empty()).count()
}

fn some_files() -> Vec<(String, Vec<u8>)> {
    let sizes = [0, 1, 2, 254, 255, 256, 257, 4095, 4096, 4097, 5 * 4096, 300_000, 777];
    let file = |(number, size): (usize, usize)| {
        (format!("{}/{number}", ["a", "a/b", "c"][number % 3]), text(size, number as u64 + 10))
    };
    let mut files: Vec<_> = sizes.into_iter().enumerate().map(file).collect();
    // A word longer than a block, and a file of spaces only.
    files.push(("long".to_owned(), vec![b'x'; 20_000]));
    files.push(("space".to_owned(), vec![b' '; 20_000]));
    files
}

fn folder_of(files: &[(String, Vec<u8>)]) -> TempDir {
    folder_with(&files.iter().map(|(name, content)| (name.as_str(), &content[..])).collect::<Vec<_>>())
}

#[test]
fn words_are_counted_correctly_in_every_structure() {
    let files = some_files();
    let folder = folder_of(&files);
    let expected: usize = files.iter().map(|(_, content)| count_naively(content)).sum();
    for structure in ["", "block=4KiB buffers=3", "threads=each", "fork=count*3:unordered block=4KiB", "workers=1"] {
        let printed = printed(example("word-count").arg(folder.path()).env("ROWLOCK_PIPELINE", structure));
        assert_eq!(printed, format!("{expected}\n"), "{structure}");
    }
}

#[test]
fn words_are_counted_for_each_file() {
    let files = some_files();
    let folder = folder_of(&files);
    let mut command = example("word-count");
    command.arg("--each").arg(folder.path()).env("ROWLOCK_PIPELINE", "block=4KiB");
    let printed = printed(&mut command);
    let mut lines: Vec<&str> = printed.lines().collect();
    assert!(lines.pop().unwrap().ends_with(" total"));
    lines.sort_unstable();
    let line = |(name, content): &(String, Vec<u8>)| {
        format!("{} {}", count_naively(content), folder.path().join(name).display())
    };
    let mut expected: Vec<String> = files.iter().map(line).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn a_missing_file_is_named_and_the_rest_is_counted() {
    let folder = folder_with(&[("there", b"three small words")]);
    let paths = [folder.path().join("missing"), folder.path().join("there")];
    let output = run(example("word-count").args(paths)).expect_exit(1).expect_stderr("missing");
    assert_eq!(output.stdout, "3\n");
}

#[test]
fn a_named_link_to_a_folder_is_followed() {
    let folder = folder_with(&[("real/text", b"three small words")]);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("real", &link).unwrap();
    assert_eq!(printed(example("word-count").arg(&link)), "3\n");
    assert_eq!(printed(example("checksum").arg(&link)).lines().count(), 1);
}

/// The expected lines for these files of a folder, in this order.
fn lines(folder: &Path, files: &[(String, Vec<u8>)]) -> String {
    let hex = |content: &[u8]| Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    files.iter().map(|(name, content)| format!("{}  {}\n", hex(content), folder.join(name).display())).collect()
}

#[test]
fn checksums_are_correct_and_in_the_order_of_the_files() {
    let mut files = some_files();
    // Large ones first, so that small ones overtake them.
    files.sort_by_key(|(_, content)| std::cmp::Reverse(content.len()));
    let folder = folder_of(&files);
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
    for (lanes, structure) in [("1", ""), ("2", ""), ("5", "block=4KiB"), ("2", "threads=each"), ("3", "workers=1")] {
        let mut command = example("checksum");
        command.args(["--lanes", lanes]).args(&paths).env("ROWLOCK_PIPELINE", structure);
        assert_eq!(printed(&mut command), lines(folder.path(), &files), "{lanes} lanes, {structure}");
    }
}

#[test]
fn a_folder_is_walked_in_the_order_of_its_names() {
    let mut files = some_files();
    let folder = folder_of(&files);
    files.sort_by_key(|(name, _)| name.split('/').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(printed(example("checksum").arg(folder.path())), lines(folder.path(), &files));
}

#[test]
fn a_missing_file_is_named_and_the_others_get_checksums() {
    let files = some_files();
    let folder = folder_of(&files);
    let mut paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
    paths.insert(3, folder.path().join("missing"));
    let output = run(example("checksum").args(&paths)).expect_exit(1).expect_stderr("missing");
    assert_eq!(output.stdout, lines(folder.path(), &files));
}

#[test]
fn a_name_with_a_line_break_is_escaped() {
    let folder = folder_with(&[("two\nlines\\", b"")]);
    let printed = printed(example("checksum").arg(folder.path()));
    assert!(printed.starts_with('\\') && printed.ends_with("/two\\nlines\\\\\n"), "{printed}");
    assert_eq!(printed.lines().count(), 1);
}

#[test]
fn a_full_output_is_an_error() {
    let folder = folder_with(&[("one", b"some words")]);
    for name in ["checksum", "word-count"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        Child::start_into(example(name).arg(folder.path()), full)
            .wait()
            .expect_exit(1)
            .expect_stderr("No space left on device");
    }
}

#[test]
fn empty_variables_have_no_effect() {
    let folder = folder_with(&[("text", b"three small words")]);
    let mut command = example("word-count");
    command.envs(["", "_REPORT", "_TRACE"].map(|of| (format!("ROWLOCK_PIPELINE{of}"), "")));
    assert_eq!(printed(command.arg(folder.path())), "3\n");
}

#[test]
fn programs_continue_if_standard_error_cannot_be_written() {
    let folder = folder_with(&[("text", b"three small words")]);
    for name in ["word-count", "checksum", "compress"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = example(name);
        command.args([folder.path().join("missing"), folder.path().join("text")]).stdout(Stdio::null()).stderr(full);
        // The test helper would read standard error.
        assert_eq!(command.status().unwrap().code(), Some(1), "{name}");
    }
    assert_eq!(names(folder.path()), ["text", "text.gz"]);
}

#[test]
fn all_examples_print_a_verdict() {
    let folder = folder_with(&[("one", &text(BLOCK, 9))]);
    for (name, arguments) in [("compress", &["--stdout", "one"][..]), ("word-count", &["."]), ("checksum", &["."])] {
        let output = run(example(name).current_dir(folder.path()).arg("--verdict").args(arguments));
        let prints = !output.bytes.is_empty();
        output.expect_success().expect_stderr("limited by").expect(prints, "something on standard output");
    }
}

/// The output of a system tool.
fn tool(command: &str, folder: &Path) -> String {
    run(testing::command("sh").args(["-c", command]).current_dir(folder).env("LC_ALL", "C")).expect_success().stdout
}

#[test]
#[ignore = "needs pigz and gunzip"]
fn gunzip_accepts_the_output_and_pigz_compresses_hardly_better() {
    // Text written by people: our own source.
    let source = WalkDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).sort_by_file_name();
    let files = source.into_iter().map(|entry| entry.unwrap().into_path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let content: Vec<u8> = files.flat_map(|path| fs::read(path).unwrap()).collect();
    assert!(content.len() > 4 * BLOCK);
    let folder = folder_with(&[("input", &content)]);
    for (level, at_most) in [(1, 1.05), (2, 1.05), (6, 1.05), (9, 1.02)] {
        let mut command = example("compress");
        command.args(["--force", "--level", &level.to_string()]).arg(folder.path().join("input"));
        printed(&mut command);
        tool("gunzip --test input.gz && gunzip --stdout input.gz | cmp - input && pigz --test input.gz", folder.path());
        let ours = fs::metadata(folder.path().join("input.gz")).unwrap().len();
        let pigz: u64 = tool(&format!("pigz -{level} --stdout input | wc -c"), folder.path()).trim().parse().unwrap();
        assert!((ours as f64) < at_most * pigz as f64, "level {level}: {ours} bytes against {pigz}");
    }
}

#[test]
#[ignore = "needs find and wc"]
fn word_count_agrees_with_wc() {
    // Only printable text, because versions of wc differ on other bytes.
    let mut files = some_files();
    files.iter_mut().for_each(|(_, content)| content.retain(u8::is_ascii));
    let folder = folder_of(&files);
    let theirs = tool("find . -type f -print0 | wc -w --files0-from=- | tail -n 1", folder.path());
    let ours = printed(example("word-count").arg(folder.path()));
    assert_eq!(ours.trim(), theirs.split_whitespace().next().unwrap());
}

#[test]
#[ignore = "needs sha256sum"]
fn sha256sum_verifies_the_checksums() {
    let mut files = some_files();
    files.push(("odd \\ na\nme".to_owned(), b"odd".to_vec()));
    let folder = folder_of(&files);
    let printed = printed(example("checksum").arg(".").current_dir(folder.path()));
    let count = printed.lines().count();
    let sums = tempfile::NamedTempFile::new().unwrap();
    fs::write(sums.path(), printed).unwrap();
    let verified = tool(&format!("sha256sum --check --strict {}", sums.path().display()), folder.path());
    assert_eq!(verified.lines().filter(|line| line.ends_with(": OK")).count(), count);
}
