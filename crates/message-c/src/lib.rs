//! The messages of `rowlock-message` for C and C++.
//!
//! The header `include/rowlock_message.h` is generated from these modules, including their
//! comments. So the comments of exported items are written for C programmers, except for the
//! sections about safety, which the header does not have. The guide is the README.
//!
//! A mirror of the Rust interface with these differences. Messages are bytes; only a reduction
//! needs to know a type. Ranks and tags are signed, so that negative ones are found. A call that
//! ends a handle takes its address and stores NULL there, because a second use is then an error and
//! not a use of free memory. Requests and windows keep their communicator alive (see the module
//! `lent`).
//!
//! Pointers are as in `c-abi`. A panic aborts the program, since these functions do not unwind.
#![allow(unsafe_code)] // Linker names, C's memory, and borrows that C cannot express.
#![allow(unreachable_pub)] // Exported functions are reached by their linker names.

mod argument;
mod collective;
mod communicator;
mod failure;
mod join;
mod lent;
mod operation;
mod request;
mod window;

/// Any thread may use any handle.
const _: () = {
    const fn expect_shared<T: Send + Sync>() {}
    expect_shared::<communicator::Communicator>();
    expect_shared::<request::SendRequest>();
    expect_shared::<request::ReceiveRequest>();
    expect_shared::<window::Window>();
};
