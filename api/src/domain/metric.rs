//! Metrics of samples. Each has a number that is permanent, because packed samples contain it.

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $name:literal, $unit:ident;)+) => {
        /// A quantity in samples.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Metric {
            $($(#[doc = $doc])+ $variant = $number,)+
        }

        impl Metric {
            /// All metrics, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the unit of its values.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)+ }
            }

            /// Returns the metric with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }

            /// Returns the metric with this number.
            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of objects.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// CPU cores in use.
    Cores,
    /// Seconds.
    Seconds,
    /// A share from 0 to 1.
    Share,
}

/// The aggregation of a metric's values over several clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The smallest value.
    Least,
    /// The largest value.
    Greatest,
}

impl Metric {
    /// Returns the aggregation over several clusters. Shares and times are not summed.
    #[must_use]
    pub fn combination(self) -> Combination {
        match (self, self.unit()) {
            // The least free space is that of the fullest disk, as within a cluster.
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
    /// The number of connected workers.
    Workers = 1, "workers", Count;
    /// The number of threads of the connected workers.
    Threads = 2, "threads", Count;
    /// The memory of the worker processes.
    MemoryProcess = 3, "memory_process_bytes", Bytes;
    /// The part of this memory that holds results managed by Dask.
    MemoryManaged = 4, "memory_managed_bytes", Bytes;
    /// The part of this memory that Dask does not manage.
    MemoryUnmanaged = 5, "memory_unmanaged_bytes", Bytes;
    /// The size of results moved to disk.
    MemorySpilled = 6, "memory_spilled_bytes", Bytes;
    /// The sum of the memory limits.
    MemoryLimit = 7, "memory_limit_bytes", Bytes;
    /// The CPU usage of the worker processes.
    Cpu = 8, "cpu_cores", Cores;
    /// The rate at which the hosts receive data.
    NetworkRead = 9, "network_read_bytes_per_second", BytesPerSecond;
    /// The rate at which the hosts send data.
    NetworkWrite = 10, "network_write_bytes_per_second", BytesPerSecond;
    /// The rate at which the hosts read from disk.
    DiskRead = 11, "disk_read_bytes_per_second", BytesPerSecond;
    /// The rate at which the hosts write to disk.
    DiskWrite = 12, "disk_write_bytes_per_second", BytesPerSecond;
    /// The free space of the disk used for spilling. For a cluster, that of the fullest disk.
    DiskFree = 13, "disk_free_bytes", Bytes;
    /// The size of this disk.
    DiskTotal = 14, "disk_total_bytes", Bytes;
    /// The lowest GIL contention of a worker.
    GilContentionMin = 15, "gil_contention_min", Share;
    /// The share of time in which the GIL was busy. For a cluster, the median of its workers.
    GilContention = 16, "gil_contention", Share;
    /// The highest GIL contention of a worker.
    GilContentionMax = 17, "gil_contention_max", Share;
    /// The shortest tick of a worker's event loop.
    EventLoopMin = 18, "event_loop_seconds_min", Seconds;
    /// The time between two ticks of the event loop. For a cluster, the median of its workers.
    EventLoop = 19, "event_loop_seconds", Seconds;
    /// The longest tick of a worker's event loop.
    EventLoopMax = 20, "event_loop_seconds_max", Seconds;
    /// The CPU usage of the scheduler.
    SchedulerCpu = 21, "scheduler_cpu_cores", Cores;
    /// The memory of the scheduler.
    SchedulerMemory = 22, "scheduler_memory_bytes", Bytes;
    /// The time between two ticks of the scheduler's event loop.
    SchedulerEventLoop = 23, "scheduler_event_loop_seconds", Seconds;
    /// The number of tasks assigned to a worker.
    TasksProcessing = 24, "tasks_processing", Count;
    /// The number of tasks that wait for other tasks.
    TasksWaiting = 25, "tasks_waiting", Count;
    /// The number of tasks queued until a thread is free.
    TasksQueued = 26, "tasks_queued", Count;
    /// The number of tasks that no worker may run.
    TasksNoWorker = 27, "tasks_no_worker", Count;
    /// The number of results held in memory.
    TasksMemory = 28, "tasks_memory", Count;
    /// The number of tasks that failed, or that depend on a failed one.
    TasksErred = 29, "tasks_erred", Count;
    /// The number of tasks that are not needed now.
    TasksReleased = 30, "tasks_released", Count;
    /// The number of tasks that a worker is running.
    TasksExecuting = 31, "tasks_executing", Count;
    /// The number of tasks that a worker could run immediately.
    TasksReady = 32, "tasks_ready", Count;
    /// The number of results that a worker is fetching.
    TasksInFlight = 33, "tasks_in_flight", Count;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for metric in Metric::ALL.iter().copied() {
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
            assert_eq!(Metric::from_number(metric as u8), Some(metric));
        }
        assert_eq!((Metric::from_name("nothing"), Metric::from_number(0)), (None, None));
    }
}
