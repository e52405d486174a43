//! SpinPredictor: whether spinning has been any use lately.
//!
//! Where spins fail again and again, most of them are left out; one in a few is tried all the same, to see whether times have
//! changed. Source: our own.

/// How many failed spins in a row make a waiter leave them out.
pub(super) const PERSISTENCE: u8 = 8;
/// How many spins in a row it then leaves out before it tries again.
pub(super) const LEFT_OUT: u8 = 16;

/// A memory of spins: of one thread, or of one place to wait at. A value of two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinPredictor {
    /// How many spins may still fail before they are left out, and how many have been since.
    left: u8,
    left_out: u8,
}

impl SpinPredictor {
    /// Nothing is known yet.
    pub const NEW: SpinPredictor = SpinPredictor { left: PERSISTENCE, left_out: 0 };

    /// Whether to spin now.
    pub const fn decide_spin(&mut self) -> bool {
        if self.left == 0 && self.left_out < LEFT_OUT {
            self.left_out += 1;
            return false;
        }
        self.left_out = 0;
        true
    }

    /// A spin was in vain.
    pub const fn record_failure(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// A spin was not in vain.
    pub const fn record_success(&mut self) {
        self.left = if self.left + 2 > PERSISTENCE { PERSISTENCE } else { self.left + 2 };
    }

    /// As a word that can be shared; zero is [`SpinPredictor::NEW`].
    pub const fn word(self) -> u32 {
        (PERSISTENCE - self.left) as u32 | (self.left_out as u32) << 8
    }

    /// What [`SpinPredictor::word`] gave, or the next best.
    pub const fn from_word(word: u32) -> SpinPredictor {
        SpinPredictor { left: PERSISTENCE.saturating_sub(word as u8), left_out: (word >> 8) as u8 }
    }
}

impl Default for SpinPredictor {
    fn default() -> SpinPredictor {
        SpinPredictor::NEW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of so many spins is made, if all that are made fail.
    fn failing(predictor: &mut SpinPredictor, times: u8) -> Vec<bool> {
        let mut spin = || {
            let spins = predictor.decide_spin();
            if spins {
                predictor.record_failure();
            }
            spins
        };
        (0..times).map(|_| spin()).collect()
    }

    #[test]
    fn who_never_succeeds_tries_one_time_in_seventeen() {
        let mut predictor = SpinPredictor::NEW;
        assert_eq!(failing(&mut predictor, PERSISTENCE), [true; PERSISTENCE as usize]);
        for _ in 0..3 {
            assert_eq!(failing(&mut predictor, LEFT_OUT), [false; LEFT_OUT as usize]);
            assert_eq!(failing(&mut predictor, 1), [true]);
        }
    }

    #[test]
    fn one_success_is_worth_two_failures() {
        let mut predictor = SpinPredictor::NEW;
        failing(&mut predictor, PERSISTENCE);
        predictor.record_success();
        assert_eq!(failing(&mut predictor, 3), [true, true, false]);
        (0..100).for_each(|_| predictor.record_success());
        assert_eq!(failing(&mut predictor, PERSISTENCE), [true; PERSISTENCE as usize]);
        assert_eq!(failing(&mut predictor, 1), [false]);
    }

    #[test]
    fn a_word_keeps_all_and_zero_is_new() {
        assert_eq!(SpinPredictor::from_word(0), SpinPredictor::NEW);
        let mut predictor = SpinPredictor::NEW;
        for _ in 0..40 {
            failing(&mut predictor, 1);
            assert_eq!(SpinPredictor::from_word(predictor.word()), predictor);
        }
    }
}
