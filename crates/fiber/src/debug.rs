//! Views of fibers for people: [dumps](crate::dump()) with backtraces, and tables for gdb. Nothing
//! that runs fibers depends on them.

#[allow(unsafe_code)] // It reads what blocked fibers wait for, and their stacks.
pub(crate) mod dump;
#[allow(unsafe_code)] // It exports symbols.
pub(crate) mod gdb;
#[allow(unsafe_code)] // It explains what a handler has found.
pub(crate) mod overflow;
#[allow(unsafe_code)] // It reads a stack that was left.
pub(crate) mod trace;
