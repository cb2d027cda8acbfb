//! Scripts: several steps of one key that nobody sees half done.

use fred::{
    clients::{Client, WithOptions},
    error::Error,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, FromValue, scripts::Script},
};

/// Where `EVAL` and `EVALSHA` have their key.
const KEY_AT: ClusterHash = ClusterHash::Offset(2);

/// Runs a script, which was made from its text, on one key.
pub(super) async fn run<R: FromValue>(
    client: &WithOptions<Client>,
    script: &Script,
    key: String,
    arguments: impl IntoIterator<Item = String> + Clone,
) -> Result<R, Error> {
    let call = |command, script: &str| {
        let head = [script.to_owned(), "1".to_owned(), key.clone()];
        let arguments: Vec<_> = head.into_iter().chain(arguments.clone()).collect();
        let command = CustomCommand::new_static(command, KEY_AT, false);
        client.custom::<R, _>(command, arguments)
    };
    match call("EVALSHA", script.sha1()).await {
        // A Redis that was started or flushed anew learns the script by running it. It has not run
        // it yet, so this sends nothing twice.
        Err(error) if error.details().starts_with("NOSCRIPT") => {
            let lua = script.lua().expect("it was made from its text");
            call("EVAL", lua).await
        }
        called => called,
    }
}
