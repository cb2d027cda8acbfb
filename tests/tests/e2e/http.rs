//! The API over HTTP/JSON.

use serde_json::{Value, json};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};
use ureq::{Agent, Error, http::Request};

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Api {
    agent: Agent,
    base: String,
}

impl Api {
    pub(crate) fn new(base: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(20)));
        Self {
            agent: config.build().into(),
            base: base.to_owned(),
        }
    }

    /// A request with a JSON body, or text that should have been one.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<(u16, Value), Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", content_type);
        let mut response = self.agent.run(request.body(body).map_err(Error::Http)?)?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string()?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok((status, body))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<(u16, Value), Error> {
        let body = body.to_string().into_bytes();
        self.send("POST", path, "application/json", body)
    }

    pub(crate) fn get(&self, path: &str) -> Result<(u16, Value), Error> {
        self.send("GET", path, "application/json", Vec::new())
    }

    /// Creates or changes a namespace.
    pub(crate) fn put_namespace(&self, namespace: &str, accept_limit: &str) {
        let document =
            json!({"namespace": namespace, "accept_limit": accept_limit, "max_future": "1s"});
        let path = format!("/v1/namespaces/{namespace}");
        let body = document.to_string().into_bytes();
        let answer = self.send("PUT", &path, "application/json", body);
        let (status, body) = answer.expect("the server answers");
        assert_eq!(status, 200, "{body}");
    }

    /// A count, and through when it is complete, in microseconds.
    pub(crate) fn count(&self, namespace: &str, counter: &str) -> Result<(i128, i64), Error> {
        let (status, body) = self.get(&counter_path(namespace, counter))?;
        assert_eq!(status, 200, "{body}");
        Ok(reading(&body))
    }

    /// Waits until a count is complete through a moment, for as long as it comes closer.
    pub(crate) fn count_through(&self, namespace: &str, counter: &str, through: i64) -> i128 {
        let mut newest = (i64::MIN, Instant::now());
        loop {
            let (count, complete) = self.count(namespace, counter).expect("the server answers");
            if complete >= through {
                return count;
            }
            if complete > newest.0 {
                newest = (complete, Instant::now());
            }
            assert!(
                newest.1.elapsed() < Duration::from_mins(1),
                "{counter} is {count} and complete through {complete} only, not {through}"
            );
            sleep(Duration::from_millis(50));
        }
    }
}

/// The path of a counter.
pub(crate) fn counter_path(namespace: &str, counter: &str) -> String {
    let counter = counter.replace('/', "%2F");
    format!("/v1/namespaces/{namespace}/counters/{counter}")
}

/// The count and the time of an answer.
pub(crate) fn reading(body: &Value) -> (i128, i64) {
    let count = body["count"].as_str().expect("a count is a string");
    let through = body["complete_through"].as_str().expect("a time");
    let through = quipu_schemas::timestamp::from_rfc3339(through).expect("a time");
    (count.parse().expect("a count is a number"), through.get())
}

/// The code and the reason of an error.
pub(crate) fn error_of(body: &Value) -> (String, String) {
    let error = &body["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let details = error["details"].as_array();
    let reason = details.and_then(|details| details.iter().find_map(|one| one.get("reason")));
    (text(&error["code"]), reason.map(text).unwrap_or_default())
}
