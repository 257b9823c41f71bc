//! The log: what the program says about itself. Never a token, an e-mail address or a body.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{CommonConfig, LogFormat};

/// Starts the log, on standard error: standard output belongs to what commands print.
pub fn start(config: &CommonConfig) {
    let filter = EnvFilter::new(&config.log);
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    // Starting twice, as tests in one process may, keeps the first.
    let _ = match config.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}
