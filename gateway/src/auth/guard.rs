//! Stands before the gRPC service: each call is allowed here, or does not reach it.

use super::{
    Caller, LastingCaller,
    Permission::{self, Read, Write},
};
use crate::{failure::Failure, grpc::status};
use quipu_schemas::v1::{
    AddAndGetCountRequest, AddAndGetCountResponse, AddCountRequest, AddCountResponse,
    BatchAddCountRequest, BatchAddCountResponse, BatchGetCountRequest, BatchGetCountResponse,
    ClearCountRequest, ClearCountResponse, GetCountRequest, GetCountResponse, ListCountersRequest,
    ListCountersResponse, LookupEventRequest, LookupEventResponse, StreamAddRequest,
    counter_server::Counter,
};
use tonic::{Request, Response, Status, Streaming, async_trait};

/// A service that answers only whom it may. It has no default for a call: one that is added to the
/// service does not compile until it is decided here what it needs.
pub(crate) struct Guarded<S>(pub(crate) S);

fn allow<T>(
    permissions: &[Permission],
    request: &Request<T>,
    namespace: &str,
) -> Result<(), Status> {
    let caller = Caller::of(request.extensions());
    permissions
        .iter()
        .try_for_each(|permission| caller.may(*permission, namespace))
        .map_err(|failure| status(&failure))
}

/// Whether a message of a stream may be taken, by the keys of this moment.
pub(crate) fn allow_message(
    caller: &LastingCaller,
    message: &StreamAddRequest,
) -> Result<(), Failure> {
    caller.now().may(Write, &message.namespace)
}

#[async_trait]
impl<S: Counter> Counter for Guarded<S> {
    async fn add_count(
        &self,
        request: Request<AddCountRequest>,
    ) -> Result<Response<AddCountResponse>, Status> {
        allow(&[Write], &request, &request.get_ref().namespace)?;
        self.0.add_count(request).await
    }

    async fn add_and_get_count(
        &self,
        request: Request<AddAndGetCountRequest>,
    ) -> Result<Response<AddAndGetCountResponse>, Status> {
        allow(&[Write, Read], &request, &request.get_ref().namespace)?;
        self.0.add_and_get_count(request).await
    }

    async fn get_count(
        &self,
        request: Request<GetCountRequest>,
    ) -> Result<Response<GetCountResponse>, Status> {
        allow(&[Read], &request, &request.get_ref().namespace)?;
        self.0.get_count(request).await
    }

    async fn clear_count(
        &self,
        request: Request<ClearCountRequest>,
    ) -> Result<Response<ClearCountResponse>, Status> {
        allow(&[Write], &request, &request.get_ref().namespace)?;
        self.0.clear_count(request).await
    }

    async fn batch_add_count(
        &self,
        request: Request<BatchAddCountRequest>,
    ) -> Result<Response<BatchAddCountResponse>, Status> {
        allow(&[Write], &request, &request.get_ref().namespace)?;
        self.0.batch_add_count(request).await
    }

    type StreamAddCountStream = S::StreamAddCountStream;

    /// Its messages name their namespaces: [`allow_message`] decides about each.
    async fn stream_add_count(
        &self,
        request: Request<Streaming<StreamAddRequest>>,
    ) -> Result<Response<Self::StreamAddCountStream>, Status> {
        let caller = Caller::of(request.extensions());
        caller
            .may_somewhere(Write)
            .map_err(|failure| status(&failure))?;
        self.0.stream_add_count(request).await
    }

    async fn batch_get_count(
        &self,
        request: Request<BatchGetCountRequest>,
    ) -> Result<Response<BatchGetCountResponse>, Status> {
        allow(&[Read], &request, &request.get_ref().namespace)?;
        self.0.batch_get_count(request).await
    }

    async fn list_counters(
        &self,
        request: Request<ListCountersRequest>,
    ) -> Result<Response<ListCountersResponse>, Status> {
        allow(&[Read], &request, &request.get_ref().namespace)?;
        self.0.list_counters(request).await
    }

    async fn lookup_event(
        &self,
        request: Request<LookupEventRequest>,
    ) -> Result<Response<LookupEventResponse>, Status> {
        allow(&[Read], &request, &request.get_ref().namespace)?;
        self.0.lookup_event(request).await
    }
}
