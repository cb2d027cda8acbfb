//! Clusters on which counts could be wrong.

use super::{
    installation::{Addresses, Installation},
    kafka,
    turns::Turn,
};

#[test]
fn an_events_topic_that_producers_stamp_is_refused_with_what_to_change() {
    let _turn = Turn::take();
    let installation = Installation::new(Addresses::shared(), 1);
    let topic = installation.topic("events");
    kafka::make_topic(&installation.addresses.kafka, &topic, 1);
    let fix = format!("--entity-name {topic} --add-config message.timestamp.type=LogAppendTime");
    for command in [&["admin", "setup"][..], &["admin", "check"]] {
        let (code, said) = installation.run(command);
        assert_eq!(code, 3, "{command:?}: {said}");
        assert_eq!(said.matches(&fix).count(), 1, "{command:?}: {said}");
    }
    for role in ["ingest", "gateway", "rollup-worker"] {
        let (code, said) = installation.ended(installation.spawn(role));
        assert_eq!(code, 3, "{role}: {said}");
        assert!(said.contains(&fix), "{role}: {said}");
    }
}
