//! Finds out who calls, before anything else looks at a request.

use super::{
    caller::{Caller, Unknown, counted},
    keyring::{Keyring, Permission},
};
use crate::{
    failure::Failure,
    grpc,
    http::render,
    reload::Current,
    router::{grpc_response, is_grpc},
};
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Extensions, HeaderMap, Response, header},
};
use futures::future::{Either, Ready, ready};
use quipu_adapters::clock::Clock;
use quipu_schemas::v1::counter_server;
use std::{
    net::IpAddr,
    task::{Context, Poll},
};
use tower::{Service, layer::layer_fn};

/// Who may call a server.
#[derive(Clone)]
pub enum Access {
    /// Anybody who reaches it.
    Anyone,
    /// Whoever brings a key.
    Keys {
        /// The keys, as their file declares them now.
        keys: Current<Keyring>,
        /// Tells when a key has ended.
        clock: Clock,
    },
}

/// The other end of the connection that a request came on.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

impl Access {
    fn caller(&self, headers: &HeaderMap) -> Caller {
        let Self::Keys { keys, clock } = self else {
            return Caller::Anyone;
        };
        match presented(headers) {
            Err(why) => Caller::Nobody(why),
            Ok(text) => match keys.get().find(text, clock.now()) {
                Ok(key) => Caller::Holder(key),
                Err(why) => Caller::Nobody(why.into()),
            },
        }
    }

    /// Who a caller is now.
    fn again(&self, caller: &Caller) -> Caller {
        let (Self::Keys { keys, clock }, Caller::Holder(key)) = (self, caller) else {
            return caller.clone();
        };
        match keys.get().find_again(key, clock.now()) {
            Ok(key) => Caller::Holder(key),
            Err(why) => Caller::Nobody(why.into()),
        }
    }
}

/// Who makes a call that lasts for longer than its key may.
pub(crate) struct LastingCaller {
    /// Where keys are asked for.
    access: Option<Access>,
    at_first: Caller,
}

impl LastingCaller {
    /// The caller of a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        Self {
            access: extensions.get::<Access>().cloned(),
            at_first: Caller::of(extensions),
        }
    }

    /// Who it is by the keys of this moment.
    pub(crate) fn now(&self) -> Caller {
        match &self.access {
            Some(access) => access.again(&self.at_first),
            None => self.at_first.clone(),
        }
    }
}

/// Puts the caller of each request beside it. Refuses here what needs no look into a call: gRPC
/// calls of nobody, before their messages are read, and metrics from afar without a key for them.
pub fn authenticated(router: Router, access: Access) -> Router {
    router.layer(layer_fn(move |inner| Authenticated {
        inner,
        access: access.clone(),
    }))
}

/// A service behind [`authenticated`]. Of its own, since a function as a middleware costs every
/// call several allocations.
#[derive(Clone)]
struct Authenticated<S> {
    inner: S,
    access: Access,
}

impl<S: Service<Request, Response = Response<Body>>> Service<Request> for Authenticated<S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let caller = self.access.caller(request.headers());
        if let Err(failure) = check(&caller, &request) {
            return Either::Right(ready(Ok(refuse(request.headers(), &failure))));
        }
        let extensions = request.extensions_mut();
        extensions.insert(caller);
        if let Access::Keys { .. } = self.access {
            extensions.insert(self.access.clone());
        }
        Either::Left(self.inner.call(request))
    }
}

fn check(caller: &Caller, request: &Request) -> Result<(), Failure> {
    let path = request.uri().path();
    if path == "/metrics" && !is_near(request.extensions()) {
        return caller.may_somewhere(Permission::Metrics);
    }
    let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match caller {
        Caller::Nobody(why)
            if service.is_some_and(|(name, _)| name == counter_server::SERVICE_NAME) =>
        {
            Err(counted(why.failure()))
        }
        _ => Ok(()),
    }
}

/// Whether a request came from this machine.
fn is_near(extensions: &Extensions) -> bool {
    let peer = extensions.get::<Peer>();
    peer.is_some_and(|Peer(address)| address.to_canonical().is_loopback())
}

/// What stands behind `authorization: Bearer`.
fn presented(headers: &HeaderMap) -> Result<&str, Unknown> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(Unknown::NoKey)?;
    if values.next().is_some() {
        return Err(Unknown::Invalid);
    }
    let (scheme, text) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or(Unknown::Invalid)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(text.trim_matches(' '))
    } else {
        Err(Unknown::Invalid)
    }
}

fn refuse(headers: &HeaderMap, failure: &Failure) -> Response<Body> {
    if is_grpc(headers) {
        grpc_response(&grpc::status(failure))
    } else {
        render(failure)
    }
}
