//! Who asks for the change of a namespace, and which version they expect in force: from headers.

use crate::{
    auth::Caller,
    failure::{Failure, reason},
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use quipu_adapters::ports::ChangeRequest;
use quipu_schemas::namespace::Author;

/// Who makes the change.
const AUTHOR: HeaderName = HeaderName::from_static("quipu-author");

/// Reads the headers of a change. Who brings a key makes it by that key, whatever name it says.
pub(super) fn request(caller: &Caller, headers: &HeaderMap) -> Result<ChangeRequest, Failure> {
    let refuse = |header: &HeaderName, problem: String| {
        let message = format!("header {header}: {problem}");
        Failure::invalid(reason::INVALID_FIELD, message).at(header.as_str())
    };
    let author = match one(headers, &AUTHOR).map_err(|problem| refuse(&AUTHOR, problem))? {
        Some(value) => {
            let name = str::from_utf8(value.as_bytes()).map_err(|_| {
                let problem = "it is not UTF-8; encode the author's name in UTF-8".to_owned();
                refuse(&AUTHOR, problem)
            })?;
            Author::new(name).map_err(|error| refuse(&AUTHOR, error.to_string()))?
        }
        None => Author::default(),
    };
    let author = match caller.key_id() {
        Some(id) => author.with_key(id),
        None => author,
    };
    let expected = |name| -> Result<Option<u64>, Failure> {
        let value = one(headers, &name).map_err(|problem| refuse(&name, problem))?;
        let version = value.map(|value| version(&name, value)).transpose();
        version.map_err(|problem| refuse(&name, problem))
    };
    let if_version = match (
        expected(header::IF_MATCH)?,
        expected(header::IF_NONE_MATCH)?,
    ) {
        (Some(_), Some(_)) => {
            let problem = "if-match is given as well; give one of the two".to_owned();
            return Err(refuse(&header::IF_NONE_MATCH, problem));
        }
        (version, absent) => version.or(absent),
    };
    Ok(ChangeRequest { author, if_version })
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err("it is given twice; give it once".to_owned()),
        (value, None) => Ok(value),
    }
}

/// The version that a condition names; 0 where there must be none.
fn version(name: &HeaderName, value: &HeaderValue) -> Result<u64, String> {
    let text = String::from_utf8_lossy(value.as_bytes());
    if *name == header::IF_NONE_MATCH {
        return match text.trim() {
            "*" => Ok(0),
            other => Err(format!(
                "{other:?} is not supported; * asks that the namespace does not exist"
            )),
        };
    }
    let bare = text.trim();
    let bare = bare
        .strip_prefix('"')
        .and_then(|bare| bare.strip_suffix('"'))
        .unwrap_or(bare);
    let digits = bare.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = bare.parse().ok().filter(|_| digits);
    parsed.ok_or_else(|| {
        format!("{text:?} is no version; give one etag of this namespace, such as \"3\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&'static str, &'static [u8])]) -> Result<ChangeRequest, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let value = HeaderValue::from_bytes(value).unwrap();
            headers.append(*name, value);
        }
        request(&Caller::Anyone, &headers)
    }

    #[test]
    fn the_author_and_the_version_are_read() {
        assert_eq!(read(&[]).unwrap(), ChangeRequest::default());
        let author = read(&[("quipu-author", "zoë@laptop".as_bytes())])
            .unwrap()
            .author;
        assert_eq!(author.as_str(), "zoë@laptop");
        for (name, value, version) in [
            ("if-match", &b"\"17\""[..], 17),
            ("if-match", b"17", 17),
            ("if-match", b"0", 0),
            ("if-none-match", b"*", 0),
        ] {
            assert_eq!(read(&[(name, value)]).unwrap().if_version, Some(version));
        }
    }

    #[test]
    fn headers_that_say_nothing_clear_are_refused_by_their_names() {
        let long = "x".repeat(129).leak().as_bytes();
        for (given, named) in [
            (&[("quipu-author", &b""[..])][..], "quipu-author"),
            (&[("quipu-author", long)], "quipu-author"),
            (&[("quipu-author", b"zo\xeb")], "quipu-author"),
            (&[("quipu-author", b"key:root ana")], "quipu-author"),
            (
                &[("quipu-author", b"a"), ("quipu-author", b"b")],
                "quipu-author",
            ),
            (&[("if-match", b"W/\"3\"")], "if-match"),
            (&[("if-match", b"*")], "if-match"),
            (&[("if-match", b"+3")], "if-match"),
            (&[("if-match", b"\"1\", \"2\"")], "if-match"),
            (&[("if-match", b"99999999999999999999")], "if-match"),
            (&[("if-none-match", b"\"3\"")], "if-none-match"),
            (
                &[("if-match", b"3"), ("if-none-match", b"*")],
                "if-none-match",
            ),
        ] {
            let failure = read(given).unwrap_err();
            assert_eq!(failure.field.as_deref(), Some(named), "{failure:?}");
        }
    }
}
