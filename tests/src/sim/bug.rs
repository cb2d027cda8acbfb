//! Planted bugs: what the simulator must catch if it is worth anything. They live in the
//! simulated world and in the drivers, never in production code.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// Ingest commits and publishes the watermark before it writes (R12).
    CommitBeforeWrite,
    /// Windows include their start (R14).
    InclusiveWindowStart,
    /// Windows close by the worker's clock, not by the low watermark (R14).
    WallClockClose,
    /// The committed effective time is lost: ingest resumes from the last raw append time (R2).
    EffectiveTimeLost,
    /// The low watermark is that of the newest partition (R12).
    NewestWatermark,
    /// The cache takes whatever comes last (R15).
    UnconditionalCacheSet,
    /// Ingest takes acknowledged rows for durable ones (R11).
    NoDurableWait,
    /// A store restart goes unnoticed (R11).
    NoGenerationCheck,
    /// A signal is committed when it is read (R17), and no sweep heals it.
    SignalCommittedAtReceipt,
    /// Of several copies of an identity the last one written wins (R8).
    LastCopyWins,
    /// A copy of an identity is stored again as another event, as by a random bucket (R8).
    RandomEventBucket,
    /// The gateway looks an identity up before it reads how far its window is closed (R16).
    LookUpBeforeClosed,
    /// An event exactly at the horizon is accepted (R4).
    AcceptsTheHorizon,
    /// A policy change takes effect at once, before leases run out (R5).
    PolicyChangeAtOnce,
    /// The rollup store takes an older checkpoint over a newer one (R15).
    OlderCheckpointWins,
    /// A checkpoint's count and its time are written apart: a restart may keep one of them (R15).
    NonAtomicCheckpoint,
    /// Each copy of an identity counts (R8).
    NoDeduplication,
    /// A late retry that is not stored yet is refused before its window is closed, and its caller
    /// may count it again (R16).
    LateIsRefusedAtOnce,
    /// Ingest reads what a transaction may yet take back (R13).
    ReadsUncommitted,
    /// A commit that tells no effective time is gone on from all the same (R2).
    WithoutMetadataFromTheCommit,
    /// A partition is read before anybody knows of it (R12).
    PartitionNotRegistered,
    /// An accurate read stops at the clock, not at the newest time that can be stored.
    ReadStopsAtTheClock,
    /// An accurate read does not notice that a slice was dropped (R19).
    ReadOverlooksDrops,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 23] = [
        Self::CommitBeforeWrite,
        Self::InclusiveWindowStart,
        Self::WallClockClose,
        Self::EffectiveTimeLost,
        Self::NewestWatermark,
        Self::UnconditionalCacheSet,
        Self::NoDurableWait,
        Self::NoGenerationCheck,
        Self::SignalCommittedAtReceipt,
        Self::LastCopyWins,
        Self::RandomEventBucket,
        Self::LookUpBeforeClosed,
        Self::AcceptsTheHorizon,
        Self::PolicyChangeAtOnce,
        Self::OlderCheckpointWins,
        Self::NonAtomicCheckpoint,
        Self::NoDeduplication,
        Self::LateIsRefusedAtOnce,
        Self::ReadsUncommitted,
        Self::WithoutMetadataFromTheCommit,
        Self::PartitionNotRegistered,
        Self::ReadStopsAtTheClock,
        Self::ReadOverlooksDrops,
    ];
}
