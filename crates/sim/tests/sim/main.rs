//! The simulated machine, seen from outside: small cases by hand, laws, and golden outcomes.

mod eevdf;
mod golden;
mod laws;
mod rr;
mod rules;
mod timeline;
