//! What a build without the distributed roles says when it is asked for one.

use crate::{
    args_certify::CertifyArgs,
    args_cluster::Role,
    args_import::ImportArgs,
    commands::exit::{Exit, Failed},
};
use quipu_adapters::config::Config;
use std::future::{Ready, ready};

/// Refuses, and says how to build what it needs.
pub(crate) fn import(_: ImportArgs, _: Config) -> Ready<Result<Exit, Failed>> {
    refuse("import --kafka")
}

/// Refuses, and says how to build what it needs.
pub(crate) fn certify(_: CertifyArgs, _: Config) -> Ready<Result<Exit, Failed>> {
    refuse("admin certify")
}

/// Refuses, and says how to build the roles.
pub(crate) fn run(role: Role, _: Config, _: Option<String>) -> Ready<Result<Exit, Failed>> {
    refuse(&match role {
        Role::Gateway => "gateway".to_owned(),
        Role::Ingest => "ingest".to_owned(),
        Role::RollupWorker => "rollup-worker".to_owned(),
        Role::Setup => "admin setup".to_owned(),
        Role::Check => "admin check".to_owned(),
        Role::AddPartitions { total } => format!("admin add-partitions --total {total}"),
        Role::SetFrontier(_) => "admin set-frontier".to_owned(),
        Role::CapTime(_) => "admin cap-time".to_owned(),
    })
}

fn refuse(command: &str) -> Ready<Result<Exit, Failed>> {
    let message = format!(
        "this quipu was built without the distributed roles, so it has no `quipu {command}`; build \
         one that has: cargo build --release --features cluster"
    );
    ready(Err(Failed::new(Exit::Usage, message)))
}
