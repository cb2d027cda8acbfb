//! Any bytes may arrive in the signals topic: each is a signal or an error that says why not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quipu_schemas::signal::{decode, encode};

fuzz_target!(|value: &[u8]| match decode(value) {
    Ok(signal) => {
        let again = decode(&encode(&signal)).expect("what was encoded can be decoded");
        assert_eq!(again, signal);
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
