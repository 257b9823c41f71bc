//! The questions about a cluster, and the parts of its reports that the answers are based on.

/// A question that is answered about a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The completion of the computations.
    Finished,
    /// The occurrence of exceptions.
    Exceptions,
    /// The cost.
    Cost,
    /// The functions that take the most time.
    TopTime,
    /// The reason why the cluster is still running.
    WhyRunning,
    /// The time lost to contention for the GIL.
    Gil,
    /// The time lost to the network.
    Network,
    /// The time lost to spilling.
    Spill,
    /// The time lost to blocked event loops.
    EventLoop,
    /// The functions that hold threads without using the CPU.
    Cpu,
    /// The changes since an earlier run.
    WhatChanged,
    /// The work that takes more time than before.
    Slower,
    /// The work with new inefficiency.
    Scaling,
}

/// The scope of the claim that a good answer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// A claim about everything the cluster did. One unknown event may refute it.
    Everything,
    /// A proportion. The known part is representative.
    Proportion,
    /// A claim about the present state of the cluster.
    Present,
}

impl Question {
    /// All questions, in the order of the API.
    pub const ALL: [Self; 13] = [
        Self::Finished,
        Self::Exceptions,
        Self::Cost,
        Self::TopTime,
        Self::WhyRunning,
        Self::Gil,
        Self::Network,
        Self::Spill,
        Self::EventLoop,
        Self::Cpu,
        Self::WhatChanged,
        Self::Slower,
        Self::Scaling,
    ];

    pub(super) fn claim(self) -> Claim {
        match self {
            Self::Finished | Self::Exceptions | Self::WhatChanged | Self::Slower => Claim::Everything,
            Self::Cost
            | Self::TopTime
            | Self::Gil
            | Self::Network
            | Self::Spill
            | Self::EventLoop
            | Self::Cpu
            | Self::Scaling => Claim::Proportion,
            Self::WhyRunning => Claim::Present,
        }
    }

    /// Returns the report sections that the answer is based on. The answer about exceptions counts
    /// unstored errors itself.
    pub(super) fn sections(self) -> &'static [&'static str] {
        match self {
            Self::Finished => &["computations"],
            Self::Exceptions | Self::WhyRunning => &[],
            Self::Cost | Self::TopTime => &["usage"],
            Self::Gil | Self::EventLoop => &["samples"],
            Self::Network | Self::Spill => &["fine_metrics", "usage"],
            Self::Cpu => &["fine_metrics"],
            Self::WhatChanged => &["environments", "workers", "spans"],
            Self::Slower | Self::Scaling => &["fine_metrics", "spans", "thread_history"],
        }
    }

    /// Returns true if the answer is based on data of the class `TASKS`, which an account may refuse
    /// during a part of a cluster's life.
    pub(super) fn rests_on_tasks(self) -> bool {
        match self {
            Self::Finished | Self::TopTime | Self::Network | Self::Cpu | Self::Slower | Self::Scaling => true,
            Self::Exceptions
            | Self::Cost
            | Self::WhyRunning
            | Self::Gil
            | Self::Spill
            | Self::EventLoop
            | Self::WhatChanged => false,
        }
    }
}
