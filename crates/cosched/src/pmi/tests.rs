use std::sync::mpsc::channel;
use std::time::Duration;

use testing::isolated_by;

use super::wire::LONGEST_LINE;
use super::*;
use crate::ranks::{Ended, Failures, Io, RankStart, Ranks, tests::pass};

/// The lines by which a rank is there, and leaves, for a shell.
const FUNCTIONS: &str = r#"
    call() { echo "$1" >&$PMI_FD; read -r answer <&$PMI_FD; }
    init() { call 'cmd=init pmi_version=1 pmi_subversion=1'; }
    barrier() { call cmd=barrier_in; }
    finalize() { call cmd=finalize; }
"#;

/// Runs each script as a rank with a server.
fn run(scripts: &[&str]) -> Ended {
    run_and_note(scripts).0
}

/// As [`run`]. Also returns the calls that were refused.
fn run_and_note(scripts: &[&str]) -> (Ended, Vec<(u32, Refused)>) {
    // The harness has begun a line.
    println!();
    let mut server = Server::new((0..).take(scripts.len()).collect());
    let start = |script: &&str| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{FUNCTIONS}\n{script}")]);
        RankStart { command, cpus: None }
    };
    let spawn = |_, command: &mut Command| {
        sys::signals::restore_defaults_in(command);
        server.connect(command)?;
        command.spawn()
    };
    let ranks = Ranks::start(scripts.iter().map(start).collect(), &Io::default(), &[], None, spawn).unwrap();
    let (reporter, failures) = Failures::reported().unwrap();
    let (noted, refused) = channel();
    server.serve(reporter, move |rank, call| noted.send((rank, call)).unwrap()).unwrap();
    let ended = ranks.supervise(&mut (), failures, Some(Duration::from_secs(300))).unwrap();
    (ended, refused.iter().collect())
}

#[test]
fn ranks_learn_their_numbers_and_meet() {
    isolated_by(pass, || {
        let rank = r#"
            init; barrier
            [[ $PMI_SIZE == 3 && $MPI_LOCALNRANKS == 3 && $MPI_LOCALRANKID == $PMI_RANK ]] || exit 2
            [[ $UCX_DEBUG_SIGNO == 0 ]] || exit 3
            call "cmd=put kvsname=rowlock key=$PMI_RANK value=of $PMI_RANK"
            barrier
            call "cmd=get kvsname=rowlock key=$(((PMI_RANK + 1) % 3))"
            [[ $answer == "cmd=get_result rc=0 msg=success value=of $(((PMI_RANK + 1) % 3))" ]] || exit 3
            call cmd=get_appnum
            [[ $answer == "cmd=appnum appnum=$PMI_RANK" ]] || exit 4
            finalize
        "#;
        let ended = run(&[rank; 3]);
        assert_eq!((ended.exit_code(), ended.cause()), (0, None));
    });
}

#[test]
fn programs_that_do_not_know_the_server_are_left_alone() {
    isolated_by(pass, || {
        let ended = run(&["true", "exec {PMI_FD}>&-; sleep 0", "exit 3"]);
        assert_eq!((ended.exit_code(), ended.first_failed), (3, Some(2)));
    });
}

#[test]
fn an_abort_gives_the_exit_code_of_the_job() {
    isolated_by(pass, || {
        for code in [42, 0] {
            let abort = format!("init; echo 'cmd=abort exitcode={code}' >&$PMI_FD; exit {code}");
            let ended = run(&["init; barrier; sleep 1000", &abort]);
            assert_eq!((ended.exit_code(), ended.first_failed), (code, Some(1)));
            let cause = format!("rank 1 has called MPI_Abort ({code}), so the job has failed");
            assert_eq!(ended.cause(), Some(cause));
        }
    });
}

#[test]
fn a_rank_that_ends_early_fails_the_job_and_one_that_fails_keeps_its_exit_code() {
    isolated_by(pass, || {
        for (script, code, cause) in [
            ("init", 1, "rank 1 has ended without MPI_Finalize, so the job has failed"),
            ("init; exit 3", 3, "rank 1 has failed (exit status: 3), so the job was ended"),
            ("init; kill -KILL $$", 137, "rank 1 has failed (signal: 9 (SIGKILL)), so the job was ended"),
            (
                "true",
                1,
                "rank 0 waits in a barrier for rank 1, which uses MPI no more, or has ended without it, so the job has failed",
            ),
        ] {
            let ended = run(&["init; barrier; exit", script]);
            assert_eq!((ended.exit_code(), ended.cause().as_deref()), (code, Some(cause)), "{script}");
        }
        let ended = run(&["init"]);
        let cause = "rank 0 has ended without MPI_Finalize, so the job has failed";
        assert_eq!((ended.exit_code(), ended.cause().as_deref()), (1, Some(cause)));
    });
}

#[test]
fn a_rank_that_closes_its_connection_and_goes_on_does_not_fail_the_job() {
    isolated_by(pass, || {
        let closes = "exec {PMI_FD}>&-; while :; do sleep 0.01; done";
        let ended = run(&["init; finalize; exit 7", closes]);
        assert_eq!((ended.exit_code(), ended.first_failed), (7, Some(0)));
    });
}

#[test]
fn a_line_that_is_no_call_or_does_not_end_fails_the_job() {
    isolated_by(pass, || {
        let long = format!("printf '%{LONGEST_LINE}s' >&$PMI_FD; sleep 1000");
        for (script, cause) in [
            ("echo 'cmd=dance' >&$PMI_FD; sleep 1000", "rank 1 has written the unknown command `dance`"),
            (&long, "rank 1 has written a line of more than 4096 bytes"),
            ("echo mcmd=spawn >&$PMI_FD; yes >&$PMI_FD", "rank 1 has written a line of more than 1048576 bytes"),
            ("init; init; sleep 1000", "rank 1 has called `init` twice"),
        ] {
            let ended = run(&["init; barrier; sleep 1000", script]);
            assert_eq!((ended.exit_code(), ended.first_failed), (1, Some(1)), "{script}");
            assert!(ended.cause().is_some_and(|found| found.starts_with(cause)), "{:?}", ended.cause());
        }
    });
}

#[test]
fn calls_that_are_refused_are_reported_once() {
    isolated_by(pass, || {
        let rank = r#"
            init
            for i in 1 2; do call 'cmd=publish_name service=a port=b'; [[ $answer == *rc=-1* ]] || exit 2; done
            printf 'mcmd=spawn\nnprocs=1\ntotspawns=1\nspawnssofar=1\nendcmd\n' >&$PMI_FD
            read -r answer <&$PMI_FD; [[ $answer == 'cmd=spawn_result rc=-1'* ]] || exit 3
            finalize
        "#;
        let (ended, refused) = run_and_note(&[rank]);
        assert_eq!((ended.exit_code(), refused), (0, vec![(0, Refused::Publish), (0, Refused::Spawn)]));
    });
}

#[test]
fn a_rank_that_does_not_read_its_answers_delays_no_other() {
    isolated_by(pass, || {
        let deaf = "init; for ((i = 0; i < 20000; i++)); do echo cmd=get_maxes; done >&$PMI_FD";
        let ended = run(&["init; for i in {1..100}; do call cmd=get_maxes; done; finalize; exit 5", deaf]);
        assert_eq!((ended.exit_code(), ended.first_failed), (5, Some(0)));
    });
}

#[test]
fn shared_memory_of_a_killed_rank_is_removed() {
    isolated_by(pass, || {
        let path = format!("/dev/shm/mpich_shar_tmp-killed-{}", std::process::id());
        std::fs::write(&path, "memory").unwrap();
        let digits: String = path.bytes().map(|byte| format!("{byte:02X}")).collect();
        let script = format!("init; call 'cmd=put kvsname=rowlock key=-bcast-1-0 value={digits}'; kill -KILL $$");
        let ended = run(&[&script]);
        assert_eq!((ended.exit_code(), std::path::Path::new(&path).exists()), (137, false));
    });
}
