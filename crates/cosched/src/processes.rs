//! The processes of a job: which there are, and stopping and continuing them.
