//! Who may do what: API keys, which a file declares and every call brings with it.
//!
//! [`authenticated`] puts the `Caller` of each request beside it, once, before anything else looks
//! at it. Where a call's namespace is known the caller is asked: for HTTP in `http`, by the one table
//! of `needs`; for gRPC by `Guarded`, which stands before the service and does not compile while
//! a call has no decision; of a stream, each message is decided about. Without a caller nothing is allowed.

mod caller;
mod guard;
mod keyring;
mod layer;
mod needs;
mod secret;

pub(crate) use caller::Caller;
pub(crate) use guard::{Guarded, allow_message};
pub use keyring::{KeyEntry, Keyring, MAX_FILE_BYTES, Permission};
pub(crate) use layer::LastingCaller;
pub use layer::{Access, Peer, authenticated};
pub(crate) use needs::allow;
pub use secret::{Hash, Secret};
