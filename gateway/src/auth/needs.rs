//! What each call over HTTP needs, in one table.

use super::{
    Caller,
    Permission::{self, Admin, Read, Write},
};
use crate::{
    failure::Failure,
    http::{Call, Counter},
};

/// What a call needs.
enum Needs<'a> {
    /// Nothing: it tells nothing of anybody's data.
    Nothing,
    /// Permissions in a namespace.
    In(&'a str, &'static [Permission]),
    /// A permission in every namespace there could be.
    Everywhere(Permission),
    /// A permission in any namespace; the answer shows those that the caller covers.
    Somewhere(Permission),
}

/// Every call has its row: one without does not compile.
fn needs<'a>(call: &'a Call<'_>) -> Needs<'a> {
    match call {
        // Metrics were decided before: they are answered while there is no gateway, too.
        Call::Index
        | Call::Live
        | Call::Ready
        | Call::Metrics
        | Call::OpenApi
        | Call::NamespaceSchema
        | Call::ClusterSchema => Needs::Nothing,
        Call::ListClusters | Call::ShowCluster(_) | Call::ApplyCluster(_) => {
            Needs::Everywhere(Admin)
        }
        Call::ListNamespaces => Needs::Somewhere(Read),
        Call::ShowNamespace(name)
        | Call::NamespaceHistory(name)
        | Call::Lookup(name)
        | Call::BatchGet(name)
        | Call::ListCounters(name) => Needs::In(name, &[Read]),
        Call::ApplyNamespace(name) | Call::DeleteNamespace(name) => Needs::In(name, &[Admin]),
        Call::BatchAdd(name) => Needs::In(name, &[Write]),
        Call::Get(Counter { namespace, .. }) => Needs::In(namespace, &[Read]),
        Call::Add(Counter { namespace, .. }) | Call::Clear(Counter { namespace, .. }) => {
            Needs::In(namespace, &[Write])
        }
        Call::AddAndGet(Counter { namespace, .. }) => Needs::In(namespace, &[Write, Read]),
    }
}

/// Whether a caller may make a call.
pub(crate) fn allow(caller: &Caller, call: &Call<'_>) -> Result<(), Failure> {
    match needs(call) {
        Needs::Nothing => Ok(()),
        Needs::In(namespace, permissions) => permissions
            .iter()
            .try_for_each(|permission| caller.may(*permission, namespace)),
        Needs::Somewhere(permission) => caller.may_somewhere(permission),
        Needs::Everywhere(permission) => caller.may_everywhere(permission),
    }
}
