//! The service `quipu.v1.Counter`.

use super::{
    convert::{idempotent, item, made_token, mutation, mutation_status, outcome, result, token},
    status::status,
};
use crate::{
    Gateway,
    failure::{Failure, reason},
    metrics::Method,
};
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_core::event::Mutation;
use quipu_schemas::{
    timestamp::to_proto,
    v1::{
        AddAndGetCountRequest, AddAndGetCountResponse, AddCountRequest, AddCountResponse,
        BatchAddCountRequest, BatchAddCountResponse, ClearCountRequest, ClearCountResponse,
        GetCountRequest, GetCountResponse, LookupEventRequest, LookupEventResponse,
        counter_server::Counter,
    },
};
use std::sync::Arc;
use tonic::{Code, Request, Response, Status, async_trait};

/// The gateway as a gRPC service.
pub(crate) struct CounterService<L, E, R, C, P>(pub(crate) Arc<Gateway<L, E, R, C, P>>);

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane>
    CounterService<L, E, R, C, P>
{
    async fn measure<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Response<T>, Status> {
        let measured = self.0.meters.begin(&self.0.clock, method);
        let answer = call.await;
        measured.finish(
            answer
                .as_ref()
                .map_or_else(|failure| failure.code, |_| Code::Ok),
        );
        answer
            .map(Response::new)
            .map_err(|failure| status(&failure))
    }
}

#[async_trait]
impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane> Counter
    for CounterService<L, E, R, C, P>
{
    async fn add_count(
        &self,
        request: Request<AddCountRequest>,
    ) -> Result<Response<AddCountResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::Add, async {
            let add = Mutation::Add(r.delta);
            let add = mutation(
                &r.counter_name,
                add,
                r.idempotency_token.as_ref(),
                &r.item_key,
            )?;
            let applied = self.0.mutate(&r.namespace, add).await?;
            Ok(AddCountResponse {
                status: mutation_status(applied.status),
                idempotent: idempotent(applied.status),
                idempotency_token: made_token(applied.made_token),
            })
        })
        .await
    }

    async fn add_and_get_count(
        &self,
        request: Request<AddAndGetCountRequest>,
    ) -> Result<Response<AddAndGetCountResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::AddAndGet, async {
            let add = Mutation::Add(r.delta);
            let add = mutation(
                &r.counter_name,
                add,
                r.idempotency_token.as_ref(),
                &r.item_key,
            )?;
            let (applied, count) = self.0.add_and_get(&r.namespace, add).await?;
            Ok(AddAndGetCountResponse {
                status: mutation_status(applied.status),
                idempotent: idempotent(applied.status),
                count: count.count,
                approximate: count.complete_through.is_none(),
                complete_through: count.complete_through.map(to_proto),
                idempotency_token: made_token(applied.made_token),
            })
        })
        .await
    }

    async fn get_count(
        &self,
        request: Request<GetCountRequest>,
    ) -> Result<Response<GetCountResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::Get, async {
            let count = self.0.get(&r.namespace, &r.counter_name).await?;
            Ok(GetCountResponse {
                count: count.count,
                approximate: count.complete_through.is_none(),
                complete_through: count.complete_through.map(to_proto),
            })
        })
        .await
    }

    async fn clear_count(
        &self,
        request: Request<ClearCountRequest>,
    ) -> Result<Response<ClearCountResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::Clear, async {
            let token = r.idempotency_token.as_ref();
            let clear = mutation(&r.counter_name, Mutation::Clear, token, &r.item_key)?;
            let applied = self.0.mutate(&r.namespace, clear).await?;
            Ok(ClearCountResponse {
                status: mutation_status(applied.status),
                idempotent: idempotent(applied.status),
                idempotency_token: made_token(applied.made_token),
            })
        })
        .await
    }

    async fn batch_add_count(
        &self,
        request: Request<BatchAddCountRequest>,
    ) -> Result<Response<BatchAddCountResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::BatchAdd, async {
            let items = r.items.iter().map(item).collect();
            let results = self.0.batch_add(&r.namespace, items).await?;
            Ok(BatchAddCountResponse {
                results: results.into_iter().map(result).collect(),
            })
        })
        .await
    }

    async fn lookup_event(
        &self,
        request: Request<LookupEventRequest>,
    ) -> Result<Response<LookupEventResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::Lookup, async {
            let given = r.idempotency_token.as_ref().ok_or_else(|| {
                Failure::invalid(reason::INVALID_FIELD, "idempotency_token is missing")
                    .at("idempotency_token")
            })?;
            let token = token(given)?;
            let found = self
                .0
                .lookup(&r.namespace, &r.counter_name, token, &r.item_key)
                .await?;
            Ok(outcome(found))
        })
        .await
    }
}
