//! Programs that do to rowlock what no program should: rowlock reports it, keeps the exit code, and
//! leaves nothing behind.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

use testing::{Child, Output};

/// Both commands that run a program in the foreground and report on it.
fn report(script: &str) -> Output {
    testing::run(&mut crate::rowlock(&["exec", "--report", "--", "sh", "-c", script]))
}

#[test]
fn a_program_that_harms_its_statistics_keeps_its_exit_code() {
    for harm in ["(: > $ROWLOCK_BOOK)", "rm -f $ROWLOCK_BOOK", "truncate -s 1 $ROWLOCK_BOOK", "chmod 0 $ROWLOCK_BOOK"] {
        let output = report(&format!("{harm}; exit 3")).expect_exit(3);
        assert!(output.stderr.contains("had the library"), "{harm}: {output}");
    }
    for garbage in ["/dev/zero", "/dev/urandom"] {
        let harm = format!("head -c 9000000 {garbage} 1<> $ROWLOCK_BOOK; exit 3");
        let output = report(&harm).expect_exit(3);
        output.expect_stderr("its statistics were lost: the program has overwritten them");
    }
}

#[test]
fn control_characters_of_a_program_do_not_reach_the_terminal() {
    let place = tempfile::tempdir().unwrap();
    let name = place.path().join("red\x1b[31m");
    fs::copy("/bin/sh", &name).unwrap();
    fs::set_permissions(&name, fs::Permissions::from_mode(0o755)).unwrap();
    let name = name.to_str().unwrap();
    let threads = "printf 'a\\033[2J\\233b\\377\\302\\233c\\n' >&2; exit 3";
    for arguments in [
        &["exec", "--compare", "--runs", "1", "--", name, "-c", threads][..],
        &["exec", "--report", "--", name, "-c", "exit 3"],
        &["exec", "--report", "--", &format!("{name}/missing")],
        &["exec", "--compare", "--runs", "1", "--beside", &format!("{name} -c 'exit 3'"), "--", "true"],
        &["pipeline", "explore", "--", name, "-c", threads],
        &["pipeline", "explore", "--prepare", threads, "--", "true"],
        &["pipeline", "verdict", "--", name, "-c", "printf '{\"\\033[2J' >> $ROWLOCK_PIPELINE_REPORT"],
        &["run", &format!("{name}.toml")],
    ] {
        let output = testing::run(&mut crate::rowlock(arguments));
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
        let reached = |text: &str| text.contains(is_control);
        let text = String::from_utf8(output.bytes.clone());
        let is_clean = !reached(&output.stdout) && !reached(&output.stderr) && text.is_ok();
        output.expect(is_clean, "no control characters");
    }
}

#[test]
fn no_name_begins_a_line_as_if_it_were_a_message() {
    let place = tempfile::tempdir().unwrap();
    let (name, option, shown) = ("a\nerror: b\x1b[m", "--a\nerror: b\x1b[m", "a\\nerror: b\\u{1b}[m");
    fs::write(place.path().join(name), "x = [").unwrap();
    for arguments in [
        &[name][..],
        &[option],
        &["run", "x", "--repeat", name],
        &["sort", "in", "out", "--key", name],
        &["exec", "--wait", name, "--", "true"],
        &["exec", "--", name],
        &["run", option],
        &["check", name],
        &["import", name],
        &["regress", name, "--on", "y", "--from", "a"],
    ] {
        let output = testing::run(crate::rowlock(arguments).current_dir(&place)).expect_stderr(shown);
        let has_one_error = output.stderr.lines().filter(|line| line.starts_with("error: ")).count() == 1;
        output.expect(has_one_error, "one line that begins an error");
    }
    fs::write(place.path().join(name), crate::commands::CREW).unwrap();
    let output = testing::run(crate::rowlock(&["check", name]).current_dir(&place)).expect_exit(0);
    assert!(output.stdout.starts_with(&format!("{shown}: valid")), "{output}");
}

#[test]
fn words_that_are_not_utf_8_are_shown_alike() {
    for (line, code) in [
        ("?", 2),
        ("--?", 2),
        ("run ?", 2),
        ("run --?", 2),
        ("sort ? out", 2),
        ("regress ? --on y --from a", 2),
        ("exec --wait ? -- true", 2),
        ("exec -- ?", 127),
    ] {
        let bytes = |word: &str| word.bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
        let mut command = crate::rowlock(&[]);
        command.args(line.split(' ').map(|word| OsString::from_vec(bytes(word))));
        let output = testing::run(&mut command).expect_exit(code).expect_stderr("\u{fffd}");
        output.expect_stderr("error: ");
    }
}

#[test]
fn a_temporary_file_that_cannot_be_created_is_reported_with_its_folder() {
    for arguments in [&["exec", "--compare", "--", "true"][..], &["pipeline", "explore", "--", "true"]] {
        let output = testing::run(crate::rowlock(arguments).env("TMPDIR", "/proc")).expect_exit(1);
        output.expect_stderr("error: cannot keep the output of the program: cannot create a temporary file in /proc: ");
    }
}

#[test]
fn a_report_that_would_fill_the_memory_is_refused() {
    for command in ["verdict", "explore"] {
        let script = "truncate -s 65M $ROWLOCK_PIPELINE_REPORT";
        let output = testing::run(&mut crate::rowlock(&["pipeline", command, "--", "sh", "-c", script])).expect_exit(1);
        output.expect_stderr("cannot read the program's report: it is longer than 67108864 bytes");
    }
}

#[test]
fn daemons_and_programs_that_ignore_signals_end_with_their_run() {
    let place = tempfile::tempdir().unwrap();
    // The name of a file is that of the program's process and that of a daemon.
    let script = format!(
        "trap '' TERM HUP INT; cd {}; export run=$$; for way in setsid 'setsid nohup' ''; do \
            $way sh -c 'echo > $run.$$; exec sleep 1000' < /dev/null > /dev/null 2>&1 & done; \
         until test $(ls $run.* 2> /dev/null | wc -l) -eq 3; do :; done; exec 0<&- 1<&- 2<&-; ulimit -n 3; ulimit -f 0",
        place.path().display()
    );
    let output = testing::run(&mut crate::rowlock(&["exec", "--compare", "--runs", "1", "--", "sh", "-c", &script]));
    output.expect_success();
    let names = fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.map(|name| name.split('.').nth(1).unwrap().to_owned()).collect();
    assert_eq!(left.len(), 12);
    assert!(left.iter().all(|pid| crate::exec::has_ended(pid)), "{left:?}");
}

#[test]
fn a_program_that_stops_itself_is_ended_by_the_first_signal() {
    for arguments in [&["exec", "--compare"][..], &["pipeline", "explore"]] {
        let place = tempfile::tempdir().unwrap();
        let begun = place.path().join("begun");
        let script = format!("echo > {}; kill -STOP $$", begun.display());
        let child = Child::start(&mut crate::rowlock(&[arguments, &["--", "sh", "-c", &script]].concat()));
        crate::interrupted_when(|| begun.exists(), child, 15).expect_exit(143);
    }
}

#[test]
fn a_full_shared_memory_folder_does_not_matter() {
    let mut command = testing::command("unshare");
    let script = "mount -t tmpfs -o size=8k tmpfs /dev/shm && head -c 4096 /dev/zero > /dev/shm/full && exec \"$@\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    let exec = crate::rowlock(&["exec", "--report", "--", "sh", "-c", "exit 3"]);
    let output = testing::run(&mut testing::through(command, &exec));
    if output.stderr.contains("unshare: ") || output.stderr.contains("mount: ") {
        return eprintln!("not tested: it takes user namespaces: {output}");
    }
    output.expect_exit(3).expect_stderr("1 process had the library");
}
