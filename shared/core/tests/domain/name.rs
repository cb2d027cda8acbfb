use quipu_core::name::{CounterName, ItemKey, NameError, Namespace, Token};

#[test]
fn a_namespace_is_taken_up_to_its_limits() {
    let longest = "a".repeat(63);
    for name in ["a", "z", "a0", "a-b_c-9", "a-", "a_", &longest] {
        assert_eq!(Namespace::new(name).expect(name).as_str(), name);
    }
}

#[test]
fn a_namespace_past_its_limits_is_refused_by_name() {
    let too_long = "a".repeat(64);
    for name in [
        "", "A", "aB", "0a", "-a", "_a", "a b", "a.b", "a/b", "é", "aé", "a\0", "a\n", &too_long,
    ] {
        let error = Namespace::new(name).expect_err(name);
        assert_eq!(error, NameError::Namespace(name.to_owned()));
        assert!(
            error.to_string().contains("[a-z][a-z0-9_-]{0,62}"),
            "{error}"
        );
    }
}

#[test]
fn a_refused_namespace_is_shown_cut_to_a_readable_length() {
    let error = Namespace::new(&"é".repeat(5_000)).expect_err("too long");
    assert_eq!(error, NameError::Namespace("é".repeat(80)));
}

#[test]
fn a_counter_name_is_measured_in_bytes() {
    let longest = ["x".repeat(1024), "é".repeat(512)];
    for name in ["x", " ", "/", "\u{1}", "日本", &longest[0], &longest[1]] {
        assert_eq!(CounterName::new(name).expect(name).as_str(), name);
    }
    let past = ["x".repeat(1025), format!("x{}", "é".repeat(512))];
    for name in [&past[0], &past[1]] {
        assert_eq!(CounterName::new(name), Err(NameError::CounterLength(1025)));
    }
    assert_eq!(CounterName::new(""), Err(NameError::CounterLength(0)));
}

#[test]
fn a_counter_name_holds_no_nul_anywhere() {
    for (name, at) in [("\0", 0), ("a\0b", 1), ("é\0", 2)] {
        assert_eq!(CounterName::new(name), Err(NameError::CounterNul(at)));
    }
}

#[test]
fn two_normal_forms_of_one_word_are_two_counters() {
    let composed = CounterName::new("caf\u{e9}").expect("a valid name");
    let decomposed = CounterName::new("cafe\u{301}").expect("a valid name");
    assert_ne!(composed, decomposed);
}

#[test]
fn a_token_has_1_to_128_bytes() {
    let (longest, too_long) = ("é".repeat(64), "t".repeat(129));
    for token in ["t", "\0", &longest] {
        assert_eq!(Token::new(token).expect(token).as_str(), token);
    }
    assert_eq!(Token::new(""), Err(NameError::TokenLength(0)));
    assert_eq!(Token::new(&too_long), Err(NameError::TokenLength(129)));
}

#[test]
fn an_item_key_has_up_to_128_bytes() {
    let (longest, too_long) = ("k".repeat(128), "k".repeat(129));
    for key in ["", "k", &longest] {
        assert_eq!(ItemKey::new(key).expect(key).as_str(), key);
    }
    assert_eq!(ItemKey::new(&too_long), Err(NameError::ItemKeyLength(129)));
}

#[test]
fn errors_say_what_the_limit_is() {
    for (error, parts) in [
        (NameError::CounterLength(1025), ["1025", "1024"]),
        (NameError::CounterNul(7), ["U+0000", "byte 7"]),
        (NameError::TokenLength(0), ["0 bytes", "128"]),
        (NameError::ItemKeyLength(129), ["129", "128"]),
    ] {
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
