//! Shared parts of the benchmarks of this package.
