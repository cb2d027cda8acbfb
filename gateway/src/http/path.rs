//! From a method and a raw path to a call. The path is taken apart before it is decoded, because
//! a counter's name may hold encoded slashes and colons.

use axum::http::Method;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// A call, with the names that its path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call<'p> {
    /// `GET /`: what can be called.
    Index,
    /// `GET /healthz/live`: whether the process lives.
    Live,
    /// `GET /healthz/ready`: whether calls can be answered.
    Ready,
    /// `GET /metrics`, as Prometheus reads them.
    Metrics,
    /// `GET /v1/openapi.json`
    OpenApi,
    /// `GET /v1/namespaces`
    ListNamespaces,
    /// `PUT /v1/namespaces/{ns}`
    ApplyNamespace(Cow<'p, str>),
    /// `GET /v1/namespaces/{ns}`
    ShowNamespace(Cow<'p, str>),
    /// `DELETE /v1/namespaces/{ns}`
    DeleteNamespace(Cow<'p, str>),
    /// `GET /v1/namespaces/{ns}/history`
    NamespaceHistory(Cow<'p, str>),
    /// `GET /v1/schemas/namespace`
    NamespaceSchema,
    /// `GET /v1/clusters`
    ListClusters,
    /// `PUT /v1/clusters/{name}`
    ApplyCluster(Cow<'p, str>),
    /// `GET /v1/clusters/{name}`
    ShowCluster(Cow<'p, str>),
    /// `GET /v1/schemas/cluster`
    ClusterSchema,
    /// `GET /v1/namespaces/{ns}/counters/{name}`
    Get(Counter<'p>),
    /// `POST /v1/namespaces/{ns}/counters/{name}:add`
    Add(Counter<'p>),
    /// `POST /v1/namespaces/{ns}/counters/{name}:addAndGet`
    AddAndGet(Counter<'p>),
    /// `POST /v1/namespaces/{ns}/counters/{name}:clear`
    Clear(Counter<'p>),
    /// `POST /v1/namespaces/{ns}/counters:batchAdd`
    BatchAdd(Cow<'p, str>),
    /// `POST /v1/namespaces/{ns}/counters:batchGet`
    BatchGet(Cow<'p, str>),
    /// `GET /v1/namespaces/{ns}/counters`
    ListCounters(Cow<'p, str>),
    /// `POST /v1/namespaces/{ns}/events:lookup`
    Lookup(Cow<'p, str>),
}

impl Call<'_> {
    /// The namespace whose counters it is about, if it is about any.
    pub(crate) fn counters_of(&self) -> Option<&str> {
        match self {
            Self::Get(counter)
            | Self::Add(counter)
            | Self::AddAndGet(counter)
            | Self::Clear(counter) => Some(&counter.namespace),
            Self::BatchAdd(namespace)
            | Self::BatchGet(namespace)
            | Self::ListCounters(namespace)
            | Self::Lookup(namespace) => Some(namespace),
            _ => None,
        }
    }
}

/// A counter's names, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter<'p> {
    pub(crate) namespace: Cow<'p, str>,
    pub(crate) name: Cow<'p, str>,
}

/// Why a request is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoCall {
    /// Nothing is there. The text says what may have been meant.
    NotFound(String),
    /// Something is there, but only for these methods.
    MethodNotAllowed(&'static str),
    /// A part of the path does not decode.
    Undecodable {
        /// Which field it is.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads a request's method and raw path.
pub(crate) fn parse<'p>(method: &Method, path: &'p str) -> Result<Call<'p>, NoCall> {
    // Hyper leaves the body out of an answer to HEAD.
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let fixed = match path {
        "/" => Some(Call::Index),
        "/healthz/live" => Some(Call::Live),
        "/healthz/ready" => Some(Call::Ready),
        "/metrics" => Some(Call::Metrics),
        "/v1/openapi.json" => Some(Call::OpenApi),
        "/v1/namespaces" => Some(Call::ListNamespaces),
        "/v1/schemas/namespace" => Some(Call::NamespaceSchema),
        "/v1/clusters" => Some(Call::ListClusters),
        "/v1/schemas/cluster" => Some(Call::ClusterSchema),
        _ => None,
    };
    if let Some(call) = fixed {
        return only(method, &Method::GET, "GET, HEAD").map(|()| call);
    }
    if let Some(name) = path.strip_prefix("/v1/clusters/") {
        let name = decode("cluster", name)?;
        return match method.as_str() {
            "PUT" => Ok(Call::ApplyCluster(name)),
            "GET" => Ok(Call::ShowCluster(name)),
            _ => Err(NoCall::MethodNotAllowed("GET, HEAD, PUT")),
        };
    }
    let Some(rest) = path.strip_prefix("/v1/namespaces/") else {
        return Err(NoCall::NotFound(format!(
            "there is no {path}; GET / lists the calls"
        )));
    };
    let (namespace, rest) = rest
        .split_once('/')
        .map_or((rest, None), |(ns, r)| (ns, Some(r)));
    let namespace = decode("namespace", namespace)?;
    match rest {
        None => match method.as_str() {
            "PUT" => Ok(Call::ApplyNamespace(namespace)),
            "GET" => Ok(Call::ShowNamespace(namespace)),
            "DELETE" => Ok(Call::DeleteNamespace(namespace)),
            _ => Err(NoCall::MethodNotAllowed("GET, HEAD, PUT, DELETE")),
        },
        Some("history") => {
            only(method, &Method::GET, "GET, HEAD").map(|()| Call::NamespaceHistory(namespace))
        }
        Some("counters") => {
            only(method, &Method::GET, "GET, HEAD").map(|()| Call::ListCounters(namespace))
        }
        Some("counters:batchAdd") => post(method).map(|()| Call::BatchAdd(namespace)),
        Some("counters:batchGet") => post(method).map(|()| Call::BatchGet(namespace)),
        Some("events:lookup") => post(method).map(|()| Call::Lookup(namespace)),
        Some(rest) => match rest.strip_prefix("counters/") {
            Some(counter) => counter_call(method, namespace, counter),
            None => Err(NoCall::NotFound(format!(
                "there is no {path}; a counter is at /v1/namespaces/{{ns}}/counters/{{name}}"
            ))),
        },
    }
}

fn counter_call<'p>(
    method: &Method,
    namespace: Cow<'p, str>,
    rest: &'p str,
) -> Result<Call<'p>, NoCall> {
    if method == Method::GET {
        let name = decode("counter_name", rest)?;
        return Ok(Call::Get(Counter { namespace, name }));
    }
    // The verb stands behind the last colon: a name may hold colons of its own.
    let (name, verb) = rest.rsplit_once(':').unwrap_or((rest, ""));
    if method != Method::POST {
        // Also a verb can be read: it is then the end of a name.
        return Err(NoCall::MethodNotAllowed(match verb {
            "add" | "addAndGet" | "clear" => "GET, HEAD, POST",
            _ => "GET, HEAD",
        }));
    }
    let counter = Counter {
        namespace,
        name: decode("counter_name", name)?,
    };
    match verb {
        "add" => Ok(Call::Add(counter)),
        "addAndGet" => Ok(Call::AddAndGet(counter)),
        "clear" => Ok(Call::Clear(counter)),
        _ => Err(NoCall::NotFound(
            "a POST to a counter ends in :add, :addAndGet or :clear".to_owned(),
        )),
    }
}

fn post(method: &Method) -> Result<(), NoCall> {
    only(method, &Method::POST, "POST")
}

fn only(method: &Method, expected: &Method, allow: &'static str) -> Result<(), NoCall> {
    if method == expected {
        Ok(())
    } else {
        Err(NoCall::MethodNotAllowed(allow))
    }
}

fn decode<'p>(field: &'static str, raw: &'p str) -> Result<Cow<'p, str>, NoCall> {
    let hex = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !raw.split('%').skip(1).all(hex) {
        let problem = "a % must be followed by two hexadecimal digits; write %25 for a % itself";
        return Err(NoCall::Undecodable { field, problem });
    }
    percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| NoCall::Undecodable {
            field,
            problem: "it does not decode to UTF-8; encode each byte of the UTF-8 text as %XX",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter<'p>(namespace: &'p str, name: &'p str) -> Counter<'p> {
        Counter {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn each_call_has_its_method_and_path() {
        for (method, path, call) in [
            ("GET", "/", Call::Index),
            ("HEAD", "/healthz/live", Call::Live),
            ("GET", "/healthz/ready", Call::Ready),
            ("GET", "/metrics", Call::Metrics),
            ("GET", "/v1/openapi.json", Call::OpenApi),
            ("GET", "/v1/namespaces", Call::ListNamespaces),
            ("PUT", "/v1/namespaces/a", Call::ApplyNamespace("a".into())),
            ("GET", "/v1/namespaces/a", Call::ShowNamespace("a".into())),
            (
                "DELETE",
                "/v1/namespaces/a",
                Call::DeleteNamespace("a".into()),
            ),
            (
                "GET",
                "/v1/namespaces/a/history",
                Call::NamespaceHistory("a".into()),
            ),
            ("GET", "/v1/schemas/namespace", Call::NamespaceSchema),
            ("GET", "/v1/schemas/cluster", Call::ClusterSchema),
            ("GET", "/v1/clusters", Call::ListClusters),
            ("PUT", "/v1/clusters/a", Call::ApplyCluster("a".into())),
            ("GET", "/v1/clusters/a", Call::ShowCluster("a".into())),
            (
                "GET",
                "/v1/namespaces/a/counters/b",
                Call::Get(counter("a", "b")),
            ),
            (
                "POST",
                "/v1/namespaces/a/counters/b:add",
                Call::Add(counter("a", "b")),
            ),
            (
                "POST",
                "/v1/namespaces/a/counters/b:addAndGet",
                Call::AddAndGet(counter("a", "b")),
            ),
            (
                "POST",
                "/v1/namespaces/a/counters/b:clear",
                Call::Clear(counter("a", "b")),
            ),
            (
                "POST",
                "/v1/namespaces/a/counters:batchAdd",
                Call::BatchAdd("a".into()),
            ),
            (
                "POST",
                "/v1/namespaces/a/counters:batchGet",
                Call::BatchGet("a".into()),
            ),
            (
                "GET",
                "/v1/namespaces/a/counters",
                Call::ListCounters("a".into()),
            ),
            (
                "POST",
                "/v1/namespaces/a/events:lookup",
                Call::Lookup("a".into()),
            ),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(parse(&method, path), Ok(call), "{method} {path}");
        }
    }

    #[test]
    fn names_may_hold_slashes_colons_and_any_text_once_encoded() {
        for (raw, name) in [
            ("a%2Fb:add", "a/b"),
            ("a/b:add", "a/b"),
            ("a:add:add", "a:add"),
            ("a%3Aclear:add", "a:clear"),
            ("%3A:add", ":"),
            ("%E2%9C%93%25:add", "✓%"),
            ("+%20:add", "+ "),
            (":add", ""),
        ] {
            let path = format!("/v1/namespaces/n/counters/{raw}");
            assert_eq!(
                parse(&Method::POST, &path),
                Ok(Call::Add(counter("n", name))),
                "{raw}"
            );
        }
        let get = parse(&Method::GET, "/v1/namespaces/n/counters/a:add");
        assert_eq!(
            get,
            Ok(Call::Get(counter("n", "a:add"))),
            "a GET has no verb"
        );
    }

    #[test]
    fn what_is_no_call_says_why() {
        let not_found = |method, path| matches!(parse(method, path), Err(NoCall::NotFound(_)));
        assert!(not_found(&Method::GET, "/v2"));
        assert!(not_found(&Method::GET, "/v1/namespaces/a/other"));
        assert!(not_found(&Method::POST, "/v1/namespaces/a/counters/b"));
        assert!(not_found(
            &Method::POST,
            "/v1/namespaces/a/counters/b:subtract"
        ));
        for (method, path, allow) in [
            (Method::POST, "/metrics", "GET, HEAD"),
            (Method::PUT, "/v1/namespaces/a/history", "GET, HEAD"),
            (Method::POST, "/v1/namespaces/a", "GET, HEAD, PUT, DELETE"),
            (Method::DELETE, "/v1/clusters/a", "GET, HEAD, PUT"),
            (Method::PUT, "/v1/clusters", "GET, HEAD"),
            (Method::PUT, "/v1/namespaces/a/counters/b", "GET, HEAD"),
            (Method::PUT, "/v1/namespaces/a/counters/b:c", "GET, HEAD"),
            (
                Method::PUT,
                "/v1/namespaces/a/counters/b:add",
                "GET, HEAD, POST",
            ),
            (Method::GET, "/v1/namespaces/a/counters:batchAdd", "POST"),
            (Method::GET, "/v1/namespaces/a/counters:batchGet", "POST"),
            (Method::POST, "/v1/namespaces/a/counters", "GET, HEAD"),
        ] {
            assert_eq!(
                parse(&method, path),
                Err(NoCall::MethodNotAllowed(allow)),
                "{path}"
            );
        }
        for path in [
            "/v1/namespaces/n/counters/%zz",
            "/v1/namespaces/n/counters/%f",
            "/v1/namespaces/n/counters/%ff",
        ] {
            let parsed = parse(&Method::GET, path);
            assert!(matches!(parsed, Err(NoCall::Undecodable { .. })), "{path}");
        }
    }
}
