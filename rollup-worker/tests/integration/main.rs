//! The role against stores that fail, and clocks that do what clocks do.

mod budget;
mod failing;
mod fixtures;
mod handover;
mod keeps_no_events;
mod parking;
mod signals;
mod sweep;
