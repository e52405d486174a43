//! `rowlock prun` on a terminal.

use serde_json::Value;
use testing::Terminal;
use testing::terminal::{CTRL_C, CTRL_Z};

use crate::kills::name;
use crate::prun::{SPIN, Table, are_running, are_stopped, cpu, mechanisms, ranks, until};

/// An interactive shell in the folder of a table, in which `rowlock` is this one.
struct Shell<'a> {
    terminal: Terminal,
    table: &'a Table,
    answers: u32,
}

impl Shell<'_> {
    fn new(table: &Table) -> Shell<'_> {
        let mut shell = Shell { terminal: Terminal::shell(), table, answers: 0 };
        let place = table.place().display();
        shell.command(&format!("export ROWLOCK_TABLE='{place}'; cd '{place}'"));
        shell.command(&format!("rowlock() {{ '{}' \"$@\"; }}", env!("CARGO_BIN_EXE_rowlock")));
        shell
    }

    /// Types a command, and waits until the shell has come back.
    fn command(&mut self, command: &str) {
        self.start(command);
        self.answer();
    }

    fn start(&mut self, command: &str) {
        self.terminal.type_keys(command);
        self.terminal.type_keys("\n");
    }

    /// Waits until the shell reads commands. The echo of the command does not have its output.
    fn answer(&mut self) {
        self.answers += 1;
        self.start(&format!("echo answer $(({} + 1000))", self.answers));
        self.terminal.read_until(&format!("answer {}", self.answers + 1000));
    }

    /// Starts a job in the foreground, and waits until its ranks run. Returns its agent.
    fn prun(&mut self, words: &str, script: &str, ranks_expected: usize) -> u32 {
        let before = self.table.jobs().len();
        self.start(&format!("'{}' prun --wait none {words} -- sh -c '{script}'", env!("CARGO_BIN_EXE_rowlock")));
        until(|| self.table.jobs().len() > before);
        let agent = agent(&self.table.jobs()[before]);
        // A process that is stopped before it has executed its program would not be a rank yet, and
        // an agent that does not await stops yet would not say that the job is suspended.
        let has_begun = |rank: &u32| name(*rank).trim() != "rowlock";
        until(|| ranks(agent).iter().filter(|rank| has_begun(rank)).count() == ranks_expected && awaits_stops(agent));
        agent
    }

    /// Presses Ctrl-Z, and waits until the job is suspended and the shell is back.
    fn suspend(&mut self, job: usize) {
        self.terminal.type_keys(CTRL_Z);
        until(|| self.state(job) == "suspended" && self.has_stopped(job));
        self.answer();
    }

    fn has_stopped(&self, job: usize) -> bool {
        crate::prun::state(agent(&self.table.jobs()[job])) == Some('T')
    }

    fn state(&self, job: usize) -> String {
        self.table.jobs()[job]["state"].as_str().unwrap().to_owned()
    }
}

fn agent(job: &Value) -> u32 {
    job["agent"].as_u64().unwrap().try_into().unwrap()
}

/// Whether an agent awaits stops: before, it starts a thread of this name.
fn awaits_stops(agent: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{agent}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok()).any(|name| name == "agent\n")
}

/// Whether a process belongs to the foreground process group of its terminal.
fn is_in_foreground(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The state, the parent, the process group, the session, the terminal and its process group.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().take(6).collect();
    fields[2] == fields[5]
}

#[test]
fn ctrl_c_ends_all_ranks() {
    let table = Table::new();
    let mut terminal = Terminal::start(&mut table.rowlock(&["prun", "-n", "2", "--", "sh", "-c", "sleep 1000; true"]));
    until(|| table.jobs().first().is_some_and(|job| ranks(agent(job)).len() == 2));
    terminal.type_keys(CTRL_C);
    terminal.wait().expect_signal(2);
    table.expect_gone();
}

#[test]
fn the_end_of_its_terminal_ends_a_job_that_leads_the_session() {
    let table = Table::new();
    let mut terminal = Terminal::start(&mut table.rowlock(&["prun", "-n", "2", "--", "sh", "-c", "sleep 1000; true"]));
    until(|| table.jobs().first().is_some_and(|job| ranks(agent(job)).len() == 2));
    terminal.hang_up();
    terminal.wait().expect_signal(1);
    table.expect_gone();
}

#[test]
fn ctrl_z_stops_a_job_and_fg_and_bg_continue_it() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    let agent = shell.prun("-n 2", SPIN, 2);
    shell.suspend(0);
    until(|| are_stopped(agent));
    shell.command("bg");
    until(|| shell.state(0) == "runs" && are_running(agent));
    shell.start("fg");
    until(|| is_in_foreground(agent));
    shell.terminal.type_keys(CTRL_C);
    until(|| table.jobs().is_empty());
    shell.answer();
    drop(shell);
    table.expect_gone();
}

#[test]
fn ctrl_z_stops_a_job_that_is_being_started() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    for ranks_before in [0, 1, 7, 30] {
        let before = table.jobs().len();
        shell.start("rowlock prun --wait none -n 64 -- sleep 1000");
        until(|| table.jobs().len() > before);
        let agent = agent(&table.jobs()[before]);
        until(|| ranks(agent).len() >= ranks_before);
        shell.terminal.type_keys(CTRL_Z);
        until(|| crate::prun::state(agent) == Some('T'));
        shell.answer();
        // If the key was read before the first rank started, it has stopped only the command.
        until(|| ranks(agent).is_empty() || ranks(agent).len() == 64 && are_stopped(agent));
        shell.start("fg");
        until(|| are_running(agent));
        shell.terminal.type_keys(CTRL_C);
        until(|| table.jobs().len() == before);
        shell.answer();
    }
    drop(shell);
    table.expect_gone();
}

#[test]
fn a_job_that_its_terminal_has_stopped_is_left_alone_by_other_agents_and_then_takes_turns_again() {
    mechanisms().iter().copied().for_each(expect_suspension);
}

fn expect_suspension(mechanism: &str) {
    let table = Table::new();
    let strict = ["-n", "2", "--cpus", cpu(), "--how", "strict", "--slice", "5 ms", "--mechanism", mechanism];
    let others = [0, 1].map(|_| table.start(&strict, SPIN));
    let mut shell = Shell::new(&table);
    let agent = shell.prun(&format!("-n 2 --cpus {} --how strict --mechanism {mechanism}", cpu()), SPIN, 2);
    for is_its_turn in [false, true, false] {
        // It may change before the key is read: any moment must do.
        until(|| if is_its_turn { are_running(agent) } else { are_stopped(agent) });
        shell.suspend(2);
        until(|| are_stopped(agent));
        for _ in 0..4 {
            for number in 0..2 {
                until(|| are_running(others[number].id()) && are_stopped(others[1 - number].id()));
                assert!(are_stopped(agent));
            }
        }
        shell.start("fg");
        until(|| are_running(agent));
        until(|| are_stopped(agent));
    }
    shell.terminal.type_keys(CTRL_C);
    until(|| table.jobs().len() == 2);
    for other in others {
        other.send(15);
        other.wait().expect_signal(15);
    }
    drop(shell);
    table.expect_gone();
}

#[test]
fn a_job_that_its_terminal_has_stopped_is_continued_by_resume_and_ended_by_kill() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    let agent = shell.prun("-n 2", SPIN, 2);
    shell.suspend(0);
    until(|| are_stopped(agent));
    shell.command("rowlock resume 1");
    until(|| shell.state(0) == "runs" && are_running(agent));
    shell.start("fg");
    until(|| is_in_foreground(agent));
    shell.suspend(0);
    shell.command("rowlock kill 1");
    until(|| table.jobs().is_empty());
    shell.command("wait");
    drop(shell);
    table.expect_gone();
}

#[test]
fn ctrl_c_ends_the_turns_of_a_program_that_ran_before_and_not_the_program() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    let program = testing::Child::start(testing::command("sh").args(["-c", SPIN]));
    shell.start(&format!("rowlock prun --pid {}", program.id()));
    until(|| table.jobs().len() == 1);
    let agent = agent(&table.jobs()[0]);
    until(|| awaits_stops(agent) && is_in_foreground(agent));
    shell.terminal.type_keys(CTRL_C);
    shell.terminal.read_until("goes on, and takes no turns any more");
    shell.answer();
    assert_eq!(crate::prun::state(program.id()), Some('R'));
    drop(program);
    drop(shell);
    table.expect_gone();
}

#[test]
fn a_job_in_the_background_that_reads_is_stopped_until_it_is_in_the_foreground() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    shell.prun("", "read line; echo it was $line", 1);
    shell.suspend(0);
    shell.command("bg");
    until(|| shell.state(0) == "suspended" && shell.has_stopped(0));
    shell.start("fg");
    until(|| shell.state(0) == "runs");
    shell.start("this");
    shell.terminal.read_until("it was this");
    shell.answer();
    drop(shell);
    table.expect_gone();
}

/// As editors do, which stop by themselves. A terminal in raw mode would send signals for no key.
#[test]
fn a_rank_sets_its_terminal_and_leaves_it_as_it_was() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    let script = r#"before=$(stty -g)
        for key in 1 2; do
            stty raw -echo; echo rea""dy; od -A n -N 1 -t x1; stty $before
            [ $key = 2 ] || kill -TSTP 0
        done"#;
    std::fs::write(table.place().join("editor"), script).unwrap();
    shell.command("before=$(stty -g)");
    shell.start("rowlock prun -- sh editor");
    shell.terminal.read_until("ready");
    until(|| awaits_stops(agent(&table.jobs()[0])));
    shell.terminal.type_keys(CTRL_Z);
    shell.terminal.read_until("1a");
    until(|| shell.state(0) == "suspended" && shell.has_stopped(0));
    shell.start("[ $(stty -g) = $before ] && fg");
    shell.terminal.read_until("ready");
    shell.terminal.type_keys(CTRL_C);
    shell.terminal.read_until("03");
    shell.start("[ $(stty -g) = $before ] && echo a''s before");
    shell.terminal.read_until("as before");
    drop(shell);
    table.expect_gone();
}

#[test]
fn a_pager_reads_the_terminal_while_a_job_writes_to_it() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    let script = "read line; stty raw -echo < $1; echo ready; key=$(head -c 1 $1); stty $0 < $1; echo $line until $key";
    std::fs::write(table.place().join("pager"), script).unwrap();
    shell.command("before=$(stty -g)");
    shell.start("rowlock prun -- yes row | sh -c \"$(cat pager)\" $before /dev/tty");
    shell.terminal.read_until("ready");
    shell.terminal.type_keys("q");
    shell.terminal.read_until("row until q");
    shell.start("[ $(stty -g) = $before ] && echo a''s before");
    shell.terminal.read_until("as before");
    drop(shell);
    table.expect_gone();
}

#[test]
fn a_job_in_the_background_that_may_not_write_is_stopped_until_it_is_in_the_foreground() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    let script = r#"until [ -e now ]; do sleep 0.01; done; echo fro""m $ROWLOCK_RANK"#;
    shell.command(&format!("stty tostop; rowlock prun --wait none -n 2 -- sh -c '{script}' &"));
    until(|| table.jobs().first().is_some_and(|job| ranks(agent(job)).len() == 2 && awaits_stops(agent(job))));
    std::fs::write(table.place().join("now"), "").unwrap();
    until(|| shell.state(0) == "suspended" && shell.has_stopped(0));
    shell.start("fg");
    shell.terminal.read_until("from ");
    shell.terminal.read_until("from ");
    shell.answer();
    drop(shell);
    table.expect_gone();
}

#[test]
fn jobs_are_parts_of_pipelines() {
    let table = Table::new();
    let mut shell = Shell::new(&table);
    shell.start("rowlock prun -- echo 'to be' | rowlock prun -- tr a-z A-Z");
    shell.terminal.read_until("TO BE");
    shell.answer();
    shell.start("rowlock prun -- yes row | rowlock prun -- sed -n 's/row/lock/p;1q'");
    shell.terminal.read_until("lock\r\n");
    shell.answer();
    drop(shell);
    table.expect_gone();
}

#[test]
fn a_job_that_ignores_hangups_survives_one() {
    let table = Table::new();
    let rowlock = env!("CARGO_BIN_EXE_rowlock");
    let script = format!("trap '' HUP; exec '{rowlock}' prun -- sh -c 'echo ready; read line; echo $line'");
    let mut command = testing::command("sh");
    command.args(["-c", &script]).env("ROWLOCK_TABLE", table.place());
    let mut prun = testing::Child::start_piped(&mut command);
    assert_eq!(prun.read_line(), "ready");
    prun.send(1);
    prun.write_line("still there");
    prun.wait().expect_success().expect_stdout("still there");
    table.expect_gone();
}
