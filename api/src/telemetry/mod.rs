//! The log and the export of traces. They never contain a token, an e-mail address or a body.

mod traces;

use std::io::{self, IsTerminal};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt,
};

use self::traces::Traces;
use crate::config::{CommonConfig, LogFormat, TracesConfig};

pub(crate) use self::traces::{join_trace, record_status};

/// The running telemetry. Spans that were not sent are lost when it is dropped.
#[must_use]
pub struct Telemetry(Option<Traces>);

/// Starts the log and the trace export. The log goes to standard error, because standard output belongs
/// to the commands.
pub fn start(config: &CommonConfig, traces: Option<&TracesConfig>) -> Telemetry {
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let log: Box<dyn Layer<Registry> + Send + Sync> = match config.log_format {
        LogFormat::Text => log.boxed(),
        LogFormat::Json => log.json().boxed(),
    };
    let log = log.with_filter(EnvFilter::new(with_default_directives(&config.log)));
    let traces = traces.map(Traces::start);
    let layer = traces.as_ref().map(Traces::layer);
    // A second start, as in tests within one process, keeps the first.
    let _ = tracing_subscriber::registry().with(log).with(layer).try_init();
    Telemetry(traces)
}

/// Returns the filter of the log. Notices of the database driver and of migrations are limited to
/// warnings, unless the operator names them or enables debug output for everything.
fn with_default_directives(log: &str) -> String {
    let is_global_debug = |directive: &str| {
        directive.trim().parse::<LevelFilter>().is_ok_and(|level| level >= LevelFilter::DEBUG)
    };
    if log.split(',').any(is_global_debug) {
        return log.to_owned();
    }
    // Later directives for the same target take precedence.
    format!("sqlx=warn,sea_orm_migration=warn,{log}")
}

impl Telemetry {
    /// Sends the remaining spans.
    pub async fn end(self) {
        if let Some(traces) = self.0 {
            traces.end().await;
        }
    }
}
