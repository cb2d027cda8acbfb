//! The listeners of a role, until it stops.

use crate::process::{
    ProcessError, listen,
    threads::{Threads, until},
};
use axum::Router;
use quipu_gateway::{Limits, Transport};
use std::{
    io::{self, Write},
    net::SocketAddr,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// An address that was taken, before anything is answered on it.
pub(super) struct Taken {
    listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// Takes an address of the configuration.
pub(super) async fn take(text: &str, option: &'static str) -> Result<Taken, ProcessError> {
    let address = listen::address(text).map_err(|reason| ProcessError::Address {
        text: text.to_owned(),
        option,
        reason,
    })?;
    let (listener, address) = listen::bind(address, option).await?;
    Ok(Taken { listener, address })
}

/// Running listeners.
pub(super) struct Serving {
    stop: watch::Sender<bool>,
    listeners: Vec<JoinHandle<io::Result<()>>>,
}

impl Serving {
    /// Answers on addresses.
    pub(super) fn start(
        taken: Vec<Taken>,
        transport: &Transport,
        router: &Router,
        limits: Limits,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let serve = |taken: Taken| {
            let shutdown = until(stopped.clone());
            let (transport, router) = (transport.clone(), router.clone());
            let served = quipu_gateway::serve(taken.listener, transport, router, limits, shutdown);
            tokio::spawn(served)
        };
        Self {
            listeners: taken.into_iter().map(serve).collect(),
            stop,
        }
    }

    /// Takes no more calls, and waits for those under way.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        for listener in self.listeners {
            match listener.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a listener failed"),
                Err(error) => tracing::error!(%error, "a listener panicked"),
            }
        }
    }
}

/// Resolves when a role ended by itself, with the reason, or when the process is to stop.
pub(super) async fn until_stopped(
    roles: &mut Threads,
    stop: impl Future<Output = ()>,
) -> Option<ProcessError> {
    let failure = tokio::select! {
        failure = roles.failed() => Some(failure),
        () = stop => None,
    };
    tracing::info!("stopping");
    failure
}

/// Says where the role can be reached, for people and for scripts that asked for a free port.
pub(super) fn announce(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever closed standard output does not want to read this.
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
