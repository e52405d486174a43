//! The ranks of a job: their start, their output, and their end.
