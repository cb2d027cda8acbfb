//! The rules R1 to R14 together, on the model of the whole system: no schedule breaks them, and
//! each mistake that they guard against is noticed.

use crate::{
    limits,
    model::{Coverage, Fault, Step, World},
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use quipu_core::{event::Mutation, policy::Limits};

#[derive(Clone, Debug)]
struct Schedule {
    partitions: usize,
    limits: Limits,
    steps: Vec<Step>,
}

fn any_limits() -> impl Strategy<Value = Limits> {
    (1_u64..=20, 0_u64..=6).prop_map(|(accept, future)| limits(accept, future))
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        5 => (-3_i64..=9).prop_map(Mutation::Add),
        1 => Just(Mutation::Clear),
    ]
}

fn append() -> impl Strategy<Value = Step> {
    let skew = prop_oneof![4 => Just(0), 2 => -30_i64..0, 1 => 1_i64..12];
    (0_usize..3, 0_i64..6, skew, -5_i64..16, 0_u8..3, mutation()).prop_map(
        |(partition, passed, skew, age, token, mutation)| Step::Append {
            partition,
            passed,
            skew,
            age,
            token,
            mutation,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => append(),
        3 => (0_usize..3, 0_i64..4, 0_usize..9, mutation()).prop_map(
            |(partition, passed, which, mutation)| Step::Retry { partition, passed, which, mutation }
        ),
        6 => (0_usize..3, 1_usize..4)
            .prop_map(|(partition, records)| Step::Decide { partition, records }),
        6 => (0_usize..3, 0_usize..4)
            .prop_map(|(partition, which)| Step::Finish { partition, which }),
        1 => (0_usize..3).prop_map(|partition| Step::Restart { partition }),
        2 => (1_i64..15, any_limits()).prop_map(|(ahead, limits)| Step::Change { ahead, limits }),
        1 => (1_i64..15, 0_i64..10, any_limits())
            .prop_map(|(ahead, gap, limits)| Step::Recreate { ahead, gap, limits }),
        4 => (0_usize..2).prop_map(|worker| Step::Rollup { worker }),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    (
        1_usize..=3,
        any_limits(),
        prop::collection::vec(step(), 0..120),
    )
        .prop_map(|(partitions, limits, steps)| Schedule {
            partitions,
            limits,
            steps,
        })
}

fn run(schedule: &Schedule, fault: Option<Fault>) -> Result<Coverage, crate::model::Violation> {
    World::new(schedule.partitions, schedule.limits, fault).run(&schedule.steps)
}

/// Schedules in an order that is the same every time.
fn schedules() -> impl Iterator<Item = Schedule> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = schedule();
    std::iter::from_fn(move || {
        Some(
            strategy
                .new_tree(&mut runner)
                .expect("a schedule")
                .current(),
        )
    })
}

/// How many schedules it takes to notice a fault.
fn schedules_to_notice(fault: Fault) -> usize {
    const PATIENCE: usize = 5_000;
    let noticed = schedules()
        .take(PATIENCE)
        .position(|it| run(&it, Some(fault)).is_err());
    let schedules = noticed.unwrap_or_else(|| panic!("{fault:?} was never noticed")) + 1;
    println!("{fault:?}: noticed by schedule {schedules}");
    schedules
}

proptest! {
    #![proptest_config(Config::with_cases(2_000))]

    #[test]
    fn no_schedule_makes_a_closed_window_grow_or_a_checkpoint_untrue(schedule in schedule()) {
        let outcome = run(&schedule, None);
        prop_assert!(outcome.is_ok(), "{:?}", outcome);
    }
}

#[test]
fn schedules_accept_and_refuse_and_repeat_and_roll_up() {
    let mut all = Coverage::default();
    for schedule in schedules().take(100) {
        let one = run(&schedule, None).expect("no violation");
        all.accepted += one.accepted;
        all.refused += one.refused;
        all.copies += one.copies;
        all.checkpoints += one.checkpoints;
    }
    println!("{all:?}");
    assert!(all.accepted > 500 && all.refused > 500, "{all:?}");
    assert!(all.copies > 30 && all.checkpoints > 300, "{all:?}");
}

macro_rules! noticed {
    ($($name:ident: $fault:ident)*) => {$(
        #[test]
        fn $name() {
            schedules_to_notice(Fault::$fault);
        }
    )*};
}

noticed! {
    accepting_an_event_at_the_horizon_is_noticed: AcceptsAtHorizon
    acceptance_by_the_raw_append_time_is_noticed: RawAppendTime
    a_restart_that_forgets_the_effective_time_is_noticed: ForgetsEffectiveTime
    a_horizon_that_goes_back_is_noticed: HorizonGoesBack
    a_policy_change_in_the_past_is_noticed: ChangesThePast
    closing_by_the_newest_partition_is_noticed: NewestPartition
    a_watermark_of_the_read_position_is_noticed: WatermarkOfReadPosition
    a_window_that_takes_its_start_is_noticed: InclusiveStart
    letting_the_last_copy_win_is_noticed: LastCopyWins
}
