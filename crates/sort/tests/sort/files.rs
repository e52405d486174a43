//! Input, output and temporary files, including errors.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::faulty::{FaultyReader, FaultyWriter};
use crate::separate_process;
use rowlock_sort::file::ALIGNMENT;
use rowlock_sort::file::spill::Spill;
use rowlock_sort::{Format, Input, Order, Output, Sort, SortError};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::tempdir;
use testing::NOBODY;

/// Bytes that depend on their position.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at / 3 + at / 1009) as u8).collect()
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Writes a complete output with this content.
fn write(path: &Path, content: &[u8]) -> Result<(), SortError> {
    let output = Output::create(path)?;
    output.write_at(0, content).map_err(|why| SortError::Write { what: output.name().to_owned(), why })?;
    output.finish(content.len() as u64)
}

fn named_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn message<T>(result: Result<T, impl Error>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn several_threads_read_files_of_any_length_at_any_position() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("in");
    for length in [0, 1, 4095, 4096, 4097, 100_000, (1 << 20) + 5] {
        let content = bytes(length);
        fs::write(&path, &content).unwrap();
        let input = Input::open(&path).unwrap();
        assert_eq!((input.length(), input.is_file()), (Some(length as u64), true));
        thread::scope(|scope| {
            for piece in [4096, 65_536] {
                let (input, content) = (&input, &content);
                scope.spawn(move || {
                    let mut buffer: pipeline::Buffer = pipeline::Buffer::new(piece).unwrap();
                    for place in (0..length + piece).step_by(piece) {
                        let read = input.read_at(place as u64, buffer.space()).unwrap();
                        assert_eq!(buffer.space()[..read], content[place.min(length)..length.min(place + piece)]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("in");
    let mut memory = vec![0; 8192];
    let open = || {
        fs::write(&path, bytes(10_000)).unwrap();
        Input::open(&path).unwrap()
    };

    let input = open();
    File::options().write(true).open(&path).unwrap().set_len(9000).unwrap();
    let why = input.read_at(8192, &mut memory).unwrap_err().to_string();
    assert_eq!(why, "it has become shorter while it was being read: it had 10000 bytes");

    let input = open();
    File::options().append(true).open(&path).unwrap().write_all(b"more").unwrap();
    let why = input.read_at(8192, &mut memory).unwrap_err().to_string();
    assert_eq!(why, "it was changed while it was being read");

    let input = open();
    input.read_at(0, &mut memory).unwrap();
    File::open(&path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
    let why = input.read_at(8192, &mut memory).unwrap_err().to_string();
    assert_eq!(why, "it was changed while it was being read");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_by_name() {
    let folder = tempdir().unwrap();
    let path = folder.path().display().to_string();
    assert_eq!(message(Input::open(folder.path())), format!("cannot read {path}: it is a folder"));
    let missing = folder.path().join("missing");
    assert_eq!(
        message(Input::open(&missing)),
        format!("cannot read {path}/missing: No such file or directory (os error 2)")
    );
}

#[test]
fn streams_can_only_be_read_in_order() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    named_pipe(&pipe);
    let content = bytes(100_000);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let input = Input::open(&pipe).unwrap();
            assert_eq!((input.length(), input.is_file()), (None, false));
            let mut memory = vec![0; 65_536];
            assert_eq!(input.read_at(4096, &mut memory).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(input.read_at(0, &mut memory).unwrap(), 65_536);
            let mut all = memory.clone();
            assert_eq!(input.read_at(65_536, &mut memory).unwrap(), 100_000 - 65_536);
            all.extend_from_slice(&memory[..100_000 - 65_536]);
            assert_eq!(input.read_at(100_000, &mut memory).unwrap(), 0);
            all
        }
    });
    File::options().write(true).open(&pipe).unwrap().write_all(&content).unwrap();
    assert_eq!(reader.join().unwrap(), content);
}

#[test]
fn files_that_falsely_report_a_length_of_zero_are_read() {
    let input = Input::open(Path::new("/proc/self/status")).unwrap();
    let mut memory = vec![0; 4096];
    assert!(input.read_at(0, &mut memory).unwrap() > 0);
    assert_eq!(input.length(), None);
}

#[test]
fn short_and_interrupted_reads_are_combined_and_errors_are_returned() {
    let content = bytes(10_000);
    let input =
        Input::stream("faulty", FaultyReader::new(content.clone(), &[1, 700, 3], Some(io::ErrorKind::TimedOut)));
    let mut memory = vec![0; 8192];
    assert_eq!(input.read_at(0, &mut memory).unwrap(), 8192);
    assert_eq!(memory, content[..8192]);
    assert_eq!(input.read_at(8192, &mut memory).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_sort_whose_input_fails_returns_the_error_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("out");
    fs::write(&target, "before").unwrap();
    for count in [0, 5, 5000] {
        let reader = FaultyReader::new(vec![b'\n'; count], &[100], Some(io::ErrorKind::ConnectionReset));
        let order = Order::new(Format::Lines, Vec::new()).unwrap();
        let sort = Sort { temporary: folder.path().to_owned(), ..Sort::new(order) };
        let why = message(sort.run(Input::stream("the line", reader), Output::create(&target).unwrap()));
        assert!(why.starts_with("cannot read the line: "), "{why}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
        assert_eq!(names(folder.path()).len(), 1);
    }
}

#[test]
fn a_sort_whose_output_fails_returns_the_error() {
    for room in [0, 5, 5000] {
        let writer = FaultyWriter { room, failure: io::ErrorKind::BrokenPipe, calls: 0 };
        let sort = Sort::new(Order::new(Format::Lines, Vec::new()).unwrap());
        let input = Input::stream("lines", io::Cursor::new(vec![b'\n'; 10_000]));
        let outcome = sort.run(input, Output::stream("the wall", writer));
        assert!(matches!(&outcome, Err(SortError::Write { why, .. }) if why.kind() == io::ErrorKind::BrokenPipe));
    }
}

#[test]
fn a_file_appears_when_it_is_finished_with_exactly_the_bytes_written() {
    for length in [0, 1, 4095, 4096, 4097, 100_000, (1 << 20) + 5] {
        let folder = tempdir().unwrap();
        let target = folder.path().join("out");
        let content = bytes(length);
        let output = Output::create(&target).unwrap();
        assert!(output.is_file());
        output.expect(length as u64).unwrap();
        // Starts with the last part, since files can be written in any order.
        let parts: Vec<_> = content.chunks(16_384).enumerate().collect();
        for (number, part) in parts.into_iter().rev() {
            output.write_at(number as u64 * 16_384, part).unwrap();
        }
        let mut read = vec![0; length.next_multiple_of(ALIGNMENT)];
        assert!(output.read_at(0, &mut read).unwrap() >= length);
        assert_eq!(read[..length], content);
        assert!(!target.exists());
        output.finish(length as u64).unwrap();
        assert_eq!(fs::read(&target).unwrap(), content);
        assert_eq!(names(folder.path()).len(), 1);
    }
}

#[test]
fn unfinished_output_does_not_change_the_target() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("out");
    fs::write(&target, "before").unwrap();
    let begin = || {
        let output = Output::create(&target).unwrap();
        output.write_at(0, &bytes(10_000)).unwrap();
        output
    };
    drop(begin());
    let output = begin();
    thread::spawn(move || {
        let _output = output;
        std::panic::resume_unwind(Box::new("a stage panics"));
    })
    .join()
    .unwrap_err();
    assert_eq!(fs::read_to_string(&target).unwrap(), "before");
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn owner_and_permissions_of_a_replaced_file_are_kept() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("out");
    write(&target, b"new").unwrap();
    File::create(folder.path().join("any")).unwrap();
    assert_eq!(target.metadata().unwrap().mode(), folder.path().join("any").metadata().unwrap().mode());
    for mode in [0o640, 0o600, 0o666, 0o755] {
        fs::set_permissions(&target, PermissionsExt::from_mode(mode)).unwrap();
        write(&target, b"again").unwrap();
        assert_eq!(target.metadata().unwrap().mode() & 0o7777, mode);
    }
    // Only root may change a file's owner.
    if chown(&target, Some(NOBODY), Some(NOBODY)).is_ok() {
        fs::set_permissions(&target, PermissionsExt::from_mode(0o4750)).unwrap();
        write(&target, b"and again").unwrap();
        let about = target.metadata().unwrap();
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (NOBODY, NOBODY, 0o4750));
    }
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_replaced() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("below")).unwrap();
    fs::write(at("below/real"), "before").unwrap();
    symlink("below/link", at("link")).unwrap();
    symlink("real", at("below/link")).unwrap();
    write(&at("link"), b"after").unwrap();
    assert!(at("link").is_symlink() && at("below/link").is_symlink() && !at("below/real").is_symlink());
    assert_eq!(fs::read_to_string(at("below/real")).unwrap(), "after");

    symlink("below/new", at("to nothing")).unwrap();
    write(&at("to nothing"), b"new").unwrap();
    assert_eq!(fs::read_to_string(at("below/new")).unwrap(), "new");

    symlink("round", at("round")).unwrap();
    assert!(message(write(&at("round"), b"")).ends_with("there are too many levels of symbolic links"));
}

#[test]
fn the_output_may_replace_the_input() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let sort = Sort::new(Order::new(Format::Lines, Vec::new()).unwrap());
    fs::write(at("file"), "b\nc\na\n").unwrap();
    fs::hard_link(at("file"), at("hard")).unwrap();
    symlink("file", at("soft")).unwrap();
    for (from, to) in [("file", "file"), ("soft", "file"), ("file", "soft"), ("hard", "file")] {
        fs::write(at("file"), "b\nc\na\n").unwrap();
        sort.run(Input::open(&at(from)).unwrap(), Output::create(&at(to)).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "a\nb\nc\n", "{from} to {to}");
    }
    assert_eq!(fs::read_to_string(at("hard")).unwrap(), "b\nc\na\n");
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn an_impossible_target_is_an_error_with_the_reason() {
    let folder = tempdir().unwrap();
    let path = folder.path().display().to_string();
    assert_eq!(message(Output::create(folder.path())), format!("cannot write {path}: it is a folder"));
    assert_eq!(
        message(Output::create(&folder.path().join("missing/out"))),
        format!("cannot write {path}/missing/out: folder {path}/missing: there is no such folder")
    );
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(Output::create(&folder.path().join("file/out")).is_err());
    assert!(Output::create(Path::new("")).is_err());
    assert!(Output::create(&folder.path().join("..")).is_err());
    assert!(Output::create(&folder.path().join("x".repeat(300))).is_err());
}

#[test]
fn missing_permission_is_an_error_before_the_sort() {
    testing::isolated_by(separate_process::as_nobody, || {
        let folder = separate_process::folder();
        let target = folder.join("out");
        fs::write(&target, "before").unwrap();
        fs::set_permissions(&target, PermissionsExt::from_mode(0o444)).unwrap();
        assert!(message(Output::create(&target)).ends_with("out: Permission denied (os error 13)"));
        fs::set_permissions(&target, PermissionsExt::from_mode(0o644)).unwrap();
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
        let why = message(Output::create(&target));
        let refusal = format!("folder {}: Permission denied (os error 13)", folder.display());
        // The old file can be written in place.
        assert!(why.contains(&refusal) && why.contains("name /dev/stdout"), "{why}");
        let why = message(Spill::create(&folder));
        assert!(why.starts_with("cannot make a temporary file in") && why.contains("Permission denied"), "{why}");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
        assert_eq!(names(&folder).len(), 1);
    });
}

#[test]
fn devices_and_pipes_are_written_directly() {
    let null = Path::new("/dev/null");
    let output = Output::create(null).unwrap();
    assert!(!output.is_file());
    output.write_at(0, b"gone").unwrap();
    output.finish(4).unwrap();
    assert!(!null.metadata().unwrap().is_file());

    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    named_pipe(&pipe);
    let writer = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let output = Output::create(&pipe).unwrap();
            output.write_at(0, b"first ").unwrap();
            assert_eq!(output.write_at(0, b"again").unwrap_err().kind(), io::ErrorKind::InvalidInput);
            output.write_at(6, b"second").unwrap();
            output.finish(12).unwrap();
        }
    });
    let mut read = String::new();
    File::open(&pipe).unwrap().read_to_string(&mut read).unwrap();
    writer.join().unwrap();
    assert_eq!(read, "first second");
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn temporary_data_is_available_until_it_is_freed() {
    let folder = tempdir().unwrap();
    let spill = Spill::create(folder.path()).unwrap();
    spill.expect(1 << 20).unwrap();
    // The first segments have 64 MiB; the gaps between writes take no space.
    let edge = 64 << 20;
    let content = bytes(16_384);
    for place in [0, 40_960, edge - 8192, 2 * edge, 40 * edge - 4096] {
        spill.write_at(place, &content).unwrap();
        let mut read = vec![0; 16_384];
        spill.read_at(place, &mut read).unwrap();
        assert_eq!(read, content, "at {place}");
    }
    assert_eq!(names(folder.path()), BTreeSet::new());

    let mut read = vec![0; 4096];
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(spill.read_at(10 * edge, &mut read)), io::ErrorKind::UnexpectedEof);
    assert_eq!(kind(spill.write_at(0, &content[..100])), io::ErrorKind::InvalidInput);
    assert_eq!(kind(spill.write_at(100, &content)), io::ErrorKind::InvalidInput);

    spill.free(0, edge - 4096);
    spill.read_at(0, &mut read).unwrap();
    spill.free(edge - 4096, 8192);
    assert_eq!(kind(spill.read_at(0, &mut read)), io::ErrorKind::UnexpectedEof);
    assert_eq!(kind(spill.write_at(0, &content)), io::ErrorKind::InvalidInput);
    spill.read_at(edge, &mut read).unwrap();
    assert_eq!(read, content[8192..12_288]);
}

#[test]
fn a_missing_folder_for_temporary_files_is_reported() {
    let folder = tempdir().unwrap();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let spill = Spill::create(&gone).unwrap();
    fs::remove_dir(&gone).unwrap();
    // A file without a name does not depend on the folder.
    spill.write_at(0, &bytes(4096)).unwrap();
    assert_eq!(
        message(Spill::create(&gone)),
        format!(
            "cannot make a temporary file in {}: there is no such folder; --tmp names another folder",
            gone.display()
        )
    );
}

#[test]
fn the_next_start_removes_leftovers_of_a_killed_process() {
    let start = |test: Command| {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("out"), "before").unwrap();
        separate_process::kill_when_ready(test, folder.path());
        // The leftover of a process killed after it has linked its file and before it has renamed
        // it.
        fs::write(folder.path().join(format!("{}1-0-0", sys::files::PREFIX)), "whole").unwrap();
        Output::create(&folder.path().join("another")).unwrap();
        assert_eq!(names(folder.path()), BTreeSet::from(["out".to_owned()]));
        assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), "before");

        fs::write(folder.path().join(format!("{}1-0-0", sys::files::PREFIX)), "whole").unwrap();
        Spill::create(folder.path()).unwrap();
        assert_eq!(names(folder.path()).len(), 1);
    };
    testing::isolated_by(start, || {
        let folder = separate_process::folder();
        let output = Output::create(&folder.join("out")).unwrap();
        let spill = Spill::create(&folder).unwrap();
        for place in [0, 4096] {
            output.write_at(place, &bytes(4096)).unwrap();
            spill.write_at(place, &bytes(4096)).unwrap();
        }
        separate_process::wait_to_be_killed();
    });
}

#[test]
fn a_full_disk_is_reported_and_does_not_change_the_target() {
    testing::isolated_by(separate_process::on_a_small_disk("size=1m"), || {
        let folder = separate_process::folder();
        let target = folder.join("out");
        fs::write(&target, "before").unwrap();
        let piece = bytes(256 << 10);
        let fill = |write: &dyn Fn(u64) -> io::Result<()>| {
            let whys: Vec<String> =
                (0..8).filter_map(|number| write(number * (256 << 10)).err()).map(|why| why.to_string()).collect();
            whys.into_iter().next().unwrap()
        };

        let output = Output::create(&target).unwrap();
        let why = message(output.expect(2 << 20));
        assert!(
            why.starts_with(&format!("cannot write {}: its file system has room for 10", target.display())),
            "{why}"
        );
        assert!(why.ends_with(" KiB, and 2.0 MiB are needed"), "{why}");
        let why = fill(&|place| output.write_at(place, &piece));
        assert!(why.starts_with("its file system is full: No space left on device (os error 28); "), "{why}");
        assert!(why.ends_with(" KiB of 2.0 MiB were written"), "{why}");
        drop(output);

        let spill = Spill::create(&folder).unwrap();
        let why = message(spill.expect(2 << 20));
        assert!(why.ends_with(" KiB, and 2.0 MiB are needed; --tmp names another folder"), "{why}");
        let why = fill(&|place| spill.write_at(place, &piece));
        assert!(why.starts_with("its file system is full: "), "{why}");
        drop(spill);

        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
        assert_eq!(names(&folder).len(), 1);

        // A whole sort, first with temporary files on the full disk, then with the target there.
        let elsewhere = tempdir().unwrap();
        let lines = || Input::stream("lines", io::Cursor::new(b"a line of text\n".repeat(300_000)));
        let order = Order::new(Format::Lines, Vec::new()).unwrap();
        let sort = Sort { memory: 2 << 20, temporary: folder.clone(), ..Sort::new(order) };
        let why = message(sort.run(lines(), Output::create(&elsewhere.path().join("out")).unwrap()));
        assert!(why.contains("its file system is full") && why.contains(&folder.display().to_string()), "{why}");
        assert_eq!(names(elsewhere.path()).len(), 0);
        let sort = Sort { temporary: elsewhere.path().to_owned(), ..sort };
        fs::write(elsewhere.path().join("in"), b"a line of text\n".repeat(300_000)).unwrap();
        let input = Input::open(&elsewhere.path().join("in")).unwrap();
        let why = message(sort.run(input, Output::create(&target).unwrap()));
        assert!(why.starts_with(&format!("cannot write {}: its file system has room for", target.display())), "{why}");
        let why = message(sort.run(lines(), Output::create(&target).unwrap()));
        assert!(why.starts_with(&format!("cannot write {}: its file system is full", target.display())), "{why}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
        assert_eq!(names(&folder).len(), 1);
    });
}

#[test]
fn freed_space_is_reused() {
    testing::isolated_by(separate_process::on_a_small_disk("size=80m"), || {
        let folder = separate_process::folder();
        let spill = Spill::create(&folder).unwrap();
        let output = Output::create(&folder.join("out")).unwrap();
        let piece = bytes(4 << 20);
        for place in (0..64 << 20).step_by(4 << 20) {
            spill.write_at(place, &piece).unwrap();
        }
        // There is only enough space if freed space is reused, and the writer waits for it.
        spill.free(0, 64 << 20);
        for place in (0..64 << 20).step_by(4 << 20) {
            output.write_at(place, &piece).unwrap();
        }
        output.finish(64 << 20).unwrap();
    });
}

#[test]
fn a_read_only_disk_is_an_immediate_error() {
    testing::isolated_by(separate_process::on_a_small_disk("ro"), || {
        let folder = separate_process::folder();
        let why = message(Output::create(&folder.join("out")));
        assert!(why.ends_with("Read-only file system (os error 30)"), "{why}");
        assert!(Spill::create(&folder).is_err());
    });
}

#[test]
fn a_mount_point_as_target_is_an_immediate_error() {
    testing::isolated_by(separate_process::on_a_small_disk("size=1m"), || {
        let folder = separate_process::folder();
        let [target, other] = ["out", "other"].map(|name| folder.join(name));
        fs::write(&target, "before").unwrap();
        fs::write(&other, "other").unwrap();
        testing::run(testing::command("mount").arg("--bind").args([&other, &target])).expect_success();
        let why = message(Output::create(&target));
        assert!(why.contains("it is a mount point") && why.contains("/dev/stdout"), "{why}");
    });
}
