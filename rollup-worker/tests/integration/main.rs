//! The role against stores that fail, and clocks that do what clocks do.

mod sweep;
