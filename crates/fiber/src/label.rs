//! How a fiber is called in messages.

use std::fmt;

use crate::record::Fiber;

/// Identifies a fiber to people: its number, which is reused when it has ended and its handle is
/// gone, and its name, if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FiberLabel {
    /// The first fiber has number 0.
    pub number: u32,
    /// See [`Builder::name`](crate::Builder::name).
    pub name: Option<Box<str>>,
}

impl FiberLabel {
    pub(crate) fn of(fiber: Fiber) -> FiberLabel {
        FiberLabel { number: fiber.number, name: fiber.name().map(Box::from) }
    }
}

impl fmt::Display for FiberLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fiber {}", self.number)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " `{name}`"))
    }
}
