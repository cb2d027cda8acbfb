//! Brokers' clocks that step back and that jump a year ahead, seen by the whole role, which is
//! killed at each of its steps and started again (R1, R2, R3).

use crate::{
    brokers::Brokers,
    fixtures::{book, counter, second, settings, store},
};
use quipu_adapters::{
    clock::{Clock, ManualClock},
    memory::MemoryEventStore,
    ports::{Body, EventStore},
    watermarks::WatermarkBoard,
};
use quipu_core::{
    caps::CappedRange,
    clock_guard::ClockGuard,
    event::{CounterKey, NamespaceId, StoredEvent},
    policy::PolicyBook,
    time::Micros,
    watermark::Watermarks,
    window::Window,
};
use quipu_ingest::Ports;
use quipu_schemas::event;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future,
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

const START: Micros = second(100);
const A_YEAR_AHEAD: Micros = second(31_536_000);
const LATER: Micros = second(31_536_001);
/// How far the policy may be relied on before an operator caps anything.
const GRANTED: Micros = second(105);

/// The topic, the machine that the role runs on, and what it stores.
struct World {
    brokers: Brokers,
    events: MemoryEventStore,
    clock: Clock,
    hands: ManualClock,
    policies: watch::Sender<Arc<PolicyBook>>,
}

/// What became of the events, by their tokens: the effective times of those that are stored, in
/// the order of their own times, and why others were refused.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    stored: Vec<(String, Micros)>,
    refused: BTreeSet<(String, String)>,
}

fn outcome(stored: &[(&str, Micros)], refused: &[(&str, &str)]) -> Outcome {
    let own = |text: &&str| (*text).to_owned();
    Outcome {
        stored: stored.iter().map(|(token, at)| (own(token), *at)).collect(),
        refused: refused
            .iter()
            .map(|(token, why)| (own(token), own(why)))
            .collect(),
    }
}

impl World {
    fn new(policy: PolicyBook, kill_at: Option<u64>) -> Self {
        let (clock, hands) = Clock::manual(START);
        Self {
            brokers: Brokers::new(2, START, kill_at),
            events: store(),
            clock,
            hands,
            policies: watch::Sender::new(Arc::new(policy)),
        }
    }

    /// Runs the role beside a story, and starts it again whenever it is killed.
    async fn tell<T>(&self, story: impl Future<Output = T>) -> T {
        tokio::select! {
            never = self.run() => match never {},
            told = story => told,
        }
    }

    async fn run(&self) -> Infallible {
        let mut published = BTreeMap::new();
        loop {
            let connection = self.brokers.connect();
            let at = |partition| (partition, self.brokers.committed(partition).effective_time);
            let board = WatermarkBoard::new(Watermarks::new([at(0), at(1)]));
            let ports = Ports {
                log: connection.clone(),
                events: self.events.clone(),
                watermarks: board.clone(),
                policies: self.policies.subscribe(),
                clock: self.clock.clone(),
            };
            let role =
                quipu_ingest::run(connection.consumer(), ports, settings(), future::pending());
            tokio::select! {
                ended = role => panic!("it ended: {ended:?}"),
                never = self.follow(&board, &mut published) => match never {},
                () = connection.cut() => {}
            }
        }
    }

    /// Watermarks say nothing that is not committed, never go back, whichever role publishes
    /// them, and never run ahead of the machine.
    async fn follow(
        &self,
        board: &WatermarkBoard,
        published: &mut BTreeMap<u32, Micros>,
    ) -> Infallible {
        let mut frontiers = board.frontiers();
        loop {
            frontiers.changed().await.expect("the board is held");
            for (partition, frontier) in frontiers.borrow_and_update().iter() {
                let watermark = frontier.effective_time;
                assert!(watermark <= self.brokers.committed(*partition).effective_time);
                assert!(watermark <= self.clock.now() + ClockGuard::TOLERANCE);
                let before = published.insert(*partition, watermark);
                assert!(before <= Some(watermark), "{watermark} after {before:?}");
            }
        }
    }

    async fn outcome(&self) -> Outcome {
        let counter = CounterKey {
            namespace: NamespaceId(1),
            name: counter(),
        };
        let ever = Window {
            after: Micros::MIN,
            through: Micros::MAX,
        };
        let mut stored = Vec::new();
        let mut sink = |event: StoredEvent| {
            let token = event.key.event_id.as_str().to_owned();
            stored.push((token, event.source.effective_time));
            ControlFlow::Continue(())
        };
        let scanned = self.events.scan(&counter, ever, &mut sink).await;
        scanned.expect("scanned");
        let refused = self.brokers.dead_letters().iter().map(refusal).collect();
        Outcome { stored, refused }
    }
}

/// A dead letter's token, and why it is one.
fn refusal(letter: &Body) -> (String, String) {
    let Body::Data { value, headers } = letter else {
        panic!("a tick was refused");
    };
    let event = event::decode(value).expect("the original event");
    let reason = headers.iter().find(|(name, _)| name == "quipu-reason");
    let (_, reason) = reason.expect("a reason");
    let reason = String::from_utf8(reason.to_vec()).expect("text");
    (event.key.event_id.as_str().to_owned(), reason)
}

/// Tells a story, and tells it again with the role killed at each of the steps that it took.
async fn whenever_it_is_killed(
    policy: impl Fn() -> PolicyBook,
    story: impl AsyncFn(&World) -> Outcome,
    expected: Outcome,
) {
    let undisturbed = World::new(policy(), None);
    assert_eq!(undisturbed.tell(story(&undisturbed)).await, expected);
    let runs = (1..=undisturbed.brokers.steps()).map(async |step| {
        let world = World::new(policy(), Some(step));
        let outcome = world.tell(story(&world)).await;
        assert_eq!(outcome, expected, "killed at step {step}");
        world.brokers.kills()
    });
    let killed: u64 = futures::future::join_all(runs).await.iter().sum();
    assert!(killed >= 15, "it was killed at {killed} steps only");
}

/// While the broker shows 100 s.
async fn before_the_step(world: &World) {
    let brokers = &world.brokers;
    brokers.write(0, "at 100", second(100));
    let done = |brokers: &Brokers| brokers.end(0) > 0 && brokers.is_done(0);
    brokers.until("the first is committed", done).await;
    assert_eq!(brokers.committed(0).effective_time, second(100));
}

/// Once it shows 40 s. By that time the first would be fresh, and the second too early.
async fn after_the_step(world: &World) -> Outcome {
    let brokers = &world.brokers;
    brokers.show(0, second(40));
    brokers.write(0, "at 45", second(45));
    brokers.write(0, "at 97", second(97));
    brokers
        .until("all is committed", |brokers| brokers.is_done(0))
        .await;
    assert_eq!(brokers.committed(0).effective_time, second(100));
    world.outcome().await
}

fn by_the_maximum() -> Outcome {
    let stored = [("at 97", second(100)), ("at 100", second(100))];
    outcome(&stored, &[("at 45", "late")])
}

#[tokio::test]
async fn after_a_clock_stepped_back_a_restarted_role_decides_by_the_time_that_was_committed() {
    let world = World::new(book(GRANTED, &[]), None);
    let story = async {
        before_the_step(&world).await;
        world.brokers.kill();
        after_the_step(&world).await
    };
    assert_eq!(world.tell(story).await, by_the_maximum());
}

#[tokio::test]
async fn after_a_clock_stepped_back_the_verdicts_are_alike_wherever_the_role_is_killed() {
    let story = async |world: &World| {
        before_the_step(world).await;
        after_the_step(world).await
    };
    whenever_it_is_killed(|| book(GRANTED, &[]), story, by_the_maximum()).await;
}

/// A broker's clock jumps a year ahead and is set right; the other's never errs. Returns the first
/// offset with a time that never was.
async fn jump(world: &World) -> u64 {
    let brokers = &world.brokers;
    brokers.write(0, "before", second(100));
    brokers.show(0, A_YEAR_AHEAD);
    let jumped = brokers.write(0, "of next year", A_YEAR_AHEAD);
    brokers.write(0, "of now", second(101));
    brokers.show(0, second(102));
    brokers.write(0, "behind it", second(102));
    let stopped =
        |brokers: &Brokers| brokers.committed(0).next_offset == jumped && brokers.stops(0) >= 2;
    brokers.until("the partition stops", stopped).await;
    // Time goes on, and so does the other partition.
    let stops = brokers.stops(0);
    world.hands.advance(Duration::from_secs(3));
    brokers.show(1, second(103));
    brokers.write(1, "elsewhere", second(103));
    let goes_on = |brokers: &Brokers| {
        let elsewhere = brokers.committed(1).effective_time;
        brokers.is_done(1) && elsewhere == second(103) && brokers.stops(0) >= stops + 2
    };
    brokers.until("the other partition goes on", goes_on).await;
    assert_eq!(brokers.committed(0).next_offset, jumped);
    assert_eq!(brokers.committed(0).effective_time, second(100));
    let decided = [("before", second(100)), ("elsewhere", second(103))];
    assert_eq!(world.outcome().await, outcome(&decided, &[]));
    jumped
}

/// Events in both partitions, one of which its producer sends again. Returns once all is committed.
async fn go_on(world: &World, now: Micros) -> Outcome {
    let brokers = &world.brokers;
    for (partition, token) in [(0, "after"), (1, "after elsewhere"), (0, "after")] {
        brokers.show(partition, now);
        brokers.write(partition, token, now);
    }
    let done = |brokers: &Brokers| brokers.is_done(0) && brokers.is_done(1);
    brokers.until("all is committed", done).await;
    world.outcome().await
}

#[tokio::test]
async fn a_partition_goes_on_by_itself_once_the_clock_shows_what_its_records_are_stamped_with() {
    let story = async |world: &World| {
        jump(world).await;
        world.hands.step_to(LATER);
        go_on(world, LATER).await
    };
    let stored = [
        ("before", second(100)),
        ("elsewhere", second(103)),
        ("of next year", A_YEAR_AHEAD),
        ("after", LATER),
        ("after elsewhere", LATER),
    ];
    let refused = [("of now", "late"), ("behind it", "late")];
    // Only the clock stops it.
    let policy = || book(Micros::MAX, &[]);
    whenever_it_is_killed(policy, story, outcome(&stored, &refused)).await;
}

#[tokio::test]
async fn a_partition_goes_on_by_what_an_operator_says_and_the_time_that_never_was_leaves_no_trace()
{
    let now = second(104);
    let story = async |world: &World| {
        let first = jump(world).await;
        let cap = CappedRange {
            partition: 0,
            first,
            last: world.brokers.end(0) - 1,
            time: second(101),
            above: GRANTED,
        };
        let policy = book(GRANTED + Duration::from_secs(5), &[cap]);
        world.policies.send_replace(Arc::new(policy));
        let outcome = go_on(world, now).await;
        assert_eq!(world.brokers.committed(0).effective_time, now);
        outcome
    };
    let stored = [
        ("before", second(100)),
        ("of now", second(101)),
        ("behind it", second(102)),
        ("elsewhere", second(103)),
        ("after", now),
        ("after elsewhere", now),
    ];
    let refused = [("of next year", "too_far_ahead")];
    let policy = || book(GRANTED, &[]);
    whenever_it_is_killed(policy, story, outcome(&stored, &refused)).await;
}
