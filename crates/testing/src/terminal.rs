//! A terminal on which a test types and reads, as a person would.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::child::{self, LIMIT, Output, command};
use crate::processes;

/// The key that sends SIGINT to the foreground process group.
pub const CTRL_C: &str = "\x03";
/// The key that ends the input, at the beginning of a line.
pub const CTRL_D: &str = "\x04";
/// The key that sends SIGTSTP to the foreground process group.
pub const CTRL_Z: &str = "\x1a";
/// The key that sends SIGQUIT to the foreground process group.
pub const CTRL_BACKSLASH: &str = "\x1c";

/// How long killed processes may take to end.
const KILL_TIME: Duration = Duration::from_secs(5);

/// A pseudo-terminal, and a program in a session of its own that it controls. All processes of the
/// session are killed when this is dropped.
///
/// The terminal shows what is typed as well, so a text to wait for must not be part of that. Lines
/// of the output end with `\r\n`.
#[derive(Debug)]
pub struct Terminal {
    /// The leader of the session. It is reaped last, so that the number of the session stays valid.
    leader: Child,
    /// Becomes readable when the leader ends.
    end: OwnedFd,
    command: String,
    /// The end of the person.
    keyboard: File,
    /// Whether a process may still write to the other end.
    is_open: bool,
    output: Vec<u8>,
    /// How much of the output the test has read.
    read: usize,
    limit: Duration,
}

impl Terminal {
    /// Starts a command, which was made by [`command`], on a terminal of 80 columns and 24 lines.
    ///
    /// As its process group is orphaned, Ctrl-Z does not stop it: see [`Terminal::shell`].
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let open = || {
            let keyboard = openpt(flags)?;
            grantpt(&keyboard)?;
            unlockpt(&keyboard)?;
            ioctl_fionbio(&keyboard, true)?;
            tcsetwinsize(&keyboard, size(80, 24))?;
            let screen = ioctl_tiocgptpeer(&keyboard, flags)?;
            Ok::<_, Errno>((File::from(keyboard), File::from(screen)))
        };
        let (keyboard, screen) = open().expect("a pseudo-terminal");
        let end = || screen.try_clone().expect("a descriptor");
        sys::process::lead_session(command.stdin(end()).stdout(end()).stderr(end()));
        let leader = command.spawn().unwrap_or_else(|why| panic!("cannot start {command:?}: {why}"));
        // While this process holds the other end, it would not notice that all others have closed
        // it.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let end = pidfd_open(Pid::from_child(&leader), PidfdFlags::empty()).expect("a running child");
        let (command, output) = (format!("{command:?}"), Vec::new());
        Terminal { leader, end, command, keyboard, is_open: true, output, read: 0, limit: LIMIT }
    }

    /// Starts an interactive shell with job control, whose prompt is `$ `.
    ///
    /// # Panics
    /// As [`Terminal::start`].
    #[track_caller]
    pub fn shell() -> Terminal {
        Terminal::start(command("sh").arg("-i").env("PS1", "$ ").env("TERM", "dumb").env_remove("ENV"))
    }

    /// Sets how long each of the following waits may take, which is [`LIMIT`] otherwise.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The process id of the program, which is the number of the session.
    pub fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Changes the size, of which the foreground process group is told by SIGWINCH.
    ///
    /// # Panics
    /// If there is no terminal any more.
    #[track_caller]
    pub fn resize(&self, columns: u16, lines: u16) {
        tcsetwinsize(&self.keyboard, size(columns, lines)).expect("a terminal");
    }

    /// Types keys. Lines end with `\n`. A key that sends a signal discards keys that are not read
    /// yet, so wait for its effect before the next ones.
    ///
    /// # Panics
    /// If no process reads them and the terminal can keep no more.
    #[track_caller]
    pub fn type_keys(&mut self, keys: &str) {
        if let Err(why) = self.keyboard.write_all(keys.as_bytes()) {
            self.fail(&format!("reads no keys: {why}"));
        }
    }

    /// Waits until the output that has not been read yet has this text. Returns that output up to
    /// the end of the text.
    ///
    /// # Panics
    /// If the program ends without it, or the limit passes. The message has all output.
    #[track_caller]
    pub fn read_until(&mut self, text: &str) -> String {
        let deadline = self.deadline();
        loop {
            let has_ended = self.has_ended();
            self.read_available();
            let unread = &self.output[self.read..];
            if let Some(at) = unread.windows(text.len().max(1)).position(|part| part == text.as_bytes()) {
                let found = String::from_utf8_lossy(&unread[..at + text.len()]).into_owned();
                self.read += at + text.len();
                return found;
            }
            if has_ended || !self.is_open {
                self.fail(&format!("has ended, or closed the terminal, without {text:?}"));
            }
            if !self.wait_for_more(deadline) {
                self.fail(&format!("has not printed {text:?} in time"));
            }
        }
    }

    /// Closes the terminal, as the end of its window does. The kernel tells the program. No process
    /// is killed, and keys have no effect any more.
    pub fn hang_up(&mut self) {
        self.read_available();
        (self.keyboard, self.is_open) = (File::from(self.end.try_clone().expect("a descriptor")), false);
    }

    /// The process of the program, for anything that this type does not offer.
    pub fn process(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// Waits until the program ends, and kills all that it leaves in its session. Its standard
    /// output is everything that the terminal has shown.
    ///
    /// # Panics
    /// If the limit passes. The message has all output.
    #[track_caller]
    pub fn wait(mut self) -> Output {
        let deadline = self.deadline();
        while !self.has_ended() {
            self.read_available();
            if !self.wait_for_more(deadline) {
                self.fail("has not ended in time");
            }
        }
        self.read_available();
        self.kill();
        let status = self.leader.wait().expect("the end of a child");
        let (command, bytes) = (std::mem::take(&mut self.command), std::mem::take(&mut self.output));
        let stdout = String::from_utf8_lossy(&bytes).into_owned();
        Output { command, status, killed: None, stdout, bytes, stderr: String::new() }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.limit.min(child::limit())
    }

    /// Whether the program has ended. It is not reaped.
    fn has_ended(&self) -> bool {
        let mut end = [PollFd::new(&self.end, PollFlags::IN)];
        poll(&mut end, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
    }

    /// Reads all that there is.
    fn read_available(&mut self) {
        let mut piece = [0; 4096];
        while self.is_open {
            match self.keyboard.read(&mut piece) {
                Ok(length) if length > 0 => self.output.extend(&piece[..length]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                // EIO, once the other end is closed.
                _ => self.is_open = false,
            }
        }
    }

    /// Waits until there is more output, or the program has ended. Returns false for the deadline.
    fn wait_for_more(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut watched = vec![PollFd::new(&self.end, PollFlags::IN)];
        if self.is_open {
            watched.push(PollFd::new(&self.keyboard, PollFlags::IN));
        }
        let is_ready = poll(&mut watched, Timespec::try_from(left).ok().as_ref());
        is_ready.is_ok_and(|ready| ready > 0) || !left.is_zero()
    }

    /// Kills all processes of the session.
    fn kill(&self) {
        processes::kill_tree(self.id());
        let deadline = Instant::now() + KILL_TIME;
        while Instant::now() < deadline {
            let left = processes::session(self.id());
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(processes::kill_tree);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[track_caller]
    fn fail(&mut self, why: &str) -> ! {
        self.read_available();
        let state: String = processes::session(self.id()).into_iter().map(processes::describe).collect();
        let (command, output) = (&self.command, String::from_utf8_lossy(&self.output));
        panic!("the program on a terminal {why}\ncommand: {command}\n{state}output:\n{output}");
    }
}

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.leader.try_wait() {
            self.kill();
            let _ = self.leader.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn script(text: &str) -> Terminal {
        Terminal::start(command("sh").args(["-c", text]))
    }

    #[test]
    fn a_program_reads_what_is_typed_and_the_terminal_shows_both() {
        let mut terminal = script("read word; echo you said $word; test -t 0 && test -t 1 && test -t 2 && stty size");
        terminal.type_keys("hello\n");
        assert_eq!(terminal.read_until("said"), "hello\r\nyou said");
        let output = terminal.wait().expect_success();
        assert_eq!(output.stdout, "hello\r\nyou said hello\r\n24 80\r\n");
    }

    #[test]
    fn interrupt_and_quit_end_a_program_and_end_of_input_its_input() {
        for (keys, signal) in [(CTRL_C, libc::SIGINT), (CTRL_BACKSLASH, libc::SIGQUIT)] {
            let mut terminal = script("ulimit -c 0; echo begun; exec sleep 1000");
            terminal.read_until("begun");
            terminal.type_keys(keys);
            terminal.wait().expect_signal(signal);
        }
        let mut terminal = Terminal::start(&mut command("cat"));
        terminal.type_keys(CTRL_D);
        terminal.wait().expect_success();
    }

    #[test]
    fn a_shell_stops_and_continues_a_program() {
        let mut shell = Terminal::shell();
        shell.type_keys("while read line; do echo \"<$line>\"; done | cat\n");
        shell.type_keys("first\n");
        shell.read_until("<first>");
        shell.type_keys(CTRL_Z);
        shell.read_until("Stopped");
        shell.type_keys("echo stat''us $?\n");
        shell.read_until("status 148");
        shell.type_keys("fg\nsecond\n");
        shell.read_until("<second>");
        shell.type_keys(CTRL_C);
        shell.read_until("$ ");
        shell.type_keys("exit 7\n");
        shell.wait().expect_exit(7);
    }

    #[test]
    fn a_program_is_told_of_the_end_of_its_terminal() {
        let mut terminal = script("echo begun; exec sleep 1000");
        terminal.read_until("begun");
        terminal.hang_up();
        terminal.wait().expect_signal(libc::SIGHUP).expect_stdout("begun");
    }

    #[test]
    fn a_program_is_told_of_a_new_size() {
        let mut terminal = script("trap 'stty size; exit 3' WINCH; echo begun; while true; do sleep 0.01; done");
        terminal.read_until("begun");
        terminal.resize(100, 50);
        terminal.read_until("50 100");
        terminal.wait().expect_exit(3);
    }

    #[test]
    fn no_process_of_the_session_is_left() {
        for is_dropped in [true, false] {
            let mut shell = Terminal::shell();
            shell.type_keys("(trap '' HUP; sleep 1000) & (trap '' HUP; sleep 1000) & echo be''gun\n");
            shell.read_until("begun");
            let id = shell.id();
            assert!(processes::session(id).len() >= 3);
            if is_dropped {
                drop(shell);
            } else {
                shell.type_keys("exit\nexit\n");
                shell.wait();
            }
            assert!(processes::session(id).is_empty());
        }
    }

    #[test]
    fn a_failed_wait_shows_all_output() {
        type Wait = fn(&mut Terminal);
        let waits: [(&str, Wait); 3] = [
            ("has not printed \"absent\" in time", |terminal| drop(terminal.read_until("absent"))),
            ("without \"absent\"", |terminal| {
                terminal.type_keys(CTRL_C);
                terminal.set_limit(LIMIT);
                terminal.read_until("absent");
            }),
            ("without \"absent\"", |terminal| {
                terminal.type_keys("\n");
                terminal.set_limit(LIMIT);
                terminal.read_until("absent");
            }),
        ];
        for (why, wait) in waits {
            let mut terminal = script("echo begun; read line; exec 0<&- 1>&- 2>&-; exec sleep 1000");
            terminal.read_until("begun");
            terminal.set_limit(Duration::ZERO);
            let failed = catch_unwind(AssertUnwindSafe(|| wait(&mut terminal))).unwrap_err();
            let message = failed.downcast::<String>().unwrap();
            assert!(message.contains(why) && message.contains("output:\nbegun"), "{message}");
        }
        let mut hangs = script("echo begun; exec sleep 1000");
        hangs.read_until("begun");
        hangs.set_limit(Duration::ZERO);
        let message = catch_unwind(AssertUnwindSafe(|| hangs.wait())).unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("has not ended in time") && message.contains("sleep"), "{message}");
    }

    #[test]
    fn signals_that_the_test_ignores_have_their_default_action_on_the_terminal() {
        crate::isolated_by(
            |test| {
                let mut ignoring = command("sh");
                ignoring.args(["-c", "trap '' HUP INT QUIT TSTP TTIN TTOU TERM; exec setsid \"$@\"", "sh"]);
                crate::expect_pass(&mut crate::through(ignoring, &test));
            },
            || {
                let mut terminal = script("echo begun; exec sleep 1000");
                terminal.read_until("begun");
                terminal.type_keys(CTRL_C);
                terminal.wait().expect_signal(libc::SIGINT);
                let mut shell = Terminal::shell();
                shell.type_keys("sed 's/.*/<&>/'\nfirst\n");
                shell.read_until("<first>");
                shell.type_keys(CTRL_Z);
                shell.read_until("Stopped");
                drop(shell);
            },
        );
    }
}
