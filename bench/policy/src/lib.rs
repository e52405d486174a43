//! This package has benchmarks only.
