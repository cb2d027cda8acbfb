//! Who makes a call.

use super::keyring::{Key, NoKey, Permission};
use crate::{
    failure::{Failure, reason},
    names,
};
use ::metrics::counter;
use axum::http::Extensions;
use std::{fmt, sync::Arc};
use tonic::Code;

/// Who makes a call, as [`super::authenticated`] found out.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Anybody, on a server that asks for no keys.
    Anyone,
    /// Whoever holds this key.
    Holder(Arc<Key>),
    /// Nobody who is known, and why.
    Nobody(Unknown),
}

/// Why a caller is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It sent no key.
    NoKey,
    /// It sent what is no key.
    Invalid,
    /// Its key has ended.
    Expired,
}

impl From<NoKey> for Unknown {
    fn from(why: NoKey) -> Self {
        match why {
            NoKey::Invalid => Self::Invalid,
            NoKey::Expired => Self::Expired,
        }
    }
}

impl Unknown {
    pub(super) fn failure(self) -> Failure {
        match self {
            Self::NoKey => Failure::new(
                Code::Unauthenticated,
                reason::API_KEY_MISSING,
                "this server asks for an API key: send the header authorization: Bearer quipu_…",
            ),
            Self::Invalid => Failure::new(
                Code::Unauthenticated,
                reason::API_KEY_INVALID,
                "this is no API key of this server: check that it was copied whole and is still in \
                 its file of keys",
            ),
            Self::Expired => Failure::new(
                Code::Unauthenticated,
                reason::API_KEY_EXPIRED,
                "this API key has ended: ask for a new one",
            ),
        }
    }
}

impl Caller {
    /// The caller of a request. One that nobody authenticated is nobody's.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let caller = extensions.get::<Self>();
        caller.cloned().unwrap_or(Self::Nobody(Unknown::NoKey))
    }

    /// Whether it may do this in a namespace, which need not exist: nobody learns from the answer
    /// whether it does.
    pub(crate) fn may(&self, permission: Permission, namespace: &str) -> Result<(), Failure> {
        self.may_somewhere(permission)?;
        if self.covers(namespace) {
            return Ok(());
        }
        Err(self.refused(&format!("is not for the namespace {namespace:?}")))
    }

    /// Whether it may do this in any namespace at all.
    pub(crate) fn may_somewhere(&self, permission: Permission) -> Result<(), Failure> {
        match self {
            Self::Anyone => Ok(()),
            Self::Holder(key) if key.allows(permission) => Ok(()),
            Self::Holder(_) => {
                Err(self.refused(&format!("does not have the permission {permission:?}")))
            }
            Self::Nobody(why) => Err(counted(why.failure())),
        }
    }

    /// Whether it may do this in every namespace there could be.
    pub(crate) fn may_everywhere(&self, permission: Permission) -> Result<(), Failure> {
        self.may_somewhere(permission)?;
        match self {
            Self::Holder(key) if !key.covers_all() => {
                Err(self.refused("is not for all namespaces (\"*\")"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a namespace is one of its own.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Holder(key) => key.covers(namespace),
            Self::Nobody(_) => false,
        }
    }

    /// The id of the key that it holds.
    pub(crate) fn key_id(&self) -> Option<&str> {
        match self {
            Self::Holder(key) => Some(&key.id),
            Self::Anyone | Self::Nobody(_) => None,
        }
    }

    fn refused(&self, why: &str) -> Failure {
        let message = format!("{self} {why}: ask for a key that may");
        counted(Failure::new(
            Code::PermissionDenied,
            reason::NOT_ALLOWED,
            message,
        ))
    }
}

pub(super) fn counted(failure: Failure) -> Failure {
    counter!(names::DENIED, "reason" => failure.reason).increment(1);
    failure
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => write!(f, "anyone"),
            Self::Holder(key) => write!(f, "the API key {:?}", key.id),
            Self::Nobody(_) => write!(f, "nobody"),
        }
    }
}
