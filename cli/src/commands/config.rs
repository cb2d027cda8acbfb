//! `quipu config`.

use super::{
    exit::{Exit, Failed},
    print,
};
use crate::args_cluster::{ConfigArgs, ConfigCommand};
use quipu_adapters::config::{Config, ConfigError};

/// Checks or prints the configuration.
pub(crate) fn run(command: ConfigCommand) -> Result<Exit, Failed> {
    match command {
        ConfigCommand::Check(args) => {
            load(&args)?;
            print(&"the configuration is valid; whether the cluster is: quipu admin check")?;
        }
        ConfigCommand::Print(args) => print(&load(&args)?.to_toml().trim_end())?,
    }
    Ok(Exit::Done)
}

fn load(args: &ConfigArgs) -> Result<Config, ConfigError> {
    let config = args.sources([]).load()?;
    config.check()?;
    Ok(config)
}

impl From<ConfigError> for Failed {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}
