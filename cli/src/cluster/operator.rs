//! `quipu admin set-frontier` and `quipu admin cap-time`: what only an operator can decide.

use super::{
    connect::Control,
    decisions::{check_cap, check_frontier},
    declared::Target,
};
use crate::{
    args_cluster::{CapArgs, FrontierArgs},
    commands::{
        exit::{Exit, Failed},
        print,
    },
};
use quipu_adapters::{
    kafka::{
        KafkaProducer,
        admin::{self, PartitionState},
    },
    ports::Committed,
};
use quipu_schemas::timestamp::to_rfc3339;
use std::io::{self, IsTerminal, Write};

/// Sets where the group of all ingests goes on with a partition, and at which effective time (R2).
pub(super) async fn set_frontier(target: &Target, asked: FrontierArgs) -> Result<Exit, Failed> {
    let (control, group) = (Control::connect(target).await?, &target.config.ingest.group);
    let partition = asked.partition;
    let state = state(&control, group, partition).await?;
    let to = Committed {
        next_offset: asked.offset,
        effective_time: asked.effective_time,
    };
    let follows = check_frontier(&state, to, control.clock.now()).map_err(|why| refused(&why))?;
    let topic = &control.kafka.topics.events;
    print(&format!(
        "{topic} partition {partition} has offsets {} to {}\nwas: group {group} goes on at {}",
        state.beginning,
        state.end,
        was(&state)
    ))?;
    print(&format!("will be: it goes on at {}", frontier(to)))?;
    for consequence in follows {
        print(&consequence)?;
    }
    if !asked.yes {
        confirm()?;
    }
    let log = KafkaProducer::connect(control.kafka.clone(), control.registered.clone()).await?;
    admin::set_frontier(&log, group, partition, to).await?;
    print(&"done; start the ingests")?;
    Ok(Exit::Done)
}

/// Caps the append times of records that a broker stamped far ahead (R3).
pub(super) async fn cap_time(target: &Target, asked: CapArgs) -> Result<Exit, Failed> {
    let (control, partition) = (Control::connect(target).await?, asked.partition);
    let state = state(&control, &target.config.ingest.group, partition).await?;
    let newest = state.end.saturating_sub(1);
    let offsets = asked.from..=asked.through.unwrap_or(newest);
    check_cap(&state, &offsets, asked.time, control.clock.now()).map_err(|why| refused(&why))?;
    let (topic, time) = (&control.kafka.topics.events, to_rfc3339(asked.time));
    let (first, last) = (offsets.start(), offsets.end());
    print(&format!(
        "records {first} to {last} of {topic} partition {partition}, where they are stamped later \
         than anybody could decide until now, will count as appended at {time}, for ever"
    ))?;
    if !asked.yes {
        confirm()?;
    }
    let capped = control
        .plane
        .cap_time(topic, partition, offsets, asked.time);
    let capped = capped.await.map_err(|error| refused(&error.to_string()))?;
    print(&format!(
        "done: this concerns those that are stamped after {}; ingest goes on by itself",
        to_rfc3339(capped.above)
    ))?;
    Ok(Exit::Done)
}

async fn state(control: &Control, group: &str, partition: u32) -> Result<PartitionState, Failed> {
    let registered = control.registered.borrow().contains_key(&partition);
    if !registered {
        let topic = &control.kafka.topics.events;
        let message = format!("partition {partition} of {topic} is not registered");
        return Err(Failed::new(Exit::Refused, message));
    }
    Ok(admin::partition_state(&control.kafka, group, partition).await?)
}

fn was(state: &PartitionState) -> String {
    let mut text = match state.committed {
        Some((next_offset, Some(effective_time))) => frontier(Committed {
            next_offset,
            effective_time,
        }),
        Some((next_offset, None)) => format!("offset {next_offset}, at an unknown effective time"),
        None => "no offset".to_owned(),
    };
    if let Some(watermark) = state.watermark {
        text.push_str("; the newest watermark record says ");
        text.push_str(&frontier(watermark));
    }
    text
}

fn frontier(at: Committed) -> String {
    let time = to_rfc3339(at.effective_time);
    format!("offset {} at effective time {time}", at.next_offset)
}

fn refused(why: &str) -> Failed {
    Failed::new(Exit::Refused, format!("{why}. Nothing was changed"))
}

/// Asks whoever sits at the terminal.
fn confirm() -> Result<(), Failed> {
    let not_done = |why| Failed::new(Exit::Usage, format!("nothing was changed: {why}"));
    if !io::stdin().is_terminal() {
        return Err(not_done("this cannot be taken back; to do it, add --yes"));
    }
    eprint!("This cannot be taken back. Type yes to do it: ");
    let mut answer = String::new();
    let read = io::stderr()
        .flush()
        .and_then(|()| io::stdin().read_line(&mut answer));
    match read {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        _ => Err(not_done("it was not confirmed")),
    }
}
