//! How far a job that is not active is lowered.

use std::fmt;
use std::str::FromStr;

use crate::ParseError;

/// How a thread of a job that is not active is lowered. Written as `nice 15` or `weight 2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Lowering {
    /// Its nice value is larger by this.
    Nice(u8),
    /// The group of its job has this weight, where 1024 is that of an active job.
    Weight(u16),
}

impl Lowering {
    /// The weight of the group of an active job: `NICE_0_LOAD` of Linux.
    pub const NORMAL_WEIGHT: u16 = 1024;
}

impl Default for Lowering {
    fn default() -> Lowering {
        Lowering::Nice(15)
    }
}

impl fmt::Display for Lowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lowering::Nice(steps) => f.pad(&format!("nice {steps}")),
            Lowering::Weight(weight) => f.pad(&format!("weight {weight}")),
        }
    }
}

impl FromStr for Lowering {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Lowering, ParseError> {
        let parse = || {
            let (what, number) = text.trim().split_once(' ')?;
            let number: u16 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
            match what {
                "nice" if (1..=39).contains(&number) => Some(Lowering::Nice(number as u8)),
                "weight" if (2..=1023).contains(&number) => Some(Lowering::Weight(number)),
                _ => None,
            }
        };
        parse().ok_or_else(|| {
            ParseError(format!("`{text}` is neither `nice 1` to `nice 39` nor `weight 2` to `weight 1023`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_lowering_parses_back() {
        let all = (1..=39).map(Lowering::Nice).chain((2..=1023).map(Lowering::Weight));
        for lowering in all.chain([Lowering::default()]) {
            assert_eq!(lowering.to_string().parse(), Ok(lowering));
        }
        assert_eq!(" weight 2 ".parse(), Ok(Lowering::Weight(2)));
        assert_eq!(Lowering::default().to_string(), "nice 15");
    }

    #[test]
    fn a_lowering_out_of_range_is_rejected() {
        for text in [
            "",
            "nice",
            "nice ",
            "weight",
            "nice 0",
            "nice 40",
            "nice -5",
            "nice +15",
            "nice 15.0",
            "nice 1 5",
            "nice15",
            "weight 0",
            "weight 1",
            "weight 1024",
            "weight 65538",
            "Nice 15",
            "15",
            "nice fifteen",
            "lower 15",
        ] {
            let error = text.parse::<Lowering>().unwrap_err().to_string();
            assert!(error.contains("`nice 1` to `nice 39` nor `weight 2` to `weight 1023`"), "{text}: {error}");
        }
    }
}
