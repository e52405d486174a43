//! The spin-success predictor: whether recent spins were worthwhile.
//!
//! If spins fail repeatedly, as in an idle thread pool, most of them are left out. One in a few is
//! still tried, to detect a change. Source: our own.

/// After this many failed spins in a row a waiter leaves spins out.
pub(super) const PERSISTENCE: u8 = 8;
/// This many spins in a row are left out before the next try.
pub(super) const LEFT_OUT: u8 = 16;

/// The record of the spins of one thread, or at one place. A value of two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinPredictor {
    /// How many more spins may fail before spins are left out.
    left: u8,
    left_out: u8,
}

impl SpinPredictor {
    /// A predictor without a history.
    pub const NEW: SpinPredictor = SpinPredictor { left: PERSISTENCE, left_out: 0 };

    /// A predictor for one of many places, at most of which spins may be useless: only two spins
    /// are tried before spins are left out. A success changes that soon.
    pub const CAUTIOUS: SpinPredictor = SpinPredictor { left: 2, left_out: 0 };

    /// Decides whether to spin now.
    pub const fn decide_spin(&mut self) -> bool {
        if self.left == 0 && self.left_out < LEFT_OUT {
            self.left_out += 1;
            return false;
        }
        self.left_out = 0;
        true
    }

    /// Records a failed spin.
    pub const fn record_failure(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Records a successful spin.
    pub const fn record_success(&mut self) {
        self.left = if self.left + 2 > PERSISTENCE { PERSISTENCE } else { self.left + 2 };
    }

    /// Encodes the predictor as a word that can be shared; zero is [`SpinPredictor::NEW`].
    pub const fn word(self) -> u32 {
        (PERSISTENCE - self.left) as u32 | (self.left_out as u32) << 8
    }

    /// Decodes a word from [`SpinPredictor::word`]; any other word gives a valid predictor too.
    pub const fn from_word(word: u32) -> SpinPredictor {
        SpinPredictor { left: PERSISTENCE.saturating_sub(word as u8), left_out: (word >> 8) as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of this many spins is tried, if all that are tried fail.
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
    fn without_success_one_spin_in_seventeen_is_tried() {
        let mut predictor = SpinPredictor::NEW;
        assert_eq!(failing(&mut predictor, PERSISTENCE), [true; PERSISTENCE as usize]);
        for _ in 0..3 {
            assert_eq!(failing(&mut predictor, LEFT_OUT), [false; LEFT_OUT as usize]);
            assert_eq!(failing(&mut predictor, 1), [true]);
        }
    }

    #[test]
    fn a_cautious_predictor_tries_two_spins_until_one_succeeds() {
        let mut predictor = SpinPredictor::CAUTIOUS;
        assert_eq!(failing(&mut predictor, 3), [true, true, false]);
        (0..3).for_each(|_| predictor.record_success());
        assert_eq!(failing(&mut predictor, 7), [true, true, true, true, true, true, false]);
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
    fn a_word_round_trips_and_zero_is_new() {
        assert_eq!(SpinPredictor::from_word(0), SpinPredictor::NEW);
        let mut predictor = SpinPredictor::NEW;
        for _ in 0..40 {
            failing(&mut predictor, 1);
            assert_eq!(SpinPredictor::from_word(predictor.word()), predictor);
        }
    }
}
