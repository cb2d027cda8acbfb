//! One connection to the cluster, shared by everything that a process keeps there. The driver
//! decides nothing here: it neither retries nor speculates, so what a statement did is known to
//! whoever sent it.

use super::{
    durable::{self, Durable},
    error::{CassandraError, Failure},
    settings::{CassandraSettings, ConsistencyLevel, check_name},
    tls,
};
use crate::clock::Clock;
use scylla::{
    client::{
        PoolSize, execution_profile::ExecutionProfile, session::Session,
        session_builder::SessionBuilder,
    },
    frame::types::{Consistency, SerialConsistency},
    policies::{load_balancing::DefaultPolicy, retry::FallthroughRetryPolicy},
    response::{PagingState, query_result::QueryRowsResult},
    serialize::{batch::BatchValues, row::SerializeRow},
    statement::{Statement, batch::Batch, prepared::PreparedStatement},
    value::{CqlValue, Row},
};
use std::{
    fmt,
    ops::ControlFlow,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    sync::{OnceCell, Semaphore, SemaphorePermit},
    task,
};

/// A connection to a cluster. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Cassandra {
    inner: Arc<Inner>,
}

struct Inner {
    session: Session,
    settings: CassandraSettings,
    clock: Clock,
    in_flight: Semaphore,
    durable: OnceCell<Durable>,
}

impl fmt::Debug for Cassandra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassandra")
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

/// A connection for as long as others use it.
pub(super) struct WeakCassandra(Weak<Inner>);

impl WeakCassandra {
    pub(super) fn upgrade(&self) -> Option<Cassandra> {
        let inner = self.0.upgrade()?;
        Some(Cassandra { inner })
    }
}

/// A page of rows, and where the next one begins.
pub(super) type Page = (QueryRowsResult, Option<PagingState>);

/// Rows that a page of a read may have.
pub(super) const PAGE_ROWS: i32 = 1_000;

impl Cassandra {
    /// Connects to a cluster. Nothing is read or made there yet.
    ///
    /// # Errors
    /// When the settings contradict one another, or when no node answers.
    pub async fn connect(
        settings: CassandraSettings,
        clock: Clock,
    ) -> Result<Self, CassandraError> {
        check_name("keyspace", &settings.keyspace, 48).map_err(CassandraError::Refused)?;
        let session = open(&settings).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                session,
                in_flight: Semaphore::new(settings.max_in_flight.get()),
                settings,
                clock,
                durable: OnceCell::new(),
            }),
        })
    }

    /// How the cluster is reached.
    pub fn settings(&self) -> &CassandraSettings {
        &self.inner.settings
    }

    pub(super) fn downgrade(&self) -> WeakCassandra {
        WeakCassandra(Arc::downgrade(&self.inner))
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub(super) fn session(&self) -> &Session {
        &self.inner.session
    }

    /// How acknowledged writes become durable here. Asked of the cluster at the first call.
    pub(super) async fn durable(&self) -> Result<&Durable, CassandraError> {
        self.inner
            .durable
            .get_or_try_init(|| durable::detect(self))
            .await
    }

    /// Prepares a statement, with the keyspace in the place of `{ks}`. Every statement of this
    /// crate may be sent again.
    pub(super) async fn prepare(&self, cql: &str) -> Result<PreparedStatement, Failure> {
        let cql = cql.replace("{ks}", &self.inner.settings.keyspace);
        let mut statement = Statement::new(cql).with_page_size(PAGE_ROWS);
        statement.set_is_idempotent(true);
        Ok(self.inner.session.prepare(statement).await?)
    }

    /// Prepares a statement of the control tables: reads see every change that was made, and
    /// changes are compared and set, over all data centres.
    pub(super) async fn prepare_serial(&self, cql: &str) -> Result<PreparedStatement, Failure> {
        let mut statement = self.prepare(cql).await?;
        let reads = cql.trim_start().starts_with("SELECT");
        statement.set_consistency(if reads {
            Consistency::Serial
        } else {
            Consistency::Quorum
        });
        statement.set_is_idempotent(reads);
        Ok(statement)
    }

    async fn permit(&self) -> SemaphorePermit<'_> {
        let permit = self.inner.in_flight.acquire().await;
        permit.expect("the semaphore is never closed")
    }

    /// Runs a write.
    pub(super) async fn write(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), Failure> {
        let _permit = self.permit().await;
        // A write has no rows, so no pages.
        self.inner
            .session
            .execute_unpaged(statement, values)
            .await?;
        Ok(())
    }

    /// Runs a batch of writes.
    pub(super) async fn write_batch(
        &self,
        batch: &Batch,
        values: impl BatchValues,
    ) -> Result<(), Failure> {
        let _permit = self.permit().await;
        self.inner.session.batch(batch, values).await?;
        Ok(())
    }

    /// Reads one page.
    pub(super) async fn page(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        from: PagingState,
    ) -> Result<Page, Failure> {
        let _permit = self.permit().await;
        let session = &self.inner.session;
        let (result, paging) = session.execute_single_page(statement, values, from).await?;
        let next = match paging.into_paging_control_flow() {
            ControlFlow::Continue(next) => Some(next),
            ControlFlow::Break(()) => None,
        };
        let rows = result
            .into_rows_result()
            .map_err(|error| Failure::Damaged(error.to_string()))?;
        Ok((rows, next))
    }

    /// Runs a statement that compares and sets. Whether it was applied; after an error nobody
    /// knows.
    pub(super) async fn compare_and_set(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<bool, Failure> {
        let (rows, _) = self.page(statement, values, PagingState::start()).await?;
        let row = rows
            .first_row::<Row>()
            .map_err(|error| Failure::Damaged(error.to_string()))?;
        match row.columns.first() {
            Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
            _ => Err(Failure::Damaged(
                "an answer does not say whether it was applied".to_owned(),
            )),
        }
    }

    /// Runs a statement that changes the schema, and waits until all nodes agree.
    pub(super) async fn change_schema(&self, cql: &str) -> Result<(), Failure> {
        let _permit = self.permit().await;
        let cql = cql.replace("{ks}", &self.inner.settings.keyspace);
        let mut statement = Statement::new(cql);
        statement.set_request_timeout(Some(self.inner.settings.schema_timeout));
        // The driver waits for agreement after a change; a schema statement has no rows.
        self.inner.session.query_unpaged(statement, ()).await?;
        Ok(())
    }
}

async fn open(settings: &CassandraSettings) -> Result<Session, CassandraError> {
    let consistency = match settings.consistency {
        ConsistencyLevel::One => Consistency::One,
        ConsistencyLevel::Quorum => Consistency::Quorum,
        ConsistencyLevel::LocalQuorum => Consistency::LocalQuorum,
    };
    let mut balancing = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.local_datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    } else if settings.consistency == ConsistencyLevel::LocalQuorum {
        let problem = "consistency LOCAL_QUORUM needs local_datacenter; set it";
        return Err(CassandraError::Refused(problem.to_owned()));
    }
    let profile = ExecutionProfile::builder()
        .consistency(consistency)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(settings.request_timeout))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        .load_balancing_policy(balancing.build())
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.contact_points)
        .connection_timeout(settings.connect_timeout)
        .pool_size(PoolSize::PerHost(settings.connections))
        .schema_agreement_timeout(settings.schema_timeout)
        .keyspaces_to_fetch([&settings.keyspace])
        .keepalive_interval(Duration::from_secs(10))
        .keepalive_timeout(settings.request_timeout)
        .default_execution_profile_handle(profile.into_handle());
    if let Some(credentials) = &settings.credentials {
        builder = builder.user(&credentials.username, &credentials.password);
    }
    if let Some(tls) = settings.tls.clone() {
        let config = task::spawn_blocking(move || tls::client_config(&tls)).await;
        let config = config.expect("reading certificates does not panic");
        builder = builder.tls_context(Some(config.map_err(CassandraError::Refused)?));
    }
    builder
        .build()
        .await
        .map_err(|error| CassandraError::Unreachable {
            contact_points: settings.contact_points.join(", "),
            problem: error.to_string(),
        })
}
