#![doc = include_str!("soundness.md")]
