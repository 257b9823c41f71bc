//! Settings of trace export.

use clap::Args;
use url::Url;

use super::Problems;
use crate::domain::outgoing_url::is_plain_http_url;

/// The trace options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub(super) struct TracesArgs {
    /// URL of the collector for traces of requests, reached by OTLP over HTTP, such as
    /// `http://collector:4318`, without a query. Without it no traces are exported. The standard
    /// variables `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER` and `OTEL_SERVICE_NAME` apply.
    #[arg(long, env = "GALVO_TRACES_ENDPOINT", value_name = "URL", hide_env_values = true)]
    traces_endpoint: Option<String>,
}

/// The trace collector.
#[derive(Clone, Debug)]
pub struct TracesConfig {
    /// The collector's base URL. Traces are sent to `/v1/traces` below it.
    pub endpoint: Url,
}

impl TracesArgs {
    /// Parses the options and adds each problem to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<TracesConfig> {
        let text = self.traces_endpoint.as_deref()?;
        // The message does not repeat the value: it may hold a password.
        let endpoint = Url::parse(text)
            .ok()
            .filter(|url| is_plain_http_url(url) && url.query().is_none() && url.fragment().is_none());
        if endpoint.is_none() {
            problems.add("traces-endpoint", &"must be a URL such as http://collector:4318, without a query");
        }
        Some(TracesConfig { endpoint: endpoint? })
    }
}
