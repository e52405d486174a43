//! The mesh of cells that this machine is: cores in domains of a common cache.
