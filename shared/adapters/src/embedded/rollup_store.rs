//! Part of the embedded node.
