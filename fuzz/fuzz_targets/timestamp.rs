//! Any text may be given as a time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quipu_core::time::Micros;
use quipu_schemas::timestamp::{from_proto, from_rfc3339, to_proto, to_rfc3339};

fuzz_target!(|text: &str| match from_rfc3339(text) {
    Ok(time) => {
        assert!(time >= Micros::EARLIEST, "{text:?} is before the year 1");
        assert_eq!(from_rfc3339(&to_rfc3339(time)), Ok(time));
        assert_eq!(from_proto(&to_proto(time)), Ok(time));
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
