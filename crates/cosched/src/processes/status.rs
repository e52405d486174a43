//! Fields of `/proc/PID/status`.

use rustix::process::Signal;

/// The fields of a process that decide whether it may be stopped or continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    state: u8,
    tracer: u32,
    threads: u32,
    /// A bit for each signal that has arrived for the main thread alone, or for the process, and
    /// that no thread has acted on.
    own: u64,
    shared: u64,
    /// Its real and its saved user, if they are known.
    users: Option<[u32; 2]>,
}

impl Status {
    /// Parses the beginning of the file. Returns `None` if a field is missing.
    pub(super) fn parse(text: &[u8]) -> Option<Status> {
        let (mut state, mut tracer, mut threads, mut own, mut users) = (None, None, None, None, None);
        let signals = |value| u64::from_str_radix(value, 16).ok();
        // In the order of the file, which is long.
        for (name, value) in fields(text) {
            match name {
                b"State" => state = value.bytes().next(),
                b"TracerPid" => tracer = value.parse().ok(),
                b"Uid" => users = real_and_saved(value),
                b"Threads" => threads = value.parse().ok(),
                b"SigPnd" => own = signals(value),
                b"ShdPnd" => {
                    let (own, shared) = (own?, signals(value)?);
                    return Some(Status { state: state?, tracer: tracer?, threads: threads?, own, shared, users });
                }
                _ => {}
            }
        }
        None
    }

    /// Whether it has ended. If only its main thread has ended, it has not.
    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }

    /// Whether a process of this user, without privileges, may signal it.
    pub(crate) fn may_be_signalled_by(&self, user: u32) -> bool {
        user == 0 || self.users.is_some_and(|users| users.contains(&user))
    }

    pub(super) const fn is_stopped(&self) -> bool {
        self.state == b'T'
    }

    pub(super) const fn is_traced(&self) -> bool {
        self.tracer != 0 || self.state == b't'
    }

    /// Whether it has arrived for the process or its main thread.
    pub(super) const fn is_pending(&self, signal: Signal) -> bool {
        has(self.own | self.shared, signal)
    }

    /// Whether it has arrived for the process.
    pub(super) const fn is_pending_for_process(&self, signal: Signal) -> bool {
        has(self.shared, signal)
    }
}

/// Of the real, the effective, the saved user, and that for files.
fn real_and_saved(value: &str) -> Option<[u32; 2]> {
    let users: Vec<u32> = value.split_ascii_whitespace().map_while(|user| user.parse().ok()).collect();
    Some([*users.first()?, *users.get(2)?])
}

const fn has(signals: u64, signal: Signal) -> bool {
    signals >> (signal.as_raw() - 1) & 1 != 0
}

/// The names and values of all lines. A line without an end may be cut off, and is left out.
pub(super) fn fields(text: &[u8]) -> impl DoubleEndedIterator<Item = (&[u8], &str)> {
    let lines = text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    lines.filter_map(|line| {
        let end = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..end], std::str::from_utf8(&line[end + 1..]).ok()?.trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_and_the_saved_user_decide_who_may_signal() {
        let with = |users: &str| parse(("Groups:", &format!("Uid:\t{users}\nGroups:"))).unwrap();
        // A program with the rights of another user, and one that has given up its own.
        for (users, may) in [("7\t0\t0\t0", true), ("0\t7\t7\t7", true), ("0\t7\t0\t7", false), ("7", false)] {
            assert_eq!(with(users).may_be_signalled_by(7), may, "{users}");
            assert!(with(users).may_be_signalled_by(0));
        }
    }

    const TEXT: &str = "Name:\tTracerPid:\t7\nState:\tT (stopped)\nTgid:\t5\nTracerPid:\t0\nGroups:\t4 5 \n\
                        Threads:\t3\nSigQ:\t1/30\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000080000\nSigBlk:\t00\n";

    fn parse(change: (&str, &str)) -> Option<Status> {
        assert!(TEXT.contains(change.0), "{}", change.0);
        Status::parse(TEXT.replace(change.0, change.1).as_bytes())
    }

    #[test]
    fn a_stopped_process_may_have_pending_signals_of_its_own_and_of_its_main_thread() {
        let status = parse(("", "")).unwrap();
        assert!(status.is_stopped() && !status.is_traced() && !status.has_ended());
        assert!(!status.is_pending(Signal::STOP) && status.is_pending(Signal::TSTP));
        let status = parse(("SigPnd:\t0000000000000000", "SigPnd:\t0000000000040000")).unwrap();
        assert!(status.is_pending(Signal::STOP) && status.is_pending(Signal::TSTP));
        assert!(!status.is_pending_for_process(Signal::STOP) && status.is_pending_for_process(Signal::TSTP));
    }

    #[test]
    fn a_traced_process_is_known_by_its_tracer_and_by_its_state() {
        assert!(parse(("TracerPid:\t0", "TracerPid:\t9")).unwrap().is_traced());
        let status = parse(("T (stopped)", "t (tracing stop)")).unwrap();
        assert!(status.is_traced() && !status.is_stopped());
    }

    #[test]
    fn a_process_has_ended_with_its_last_thread() {
        let ended = TEXT.replace("T (stopped)", "Z (zombie)");
        assert!(!Status::parse(ended.as_bytes()).unwrap().has_ended());
        assert!(Status::parse(ended.replace("Threads:\t3", "Threads:\t1").as_bytes()).unwrap().has_ended());
    }

    #[test]
    fn a_file_that_is_cut_off_or_nonsense_has_no_status() {
        let length = TEXT.find("SigBlk").unwrap();
        assert!((0..length).all(|length| Status::parse(&TEXT.as_bytes()[..length]).is_none()));
        assert!(Status::parse(&TEXT.as_bytes()[..length]).is_some());
        for change in [("State:\tT", "State:\t\nX:\t"), ("\t0\n", "\t-1\n"), ("80000", "8000g"), ("Threads", "Thread")]
        {
            assert_eq!(parse(change), None, "{change:?}");
        }
        assert_eq!(Status::parse(b"State:\t\xff\n"), None);
    }
}
