//! Work that a run does once in each interval.

use std::time::Duration;

use policy::Span;

pub(crate) fn span(time: Duration) -> Span {
    Span::from_nanos(time.as_nanos().try_into().unwrap_or(u64::MAX))
}

/// Measures intervals in nanoseconds since the beginning of the run. The caller reads the clock.
#[derive(Debug)]
pub(crate) struct Interval {
    length: Span,
    began: u64,
}

impl Interval {
    /// The first interval begins with the run.
    pub(crate) fn new(length: Span) -> Interval {
        Interval { length, began: 0 }
    }

    /// If the current interval is over at `now`, begins the next one and returns the length of the
    /// old one.
    pub(crate) fn next(&mut self, now: u64) -> Option<Span> {
        let elapsed = Span::from_nanos(now.saturating_sub(self.began));
        (elapsed >= self.length).then(|| {
            self.began = now;
            elapsed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_once_and_the_next_begins_there() {
        let mut interval = Interval::new(Span::from_nanos(10));
        let ends = [9, 10, 11, 19, 25, 34, 35, 5].map(|now| interval.next(now).map(Span::as_nanos));
        assert_eq!(ends, [None, Some(10), None, None, Some(15), None, Some(10), None]);
    }
}
