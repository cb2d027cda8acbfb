//! The `quipu` binary.
fn main() {}
