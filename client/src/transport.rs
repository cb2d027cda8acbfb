//! What calls are sent over: the connection, with the caller's key on each request.

use crate::options::OptionsError;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

/// A connection that adds the key.
pub(crate) type Transport = InterceptedService<Channel, ApiKey>;

/// The header of a key, if there is one. What logs show of requests does not have it.
#[derive(Clone)]
pub(crate) struct ApiKey(Option<MetadataValue<Ascii>>);

impl ApiKey {
    /// Reads the options' key.
    pub(crate) fn new(key: Option<&str>) -> Result<Self, OptionsError> {
        let header = |key: &str| {
            let mut value: MetadataValue<Ascii> =
                format!("Bearer {key}").parse().map_err(|_| {
                    OptionsError("the API key has characters that no header can carry".to_owned())
                })?;
            // It is never shown, nor kept in HTTP/2's tables.
            value.set_sensitive(true);
            Ok(value)
        };
        key.map(header).transpose().map(Self)
    }
}

impl Interceptor for ApiKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("authorization", key.clone());
        }
        Ok(request)
    }
}
