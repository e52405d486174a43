//! Fiber-local storage.

/// The values of one fiber.
#[derive(Default)]
pub(crate) struct Locals;
