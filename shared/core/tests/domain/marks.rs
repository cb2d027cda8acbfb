use proptest::prelude::*;
use quipu_core::marks::SignalMarks;

#[derive(Clone, Debug)]
enum Step {
    Read { opens: bool },
    Close(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(|opens| Step::Read { opens }),
        any::<prop::sample::Index>().prop_map(Step::Close),
    ]
}

proptest! {
    #[test]
    fn the_frontier_stands_at_the_oldest_open_offset_or_where_reading_got_to(
        committed in 0_u64..50,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut marks = SignalMarks::new(committed);
        let mut open = Vec::new();
        let mut next = committed;
        let mut before = committed;
        for step in steps {
            match step {
                Step::Read { opens } => {
                    next += 1;
                    marks.read(next);
                    if opens {
                        marks.open(next - 1);
                        open.push(next - 1);
                    }
                }
                Step::Close(_) if open.is_empty() => {}
                Step::Close(which) => marks.close(open.remove(which.index(open.len()))),
            }
            let frontier = marks.frontier();
            prop_assert_eq!(frontier, open.iter().copied().min().unwrap_or(next));
            prop_assert!(frontier >= before, "the frontier never goes back");
            prop_assert_eq!((marks.len(), marks.is_empty()), (open.len(), open.is_empty()));
            before = frontier;
        }
    }
}

#[test]
fn an_older_read_changes_nothing() {
    let mut marks = SignalMarks::new(10);
    marks.read(5);
    assert_eq!(marks.frontier(), 10);
}

#[test]
#[should_panic(expected = "opened twice")]
fn opening_twice_is_a_bug() {
    let mut marks = SignalMarks::new(0);
    marks.open(1);
    marks.open(1);
}

#[test]
#[should_panic(expected = "was not open")]
fn closing_what_is_not_open_is_a_bug() {
    SignalMarks::new(0).close(1);
}
