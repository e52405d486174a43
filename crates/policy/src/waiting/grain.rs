//! How long a thread computes between its waits, as far as it can tell.

use crate::units::{Instant, Span};

/// The number of latest computations that determine a grain.
pub(super) const SAMPLES: usize = 4;

/// The grain of a thread: the second longest of a few latest computations. So a thread does not
/// become coarse by one computation that lost its CPU, or during which it was the last to arrive in
/// a round and did not wait. Until there are enough samples the thread counts as coarse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grain {
    /// When the last wait ended.
    ended: Option<Instant>,
    latest: [Span; SAMPLES],
}

impl Grain {
    /// The grain of a thread that has not waited.
    pub(super) const UNKNOWN: Grain = Grain { ended: None, latest: [Span::MAX; SAMPLES] };

    pub(super) fn end_wait(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    pub(super) fn begin_wait(&mut self, now: Instant) {
        if let Some(ended) = self.ended.take() {
            self.latest.rotate_right(1);
            self.latest[0] = now.since(ended);
        }
    }

    /// Whether there are enough samples.
    pub(super) fn is_known(&self) -> bool {
        self.latest[SAMPLES - 1] < Span::MAX
    }

    pub(super) fn length(&self) -> Span {
        let mut latest = self.latest;
        latest.sort_unstable();
        latest[SAMPLES - 2]
    }
}
