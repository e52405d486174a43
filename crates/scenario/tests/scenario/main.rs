//! The integration tests of `scenario`, in one program.

mod bad;
mod document;
mod drawn;
mod round_trip;
