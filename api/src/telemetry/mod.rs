//! What the program says about itself: the log, and traces if somebody collects them. Never a token, an e-mail address or a body.

mod traces;

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

use self::traces::Traces;
use crate::config::{CommonConfig, LogFormat, TracesConfig};

pub(crate) use self::traces::{answer, follow};

/// What is being said. What has not been sent when it is dropped is lost.
#[must_use]
pub struct Telemetry(Option<Traces>);

/// Starts the log, on standard error: standard output belongs to what commands print. Traces go to their collector.
pub fn start(config: &CommonConfig, traces: Option<&TracesConfig>) -> Telemetry {
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let log: Box<dyn Layer<Registry> + Send + Sync> = match config.log_format {
        LogFormat::Text => log.boxed(),
        LogFormat::Json => log.json().boxed(),
    };
    let log = log.with_filter(EnvFilter::new(&config.log));
    let traces = traces.map(Traces::start);
    let layer = traces.as_ref().map(Traces::layer);
    // Starting twice, as tests in one process may, keeps the first.
    let _ = tracing_subscriber::registry().with(log).with(layer).try_init();
    Telemetry(traces)
}

impl Telemetry {
    /// Sends what has not been sent.
    pub async fn end(self) {
        if let Some(traces) = self.0 {
            traces.end().await;
        }
    }
}
