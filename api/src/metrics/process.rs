//! Metrics of the process, from Linux's `/proc`. There are none on other systems.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// The number of clock ticks per second in `/proc`. It is the same on all supported architectures,
/// regardless of the kernel's timer frequency.
const TICKS_PER_SECOND: f64 = 100.0;

/// A collector that reads the values at each scrape.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(Readings {
            cpu_seconds,
            start_seconds,
            resident_bytes,
            virtual_bytes,
            threads,
            open_files,
            max_files,
        }) = Readings::read()
        else {
            return Ok(());
        };
        let cpu = ConstCounter::new(cpu_seconds);
        let help = "CPU time of the process";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        for (name, help, value) in [
            (
                "process_start_time_seconds",
                "Start time of the process, in seconds since 1970-01-01 UTC",
                Some(start_seconds),
            ),
            ("process_resident_memory_bytes", "Resident memory of the process", Some(resident_bytes)),
            ("process_virtual_memory_bytes", "Virtual memory of the process", Some(virtual_bytes)),
            ("process_threads", "Threads of the process", Some(threads)),
            ("process_open_fds", "Open file descriptors", Some(open_files)),
            ("process_max_fds", "Limit of open file descriptors", max_files),
        ] {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
            }
        }
        Ok(())
    }
}

/// The values of the process at one time.
struct Readings {
    cpu_seconds: f64,
    /// In seconds since 1970-01-01 UTC.
    start_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    threads: f64,
    open_files: f64,
    /// `None` if there is no limit.
    max_files: Option<f64>,
}

impl Readings {
    fn read() -> Option<Self> {
        let read_file = |path| fs::read_to_string(path).ok();
        // The process name may contain any character. It ends with the last parenthesis.
        let stat = read_file("/proc/self/stat")?;
        let values: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // `number` is the number of the field in proc(5). The first field in `values` is its third.
        let value = |number: usize| values.get(number - 3)?.parse::<f64>().ok();
        let status = read_file("/proc/self/status")?;
        let kibibytes = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()
        };
        let system_stat = read_file("/proc/stat")?;
        let boot_seconds: f64 =
            system_stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        let limits = read_file("/proc/self/limits")?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let open_files = fs::read_dir("/proc/self/fd").ok()?.count() as f64;
        Some(Self {
            cpu_seconds: (value(14)? + value(15)?) / TICKS_PER_SECOND,
            start_seconds: boot_seconds + value(22)? / TICKS_PER_SECOND,
            resident_bytes: kibibytes("VmRSS:")? * 1024.0,
            virtual_bytes: kibibytes("VmSize:")? * 1024.0,
            threads: value(20)?,
            open_files,
            max_files: limit.split_whitespace().next()?.parse().ok(),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_how_the_process_is() {
        let readings = Readings::read().expect("it tells");
        assert!(readings.resident_bytes > 1e6 && readings.virtual_bytes >= readings.resident_bytes);
        assert!(readings.threads >= 1.0 && readings.open_files >= 3.0);
        assert!(readings.max_files.is_none_or(|max| max >= readings.open_files));
        let since_1970 = std::time::UNIX_EPOCH.elapsed().expect("it is later").as_secs_f64();
        assert!(
            readings.start_seconds > 1e9 && readings.start_seconds <= since_1970 + 1.0,
            "{}",
            readings.start_seconds
        );
    }
}
