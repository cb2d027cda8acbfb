//! From flags, the environment and a file to one configuration.

use super::{
    Config, ConfigError,
    keys::{Key, keys, nearest, variable},
};
use figment::{
    Error, Figment, Metadata, Profile, Provider,
    error::Kind,
    providers::Serialized,
    value::{Dict, Map, Value},
};
use std::{fs, path::PathBuf};

/// Where settings come from. What stands in an earlier field goes before what stands in a later.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Keys with their values, as flags of the command line give them.
    pub flags: Vec<(&'static str, String)>,
    /// Environment variables; only those of keys are looked at.
    pub environment: Vec<(String, String)>,
    /// A TOML file.
    pub file: Option<PathBuf>,
}

/// One source, as figment takes it.
struct Layer {
    name: String,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok([(Profile::Default, self.values.clone())].into())
    }
}

impl Sources {
    /// Puts all sources together.
    ///
    /// # Errors
    /// For a file that cannot be read, a key that does not exist, and a value of a wrong type.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let known = keys();
        let mut merged = Figment::from(Serialized::defaults(Config::default()));
        if let Some(layer) = self.file_layer(&known)? {
            merged = merged.merge(layer);
        }
        refuse_unknown_variables(&known, &self.environment)?;
        for key in &known {
            let name = variable(&key.path);
            let set = self
                .environment
                .iter()
                .find(|(variable, _)| *variable == name);
            if let Some((_, text)) = set {
                merged = merged.merge(one(format!("the variable {name}"), key, text)?);
            }
        }
        for (path, text) in &self.flags {
            let key = known.iter().find(|key| key.path == *path);
            let key = key.expect("flags are of keys that exist");
            merged = merged.merge(one("the command line".to_owned(), key, text)?);
        }
        merged.extract().map_err(explain)
    }

    fn file_layer(&self, known: &[Key]) -> Result<Option<Layer>, ConfigError> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let text = fs::read_to_string(path).map_err(|error| ConfigError::Read {
            path: path.clone(),
            error,
        })?;
        let syntax = |problem: String| ConfigError::Syntax {
            path: path.clone(),
            problem,
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| syntax(error.to_string().trim_end().to_owned()))?;
        let values = Value::serialize(table).map_err(|error| syntax(error.to_string()))?;
        let values = values.into_dict().unwrap_or_default();
        let name = path.display().to_string();
        refuse_unknown_keys(known, &name, "", &values)?;
        Ok(Some(Layer { name, values }))
    }
}

/// A layer of one key, whose text is read as the key's kind.
fn one(origin: String, key: &Key, text: &str) -> Result<Layer, ConfigError> {
    let wrong = |problem: String| ConfigError::Value {
        key: key.path.clone(),
        origin: Some(origin.clone()),
        problem,
    };
    let words = || {
        text.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
    };
    let value = match &key.default {
        Value::Num(..) => {
            let number: Result<i64, _> = text.trim().parse();
            Value::from(number.map_err(|error| wrong(format!("{text:?} is no number: {error}")))?)
        }
        Value::Bool(..) => {
            let yes: Result<bool, _> = text.trim().parse();
            Value::from(yes.map_err(|_| wrong(format!("{text:?} is neither true nor false")))?)
        }
        Value::Array(..) => Value::from(words().map(Value::from).collect::<Vec<_>>()),
        Value::Dict(..) => {
            let pairs = words().map(|word| match word.split_once('=') {
                Some((name, value)) => Ok((name.trim().to_owned(), Value::from(value.trim()))),
                None => Err(wrong(format!("{word:?} is not NAME=VALUE"))),
            });
            Value::from(pairs.collect::<Result<Dict, _>>()?)
        }
        _ => Value::from(text),
    };
    let values = figment::util::nest(&key.path, value);
    Ok(Layer {
        name: origin,
        values: values.into_dict().expect("a path has a section"),
    })
}

fn refuse_unknown_keys(
    known: &[Key],
    origin: &str,
    parent: &str,
    table: &Dict,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let path = format!("{parent}{name}");
        if known.iter().any(|key| key.path == path) {
            continue;
        }
        let below = format!("{path}.");
        let is_table = known.iter().any(|key| key.path.starts_with(&below));
        match value {
            Value::Dict(_, inner) if is_table => {
                refuse_unknown_keys(known, origin, &below, inner)?;
            }
            // What is wrong with it is its type.
            _ if is_table => {}
            _ => {
                return Err(ConfigError::UnknownKey {
                    origin: origin.to_owned(),
                    nearest: nearest(&path, known.iter().map(|key| key.path.clone())),
                    key: path,
                });
            }
        }
    }
    Ok(())
}

/// A variable that begins like one of ours is a mistake, and would otherwise change nothing.
fn refuse_unknown_variables(
    known: &[Key],
    environment: &[(String, String)],
) -> Result<(), ConfigError> {
    let variables = || known.iter().map(|key| variable(&key.path));
    for (name, _) in environment {
        let ours = known.iter().any(|key| {
            let section = key.path.split('.').next().unwrap_or_default();
            name.starts_with(&format!("{}_", variable(section)))
        });
        if ours && !is_service_link(name) && !variables().any(|variable| variable == *name) {
            return Err(ConfigError::UnknownKey {
                origin: "the environment".to_owned(),
                key: name.clone(),
                nearest: nearest(name, variables()),
            });
        }
    }
    Ok(())
}

/// Kubernetes sets these for a service that is called `quipu-gateway`, unasked.
fn is_service_link(name: &str) -> bool {
    name.ends_with("_PORT")
        || name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.contains("_PORT_")
}

fn explain(error: Error) -> ConfigError {
    let key = error.path.join(".");
    let origin = error
        .metadata
        .as_ref()
        .map(|origin| origin.name.to_string());
    let problem = match error.kind {
        Kind::Message(message) => message,
        kind => kind.to_string(),
    };
    ConfigError::Value {
        key,
        origin,
        problem,
    }
}
