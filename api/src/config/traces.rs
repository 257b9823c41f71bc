//! Settings of traces: where they are collected.

use clap::Args;
use url::Url;

use super::Problems;
use crate::domain::http_address::is_http_address;

/// What `serve` takes of it, as it came.
#[derive(Clone, Debug, Args)]
pub(super) struct TracesArgs {
    /// Where traces of requests are collected by OTLP over HTTP, as `http://collector:4318`. There are none if it is not given.
    /// The variables that are usual for it say more: `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME`.
    #[arg(long, env = "GALVO_TRACES_ENDPOINT", value_name = "URL", hide_env_values = true)]
    traces_endpoint: Option<String>,
}

/// Where traces are collected.
#[derive(Clone, Debug)]
pub struct TracesConfig {
    /// The collector's address, below which it takes traces at `/v1/traces`.
    pub endpoint: Url,
}

impl TracesArgs {
    /// Adds what is wrong to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<TracesConfig> {
        let text = self.traces_endpoint.as_deref()?;
        // What is wrong is not repeated: it may hold a password.
        let endpoint = Url::parse(text)
            .ok()
            .filter(|url| is_http_address(url) && url.query().is_none() && url.fragment().is_none());
        if endpoint.is_none() {
            problems.add("traces-endpoint", &"must be an address as http://collector:4318, without a query");
        }
        Some(TracesConfig { endpoint: endpoint? })
    }
}
