//! What samples measure, each with a number that packed samples keep for ever.

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $name:literal, $unit:ident;)+) => {
        /// A quantity that is measured again and again.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Metric {
            $($(#[doc = $doc])+ $variant = $code,)+
        }

        impl Metric {
            /// All metrics, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What its values count.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)+ }
            }

            /// The metric with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }

            /// The metric with this number.
            #[must_use]
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

/// What the values of a metric count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// CPU cores kept busy.
    Cores,
    /// Seconds.
    Seconds,
    /// A share from 0 to 1.
    Share,
}

/// How the values of several clusters become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// They are added.
    Sum,
    /// Their mean.
    Mean,
    /// The least of them.
    Least,
    /// The greatest of them.
    Greatest,
}

impl Metric {
    /// How its values of several clusters become one: what is a share or a time has no sum.
    #[must_use]
    pub fn combination(self) -> Combination {
        match (self, self.unit()) {
            // Of a cluster, the fullest disk counts.
            (Self::GilContentionMin | Self::EventLoopMin | Self::DiskFree | Self::DiskTotal, _) => {
                Combination::Least
            }
            (Self::GilContentionMax | Self::EventLoopMax, _) => Combination::Greatest,
            (_, Unit::Share | Unit::Seconds) => Combination::Mean,
            _ => Combination::Sum,
        }
    }
}

metrics! {
    /// Connected workers.
    Workers = 1, "workers", Count;
    /// Their threads.
    Threads = 2, "threads", Count;
    /// Memory of the worker processes.
    MemoryProcess = 3, "memory_process_bytes", Bytes;
    /// Of that, results Dask manages.
    MemoryManaged = 4, "memory_managed_bytes", Bytes;
    /// Of that, what Dask does not know of.
    MemoryUnmanaged = 5, "memory_unmanaged_bytes", Bytes;
    /// Results moved to disk.
    MemorySpilled = 6, "memory_spilled_bytes", Bytes;
    /// Sum of the memory limits.
    MemoryLimit = 7, "memory_limit_bytes", Bytes;
    /// CPU used by the worker processes.
    Cpu = 8, "cpu_cores", Cores;
    /// Received by the hosts.
    NetworkRead = 9, "network_read_bytes_per_second", BytesPerSecond;
    /// Sent by the hosts.
    NetworkWrite = 10, "network_write_bytes_per_second", BytesPerSecond;
    /// Read from the hosts' disks.
    DiskRead = 11, "disk_read_bytes_per_second", BytesPerSecond;
    /// Written to the hosts' disks.
    DiskWrite = 12, "disk_write_bytes_per_second", BytesPerSecond;
    /// Free on the disk data is spilled to; of a cluster, on the fullest.
    DiskFree = 13, "disk_free_bytes", Bytes;
    /// Size of that disk.
    DiskTotal = 14, "disk_total_bytes", Bytes;
    /// The least GIL contention of a worker.
    GilContentionMin = 15, "gil_contention_min", Share;
    /// Share of time threads waited for the GIL; of a cluster, the median of its workers.
    GilContention = 16, "gil_contention", Share;
    /// The greatest GIL contention of a worker.
    GilContentionMax = 17, "gil_contention_max", Share;
    /// The least delay of a worker's event loop.
    EventLoopMin = 18, "event_loop_seconds_min", Seconds;
    /// Time between two ticks of the event loop; of a cluster, the median of its workers.
    EventLoop = 19, "event_loop_seconds", Seconds;
    /// The greatest delay of a worker's event loop.
    EventLoopMax = 20, "event_loop_seconds_max", Seconds;
    /// CPU used by the scheduler.
    SchedulerCpu = 21, "scheduler_cpu_cores", Cores;
    /// Memory of the scheduler.
    SchedulerMemory = 22, "scheduler_memory_bytes", Bytes;
    /// Time between two ticks of the scheduler's event loop.
    SchedulerEventLoop = 23, "scheduler_event_loop_seconds", Seconds;
    /// Tasks assigned to a worker.
    TasksProcessing = 24, "tasks_processing", Count;
    /// Tasks waiting for others.
    TasksWaiting = 25, "tasks_waiting", Count;
    /// Tasks held back until a thread is free.
    TasksQueued = 26, "tasks_queued", Count;
    /// Tasks no worker may run.
    TasksNoWorker = 27, "tasks_no_worker", Count;
    /// Results held.
    TasksMemory = 28, "tasks_memory", Count;
    /// Tasks that failed, or depend on one that did.
    TasksErred = 29, "tasks_erred", Count;
    /// Tasks not needed now.
    TasksReleased = 30, "tasks_released", Count;
    /// Tasks a worker runs.
    TasksExecuting = 31, "tasks_executing", Count;
    /// Tasks a worker could run at once.
    TasksReady = 32, "tasks_ready", Count;
    /// Results a worker is fetching.
    TasksInFlight = 33, "tasks_in_flight", Count;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for metric in Metric::ALL.iter().copied() {
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
            assert_eq!(Metric::from_code(metric as u8), Some(metric));
        }
        assert_eq!((Metric::from_name("nothing"), Metric::from_code(0)), (None, None));
    }
}
