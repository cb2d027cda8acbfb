//! Event store, rollup store and control plane on Apache Cassandra.
