//! Flame graphs of the server's CPU time during a measurement.

use std::{
    fs,
    io::{self, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use inferno::{
    collapse::{Collapse, perf::Folder},
    flamegraph,
};
use tokio::process::{Child, Command as TokioCommand};

/// The variable with the directory for the graphs. Without it there are none. Sampling slows the
/// measurement a little.
const DIRECTORY_VARIABLE: &str = "BENCH_FLAME_GRAPHS";

/// The number of samples per thread and second.
const FREQUENCY: &str = "99";

/// The duration of the sampling, in seconds. Each sample includes some kilobytes of stack.
const SECONDS: &str = "30";

/// A running collection of a process's stacks, by Linux's `perf`.
pub(crate) struct FlameGraph {
    perf: Child,
    samples: PathBuf,
    picture: PathBuf,
}

impl FlameGraph {
    /// Starts the collection for a process. Returns `None` if the variable is not set.
    pub(crate) fn start(pid: u32) -> io::Result<Option<Self>> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from) else {
            return Ok(None);
        };
        let directory = directory.canonicalize()?;
        let benchmark = std::env::args().nth(1).unwrap_or_default();
        let name = format!("{benchmark}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let samples = directory.join(format!("{name}.data"));
        let perf = TokioCommand::new("perf")
            .args(["record", "--quiet", "--freq", FREQUENCY, "--call-graph", "dwarf", "--output"])
            .arg(&samples)
            .args(["--pid", &pid.to_string(), "--", "sleep", SECONDS])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Some(Self { perf, samples, picture: directory.join(format!("{name}.svg")) }))
    }

    /// Ends the collection and draws the graph, if there are samples.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        if let Some(pid) = self.perf.id() {
            TokioCommand::new("kill").args(["-INT", &pid.to_string()]).status().await?;
        }
        // It may already have ended by itself.
        self.perf.wait().await?;
        let result = tokio::task::spawn_blocking(move || self.draw()).await;
        result.map_err(io::Error::other)?
    }

    fn draw(&self) -> io::Result<()> {
        let mut script = Command::new("perf")
            .args(["script", "--input"])
            .arg(&self.samples)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let perf_output = BufReader::new(script.stdout.take().expect("it is piped"));
        let mut stacks = Vec::new();
        Folder::default().collapse(perf_output, &mut stacks)?;
        script.wait()?;
        if stacks.is_empty() {
            // A short-lived server may end before perf takes its first sample, or even before it
            // writes a file.
            return match fs::remove_file(&self.samples) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let mut options = flamegraph::Options::default();
        options.title = self.picture.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let picture = fs::File::create(&self.picture)?;
        flamegraph::from_reader(&mut options, stacks.as_slice(), picture).map_err(io::Error::other)?;
        fs::remove_file(&self.samples)
    }
}
