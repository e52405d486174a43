#![doc = include_str!("interruption.md")]
