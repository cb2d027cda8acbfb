//! Sends what was written down, until it is settled or patience is over.

use crate::{
    entry::{Entry, Heard},
    failure::Failure,
    ledger::LedgerPen,
    plan::{Planned, Way},
    timeline::Timeline,
    topics::Publisher,
};
use futures::{StreamExt, future::join_all, stream};
use quipu_client::{Applied, Client, Failure as Refusal, Token};
use quipu_core::{event::Mutation, name::Namespace};
use quipu_schemas::{event::CheckedEvent, timestamp, v1};
use std::time::{Duration, Instant};

/// After so long an attempt stays unknown.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
/// Clears of one batch under way at once.
const CLEARS: usize = 8;

/// Who sends. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) namespace: Namespace,
    pub(crate) publisher: Publisher,
    pub(crate) pen: LedgerPen,
    pub(crate) timeline: Timeline,
}

/// An event with its number in the ledger.
type Numbered<'a> = (u64, &'a Entry);

impl Sender {
    /// Sends all, each by its ways in turn, and notes what is heard.
    pub(crate) async fn settle(self, planned: Vec<(u64, Planned)>) -> Result<(), Failure> {
        let events = planned.iter().filter_map(|(id, planned)| match planned {
            Planned::Event(entry, ways) => Some((*id, entry, ways)),
            Planned::Poison(..) => None,
        });
        let events: Vec<_> = events.collect();
        let poison = planned.iter().filter_map(|(_, planned)| match planned {
            Planned::Poison(record, partition) => Some(self.publisher.poison(record, *partition)),
            Planned::Event(..) => None,
        });
        // Whatever of it gets into the log must get out again, acknowledged or not.
        let poisoning = join_all(poison);
        let mut wave = 0;
        loop {
            let by = events
                .iter()
                .filter_map(|(id, entry, ways)| Some((ways.get(wave)?, (*id, *entry))));
            let by: Vec<_> = by.collect();
            if by.is_empty() {
                break;
            }
            self.send(by).await?;
            wave += 1;
        }
        poisoning.await;
        Ok(())
    }

    async fn send(&self, events: Vec<(&Way, Numbered<'_>)>) -> Result<(), Failure> {
        let (mut adds, mut clears, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        for (way, event) in events {
            match (way, event.1.mutation) {
                (Way::Log(partition), _) => direct.push((*partition, event)),
                (Way::Gateway, Mutation::Add(delta)) => adds.push((delta, event)),
                (Way::Gateway, Mutation::Clear) => clears.push(event),
            }
        }
        let direct = join_all(
            direct
                .into_iter()
                .map(|(partition, (id, entry))| async move {
                    let place = self.publisher.event(&self.event(entry), partition).await;
                    let published = |(partition, offset)| Heard::Published(partition, offset);
                    (id, place.map_or(Heard::Unknown, published))
                }),
        );
        let clears: Vec<_> = clears.into_iter().map(|event| self.clear(event)).collect();
        let clears = stream::iter(clears)
            .buffer_unordered(CLEARS)
            .collect::<Vec<_>>();
        let (direct, clears, adds) = tokio::join!(direct, clears, self.add(adds));
        let heard = [direct, clears, adds].concat();
        let promises = [Heard::Accepted, Heard::AlreadyApplied];
        let kept = heard.iter().filter(|(_, heard)| promises.contains(heard));
        let kept = u32::try_from(kept.count()).unwrap_or(u32::MAX);
        self.timeline.note(|second| second.acknowledged += kept);
        Ok(self.pen.heard(heard).await?)
    }

    async fn clear(&self, (id, entry): Numbered<'_>) -> (u64, Heard) {
        let (namespace, key) = (self.namespace.as_str(), &entry.key);
        let token = Token::given(key.event_id.as_str(), key.event_time);
        let clear = self.client.clear(namespace, entry.counter.as_str());
        let clear = clear.with_token(token).item_key(key.item_key.as_str());
        let heard = match clear.timeout(PATIENCE).await {
            Ok(receipt) => of_applied(receipt.applied),
            Err(error) => of_refusal(&error.failure).unwrap_or(Heard::Unknown),
        };
        (id, heard)
    }

    /// Adds by batches, and sends again what is not settled.
    async fn add(&self, adds: Vec<(i64, Numbered<'_>)>) -> Vec<(u64, Heard)> {
        let began = Instant::now();
        let (mut heard, mut open) = (Vec::new(), adds);
        while !open.is_empty() {
            let items = open.iter().map(|(delta, (_, entry))| item(entry, *delta));
            let answered = self
                .client
                .batch_add_once(self.namespace.as_str(), items.collect())
                .await;
            let verdicts = match answered {
                Ok(verdicts) => verdicts,
                Err(refusal) => vec![Err(refusal); open.len()],
            };
            let mut left = Vec::new();
            for (add, verdict) in open.into_iter().zip(verdicts) {
                let (_, (id, _)) = add;
                match verdict.map_or_else(|refusal| of_refusal(&refusal), |it| Some(of_applied(it)))
                {
                    Some(settled) => heard.push((id, settled)),
                    None => left.push(add),
                }
            }
            let unsettled = u32::try_from(left.len()).unwrap_or(u32::MAX);
            self.timeline.note(|second| second.unsettled += unsettled);
            open = left;
            if open.is_empty() {
                break;
            }
            if began.elapsed() > PATIENCE {
                heard.extend(open.iter().map(|(_, (id, _))| (*id, Heard::Unknown)));
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        heard
    }

    fn event(&self, entry: &Entry) -> CheckedEvent {
        CheckedEvent {
            namespace: self.namespace.clone(),
            counter: entry.counter.clone(),
            key: entry.key.clone(),
            mutation: entry.mutation,
        }
    }
}

fn item(entry: &Entry, delta: i64) -> v1::BatchAddItem {
    v1::BatchAddItem {
        counter_name: entry.counter.as_str().to_owned(),
        delta,
        idempotency_token: Some(v1::IdempotencyToken {
            token: entry.key.event_id.as_str().to_owned(),
            generation_time: Some(timestamp::to_proto(entry.key.event_time)),
        }),
        item_key: entry.key.item_key.as_str().to_owned(),
    }
}

fn of_applied(applied: Applied) -> Heard {
    match applied {
        Applied::Accepted => Heard::Accepted,
        Applied::AlreadyApplied => Heard::AlreadyApplied,
        // A client of the gateway never hears it, and it would promise nothing.
        Applied::Published => Heard::Unknown,
    }
}

/// What a failure settles, if anything.
fn of_refusal(refusal: &Refusal) -> Option<Heard> {
    match refusal {
        Refusal::Unreachable { .. } | Refusal::Unsettled { .. } => None,
        Refusal::OutcomeUnknown(_) => Some(Heard::Unknown),
        Refusal::Late(_) => Some(Heard::Late),
        Refusal::Refused(said) | Refusal::Denied(said) => {
            Some(Heard::Refused(format!("{} {}", said.code, said.reason)))
        }
    }
}
