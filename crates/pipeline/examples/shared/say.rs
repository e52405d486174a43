//! What is said to people, on standard error: as `eprintln!`, but that nobody listens is no reason to end.

macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
