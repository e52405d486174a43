//! The simulated machine, seen from outside: small cases by hand, laws, and golden outcomes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod alone;
mod eevdf;
mod extremes;
mod fingerprint;
mod golden;
mod laws;
mod linux_2_4;
mod lock;
mod rr;
mod rules;
mod timeline;
