//! Today: whether the advice of the barrier paper, to spin for a little more than twice CS while there are fewer threads than twice the
//! CPUs, holds on the kernels that came after it, and what should take its place.
//!
//! [`grid`] says what is run, [`answer`] what follows from it, [`text`] tells it to people, and [`plot`] draws it. Everything is simulated.

pub mod answer;
pub mod grid;
pub mod page;
pub mod plot;
pub mod text;

/// What it is called on the command line.
pub const NAME: &str = "barrier/today";

/// What it shows, in a sentence.
pub const SHOWS: &str = "Whether spinning for 2cs+ pays while there are fewer threads than twice the CPUs on the kernels since, and which rule is best.";

/// Where the advice is from.
pub const SOURCE: &str = "Tsafrir and Feitelson, section 6";

/// About how long it takes on two CPUs.
pub const TAKES: &str = "3 minutes";
