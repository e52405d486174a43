#![doc = include_str!("soundness.md")]

pub mod interruption;
