//! The distributed roles as processes, on a real Kafka, Cassandra and Redis. The tests take turns,
//! since two of them at once would starve each other on a small machine, and those that break
//! nothing share one installation.

mod best_effort;
mod binary;
mod cassandra;
mod installation;
mod kafka;
mod mutations;
mod own_stack;
mod turns;

mod faults;
mod fitness;
mod frozen;
mod hot;
mod imported;
mod killed;
mod lagging;
mod operator;
mod partitioned;
mod poisoned;
mod producer_in_python;
mod refused;
mod stores_lost;
mod tenants;
mod verbs;
