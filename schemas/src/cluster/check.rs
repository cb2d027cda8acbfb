//! What no type checks: names that become parts of other names, and addresses without secrets.

use super::{ClusterDocument, DEFAULT_CLUSTER, KAFKA_PROPERTIES};
use crate::namespace::DocumentError;

impl ClusterDocument {
    /// Checks what no type can: names and addresses.
    ///
    /// # Errors
    /// Names the field, and what it may be.
    pub fn check(&self) -> Result<(), DocumentError> {
        if let Err(problem) = check_cluster_name(&self.cluster) {
            return refuse("cluster", problem);
        }
        let in_topics = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
        let prefix = &self.kafka.topic_prefix;
        if !(1..=100).contains(&prefix.len()) || !prefix.bytes().all(in_topics) {
            let problem = format!("{prefix:?} is not 1 to 100 letters, digits, '.', '_' or '-'");
            return refuse("kafka.topic_prefix", problem);
        }
        let keyspace = &self.cassandra.keyspace;
        check_identifier("cassandra.keyspace", keyspace, 48)?;
        if let Some(name) = &self.dataset.name {
            check_identifier("dataset.name", name, 20)?;
        }
        let prefix = self.key_prefix();
        if !(1..=100).contains(&prefix.len()) || prefix.contains(['{', '}', ':']) {
            let problem = format!("{prefix:?} is not 1 to 100 bytes without '{{', '}}' and ':'");
            return refuse("redis.key_prefix", problem);
        }
        self.check_properties()?;
        self.check_addresses()
    }

    fn check_properties(&self) -> Result<(), DocumentError> {
        let mut names = self.kafka.properties.keys();
        match names.find(|name| !KAFKA_PROPERTIES.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => refuse(
                &format!("kafka.properties.{name}"),
                format!(
                    "a document may set {} only; a password stands in the file that \
                     kafka.sasl_password_file names, and other properties in the configuration of \
                     each role",
                    KAFKA_PROPERTIES.join(", ")
                ),
            ),
        }
    }

    fn check_addresses(&self) -> Result<(), DocumentError> {
        let (kafka, cassandra, redis) = (&self.kafka, &self.cassandra, &self.redis);
        for (field, list, password) in [
            ("kafka.brokers", &kafka.brokers, "kafka.sasl_password_file"),
            (
                "cassandra.contact_points",
                &cassandra.contact_points,
                "cassandra.password_file",
            ),
            ("redis.replicas", &redis.replicas, "redis.password_file"),
        ] {
            let list = list.iter().flatten();
            for (at, address) in list.enumerate() {
                check_address(&format!("{field}[{at}]"), address, password)?;
            }
        }
        for (field, list) in [
            ("kafka.brokers", &kafka.brokers),
            ("cassandra.contact_points", &cassandra.contact_points),
        ] {
            if list.as_ref().is_some_and(Vec::is_empty) {
                let problem = "name at least one, as HOST:PORT, or leave it out".to_owned();
                return refuse(field, problem);
            }
        }
        match &redis.address {
            Some(address) => check_address("redis.address", address, "redis.password_file"),
            None => Ok(()),
        }
    }
}

/// Checks the name of a cluster that is to be declared. The text says what it may be.
pub fn check_cluster_name(name: &str) -> Result<(), String> {
    if name == DEFAULT_CLUSTER {
        return Err("default is what the server's own configuration says; use another name".into());
    }
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let goes_on_well =
        bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    if starts_well && goes_on_well && name.len() <= 63 {
        return Ok(());
    }
    Err(format!(
        "{name:?} must start with a lower-case letter, go on with lower-case letters, digits, '_' \
         or '-', and have at most 63 bytes"
    ))
}

fn check_identifier(field: &str, name: &str, most: usize) -> Result<(), DocumentError> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let goes_on_well = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if starts_well && goes_on_well && name.len() <= most {
        return Ok(());
    }
    let problem = format!(
        "{name:?} must start with a lower-case letter, go on with lower-case letters, digits or \
         '_', and have at most {most} bytes"
    );
    refuse(field, problem)
}

/// An address is no URL: that could hold a password. The text does not repeat it.
fn check_address(field: &str, address: &str, password: &str) -> Result<(), DocumentError> {
    if address.contains("://") || address.contains(['@', '/']) {
        let problem = format!(
            "write HOST:PORT, and no URL: a password stands in a file on the machine of each role, \
             which {password} names"
        );
        return refuse(field, problem);
    }
    let port = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    if matches!(port, Some(Ok(_))) {
        return Ok(());
    }
    refuse(field, format!("{address:?} is not HOST:PORT"))
}

fn refuse<T>(field: &str, problem: String) -> Result<T, DocumentError> {
    Err(DocumentError {
        field: field.to_owned(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(fields: &str) -> DocumentError {
        let json = format!(r#"{{"cluster": "billing", {fields}}}"#);
        ClusterDocument::from_json(json.as_bytes()).expect_err("refused")
    }

    fn with(kafka: &str, cassandra: &str, more: &str) -> String {
        format!(
            r#""kafka": {{"topic_prefix": "billing-"{kafka}}},
               "cassandra": {{"keyspace": "quipu_billing"{cassandra}}}{more}"#
        )
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (fields, named) in [
            (with(r#", "broker": []"#, "", ""), "kafka.broker"),
            (with(r#", "brokers": []"#, "", ""), "kafka.brokers"),
            (with(r#", "brokers": ["a"]"#, "", ""), "kafka.brokers[0]"),
            (
                with(r#", "properties": {"sasl.password": "x"}"#, "", ""),
                "kafka.properties.sasl.password",
            ),
            (with(r#", "retention": 5"#, "", ""), "kafka.retention"),
            (with("", r#", "password": "x""#, ""), "cassandra.password"),
            (
                with("", "", r#", "redis": {"key_prefix": "a{b}"}"#),
                "redis.key_prefix",
            ),
            (
                with("", "", r#", "dataset": {"name": "A"}"#),
                "dataset.name",
            ),
            (
                with("", "", r#", "dataset": {"retention": "90 parsecs"}"#),
                "dataset.retention",
            ),
            (with("", "", r#", "gateway": {}"#), "gateway"),
        ] {
            let error = refusal(&fields);
            assert_eq!(error.field, named, "{error}");
        }
        let upper = with("", "", "").replace("quipu_billing", "Quipu");
        assert_eq!(refusal(&upper).field, "cassandra.keyspace");
        let slash = with("", "", "").replace("billing-", "a/b");
        assert_eq!(refusal(&slash).field, "kafka.topic_prefix");
    }

    #[test]
    fn an_address_with_a_password_is_refused_with_the_fix_and_not_repeated() {
        for fields in [
            with(r#", "brokers": ["a:1", "u:hunter2@b:2"]"#, "", ""),
            with("", r#", "contact_points": ["u:hunter2@b:2"]"#, ""),
            with(
                "",
                "",
                r#", "redis": {"address": "redis://:hunter2@b:6379/1"}"#,
            ),
        ] {
            let error = refusal(&fields).to_string();
            assert!(error.contains("password_file"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_name_is_its_own() {
        assert_eq!(check_cluster_name("billing-eu_2"), Ok(()));
        for name in ["", "default", "A", "2a", "a.b", &"a".repeat(64)] {
            assert!(check_cluster_name(name).is_err(), "{name}");
        }
    }
}
