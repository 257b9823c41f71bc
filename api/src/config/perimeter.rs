//! Settings of what lies between the server and everybody: proxies, other sites, and what one address may take.

use axum::http::HeaderValue;
use clap::Args;

use super::Problems;
use crate::domain::address::{ForwardedHeader, Network, Proxies};

/// What of `serve` is about the perimeter, as it came.
#[derive(Clone, Debug, Args)]
pub(super) struct PerimeterArgs {
    /// Proxies that may say which address a request comes from: networks as `10.0.0.0/8`, with commas between them.
    #[arg(long, env = "GALVO_TRUSTED_PROXIES", default_value = "", value_name = "NETWORKS")]
    trusted_proxies: String,
    /// Sites whose pages may ask this server from a browser: origins as `https://example.com`, with commas between them.
    /// Their pages need a token; what a browser keeps is not sent along.
    #[arg(long, env = "GALVO_CORS_ORIGINS", default_value = "", value_name = "ORIGINS")]
    cors_origins: String,
    /// The header in which they say it: `x-forwarded-for` or `forwarded`. They must write it themselves.
    #[arg(long, env = "GALVO_FORWARDED_HEADER", default_value = "x-forwarded-for")]
    forwarded_header: String,
    /// What the GraphQL requests from one address may cost in a minute; more are told to come back later. Behind a proxy that
    /// is not trusted all requests come from one address.
    #[arg(long, env = "GALVO_QUERY_COST_PER_MINUTE_OF_ADDRESS", default_value = "50000000")]
    query_cost_per_minute_of_address: String,
    /// Bytes of reports taken in a minute from one token; more are told to come back later.
    #[arg(long, env = "GALVO_REPORT_BYTES_PER_MINUTE", default_value = "4000000000")]
    report_bytes_per_minute: String,
    /// Bytes of reports taken in a minute from one address.
    #[arg(long, env = "GALVO_REPORT_BYTES_PER_MINUTE_OF_ADDRESS", default_value = "16000000000")]
    report_bytes_per_minute_of_address: String,
}

/// What lies between the server and everybody.
#[derive(Clone, Debug)]
pub struct PerimeterConfig {
    /// Who may say which address a request comes from.
    pub proxies: Proxies,
    /// Sites whose pages may ask from a browser.
    pub cors_origins: Vec<HeaderValue>,
    /// What the GraphQL requests from one address may cost in a minute.
    pub query_cost_per_minute_of_address: u32,
    /// Bytes of reports taken in a minute from one token.
    pub report_bytes_per_minute: u64,
    /// Bytes of reports taken in a minute from one address.
    pub report_bytes_per_minute_of_address: u64,
}

impl Default for PerimeterConfig {
    /// Nobody is trusted, and there is room for everything.
    fn default() -> Self {
        Self {
            proxies: Proxies::default(),
            cors_origins: Vec::new(),
            query_cost_per_minute_of_address: u32::MAX,
            report_bytes_per_minute: 1 << 50,
            report_bytes_per_minute_of_address: 1 << 50,
        }
    }
}

impl PerimeterArgs {
    /// Adds what is wrong to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<PerimeterConfig> {
        let networks = self.trusted_proxies.split(',').map(str::trim).filter(|text| !text.is_empty());
        let networks: Option<Vec<Network>> =
            networks.map(|text| problems.read("trusted-proxies", text)).collect();
        let origins = self.cors_origins.split(',').map(str::trim).filter(|text| !text.is_empty());
        let origins: Option<Vec<HeaderValue>> = origins
            .map(|text| origin(text).map_err(|problem| problems.add("cors-origins", &problem)).ok())
            .collect();
        let header = match self.forwarded_header.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => Some(ForwardedHeader::XForwardedFor),
            "forwarded" => Some(ForwardedHeader::Forwarded),
            _ => {
                problems.add("forwarded-header", &"must be 'x-forwarded-for' or 'forwarded'");
                None
            }
        };
        let mut bytes = |flag, text| problems.within(flag, text, (1_000_000_u64, 1_000_000_000_000_000));
        let of_token = bytes("report-bytes-per-minute", &self.report_bytes_per_minute);
        let of_address =
            bytes("report-bytes-per-minute-of-address", &self.report_bytes_per_minute_of_address);
        let points = problems.within(
            "query-cost-per-minute-of-address",
            &self.query_cost_per_minute_of_address,
            (1_000, 1_000_000_000),
        );
        Some(PerimeterConfig {
            proxies: Proxies::new(networks?, header?),
            cors_origins: origins?,
            query_cost_per_minute_of_address: points?,
            report_bytes_per_minute: of_token?,
            report_bytes_per_minute_of_address: of_address?,
        })
    }
}

/// An origin as browsers write it: nothing else would ever be the same.
fn origin(text: &str) -> Result<HeaderValue, &'static str> {
    let wrong = "must be origins as in https://example.com or http://localhost:3000, each named: '*' is none";
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(wrong)?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(fits) {
        return Err(wrong);
    }
    HeaderValue::from_str(text).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_exact() {
        for text in ["https://example.com", "http://localhost:3000", "http://[::1]:8000"] {
            assert_eq!(origin(text).map_err(str::to_owned), Ok(HeaderValue::from_static(text)));
        }
        for text in
            ["*", "https://*", "https://example.com/", "example.com", "https://", "https://Example.com"]
        {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
