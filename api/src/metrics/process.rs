//! The process, as Linux tells of it. Elsewhere nothing is told.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// Ticks of a second, in which Linux tells programs times: it is the same on all machines it is compiled for here, whatever the
/// kernel itself counts in.
const TICKS: f64 = 100.0;

/// Reads how the process is when somebody asks.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(Readings { cpu_seconds, started, resident, virtual_bytes, threads, open_files, max_files }) =
            Readings::now()
        else {
            return Ok(());
        };
        let cpu = ConstCounter::new(cpu_seconds);
        let help = "Time of processors that the process used";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        for (name, help, value) in [
            (
                "process_start_time_seconds",
                "When the process was started, in seconds since 1970",
                Some(started),
            ),
            ("process_resident_memory_bytes", "Memory of the process that is in use", Some(resident)),
            ("process_virtual_memory_bytes", "Addresses of the process that are in use", Some(virtual_bytes)),
            ("process_threads", "Threads of the process", Some(threads)),
            ("process_open_fds", "File descriptors that are open", Some(open_files)),
            ("process_max_fds", "File descriptors that may be open", max_files),
        ] {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
            }
        }
        Ok(())
    }
}

/// How the process is.
struct Readings {
    cpu_seconds: f64,
    started: f64,
    resident: f64,
    virtual_bytes: f64,
    threads: f64,
    open_files: f64,
    /// None if there is no limit.
    max_files: Option<f64>,
}

impl Readings {
    fn now() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok();
        // The name in front of the other values may hold anything, but ends with the last parenthesis.
        let stat = read("/proc/self/stat")?;
        let values: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // Numbered as proc(5) does, whose third value is the first here.
        let value = |number: usize| values.get(number - 3)?.parse::<f64>().ok();
        let status = read("/proc/self/status")?;
        let kibibytes = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()
        };
        let kernel = read("/proc/stat")?;
        let boot: f64 = kernel.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        let limits = read("/proc/self/limits")?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many files")]
        let open_files = fs::read_dir("/proc/self/fd").ok()?.count() as f64;
        Some(Self {
            cpu_seconds: (value(14)? + value(15)?) / TICKS,
            started: boot + value(22)? / TICKS,
            resident: kibibytes("VmRSS:")? * 1024.0,
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
        let now = Readings::now().expect("it tells");
        assert!(now.resident > 1e6 && now.virtual_bytes >= now.resident);
        assert!(now.threads >= 1.0 && now.open_files >= 3.0);
        assert!(now.max_files.is_none_or(|max| max >= now.open_files));
        let since_1970 = std::time::UNIX_EPOCH.elapsed().expect("it is later").as_secs_f64();
        assert!(now.started > 1e9 && now.started <= since_1970 + 1.0, "{}", now.started);
    }
}
