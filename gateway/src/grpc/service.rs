//! The service `quipu.v1.Counter`.

use super::{
    add_stream::{self, Terms},
    convert::{
        count_result, idempotent, item, made_token, min_freshness, mutation, mutation_status,
        outcome, result, token,
    },
    flow::Bounds,
    status::status,
};
use crate::{
    Served,
    auth::LastingCaller,
    deadline::{Deadline, grpc_timeout},
    failure::{Failure, reason},
    metrics::Method,
    names,
    serve::Closing,
};
use ::metrics::counter;
use quipu_adapters::ports::{Cache, ControlPlane, EventStore, Producer, RollupStore};
use quipu_core::event::Mutation;
use quipu_schemas::{
    timestamp::to_proto,
    v1::{
        AddAndGetCountRequest, AddAndGetCountResponse, AddCountRequest, AddCountResponse,
        BatchAddCountRequest, BatchAddCountResponse, BatchGetCountRequest, BatchGetCountResponse,
        ClearCountRequest, ClearCountResponse, GetCountRequest, GetCountResponse,
        ListCountersRequest, ListCountersResponse, LookupEventRequest, LookupEventResponse,
        StreamAddRequest, StreamAddResponse, counter_server::Counter,
    },
};
use std::sync::Arc;
use tonic::{Code, Request, Response, Status, Streaming, async_trait, codegen::BoxStream};

/// The gateways as one gRPC service.
pub(crate) struct CounterService<L, E, R, C, P>(pub(crate) Arc<Served<L, E, R, C, P>>);

impl<L: Producer, E: EventStore, R: RollupStore, C: Cache, P: ControlPlane>
    CounterService<L, E, R, C, P>
{
    async fn measure<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Response<T>, Status> {
        let measured = self.0.home.meters.begin(&self.0.home.clock, method);
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
            let applied = self
                .0
                .of(&r.namespace)
                .await?
                .mutate(&r.namespace, add)
                .await?;
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
        let deadline = Deadline::of(request.extensions());
        let r = request.into_inner();
        self.measure(Method::AddAndGet, async {
            let add = Mutation::Add(r.delta);
            let add = mutation(
                &r.counter_name,
                add,
                r.idempotency_token.as_ref(),
                &r.item_key,
            )?;
            let gateway = self.0.of(&r.namespace).await?;
            let added = gateway.add_and_get(&r.namespace, add, deadline).await?;
            let (applied, count) = (added.applied, added.count);
            Ok(AddAndGetCountResponse {
                status: mutation_status(applied.status),
                idempotent: idempotent(applied.status),
                count: count.count,
                approximate: count.complete_through.is_none(),
                complete_through: count.complete_through.map(to_proto),
                idempotency_token: made_token(applied.made_token),
                includes_add: Some(added.includes_add),
            })
        })
        .await
    }

    async fn get_count(
        &self,
        request: Request<GetCountRequest>,
    ) -> Result<Response<GetCountResponse>, Status> {
        let deadline = Deadline::of(request.extensions());
        let r = request.into_inner();
        self.measure(Method::Get, async {
            let (ns, name) = (&r.namespace, &r.counter_name);
            let gateway = self.0.of(ns).await?;
            let count = match min_freshness(r.min_freshness.as_ref())? {
                None => gateway.get(ns, name).await?,
                Some(min) => gateway.get_at_least(ns, name, min, deadline).await?,
            };
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
            let applied = self
                .0
                .of(&r.namespace)
                .await?
                .mutate(&r.namespace, clear)
                .await?;
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
            let gateway = self.0.of(&r.namespace).await?;
            let results = gateway.batch_add(&r.namespace, items).await?;
            Ok(BatchAddCountResponse {
                results: results.into_iter().map(result).collect(),
            })
        })
        .await
    }

    type StreamAddCountStream = BoxStream<StreamAddResponse>;

    async fn stream_add_count(
        &self,
        request: Request<Streaming<StreamAddRequest>>,
    ) -> Result<Response<Self::StreamAddCountStream>, Status> {
        let room = Arc::clone(&self.0.home.add_streams).try_acquire_owned();
        let room = room.map_err(|_| {
            counter!(names::OVERLOADED).increment(1);
            status(&Failure::overloaded())
        })?;
        let terms = Terms {
            caller: LastingCaller::of(request.extensions()),
            closing: Closing::of(request.extensions()),
            time: grpc_timeout(request.metadata().as_ref()),
            bounds: Bounds::default(),
            room,
        };
        let answers = add_stream::answers(Arc::clone(&self.0), terms, request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }

    async fn batch_get_count(
        &self,
        request: Request<BatchGetCountRequest>,
    ) -> Result<Response<BatchGetCountResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::BatchGet, async {
            let names = r.counter_names.iter().map(|name| Ok(name.as_str()));
            let gateway = self.0.of(&r.namespace).await?;
            let results = gateway.batch_get(&r.namespace, names.collect()).await?;
            Ok(BatchGetCountResponse {
                results: results.into_iter().map(count_result).collect(),
            })
        })
        .await
    }

    async fn list_counters(
        &self,
        request: Request<ListCountersRequest>,
    ) -> Result<Response<ListCountersResponse>, Status> {
        let r = request.into_inner();
        self.measure(Method::ListCounters, async {
            let gateway = self.0.of(&r.namespace).await?;
            let listed = gateway.list_counters(&r.namespace, r.page_size, &r.page_token);
            let page = listed.await?;
            Ok(ListCountersResponse {
                counter_names: page
                    .names
                    .iter()
                    .map(|name| name.as_str().to_owned())
                    .collect(),
                next_page_token: page.next_page_token.unwrap_or_default(),
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
            let gateway = self.0.of(&r.namespace).await?;
            let found = gateway
                .lookup(&r.namespace, &r.counter_name, token, &r.item_key)
                .await?;
            Ok(outcome(found))
        })
        .await
    }
}
