//! Network settings: trusted proxies, accepted hosts, CORS origins, and rate limits per address.

use axum::http::HeaderValue;
use clap::Args;

use super::Problems;
use crate::domain::client_ip::{ForwardedHeader, Network, TrustedProxies};

/// The network options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub(super) struct NetworkArgs {
    /// Proxies whose forwarding header is trusted for the client's address: networks or addresses such
    /// as `10.0.0.0/8`, separated by commas. Without it, all clients behind a proxy share the proxy's
    /// address and its rate limits.
    #[arg(long, env = "GALVO_TRUSTED_PROXIES", default_value = "", value_name = "NETWORKS")]
    trusted_proxies: String,
    /// Origins whose pages may call this server from a browser, such as `https://example.com`, separated
    /// by commas. Such requests need an API token or a JWT; cookies are not accepted.
    #[arg(long, env = "GALVO_CORS_ORIGINS", default_value = "", value_name = "ORIGINS")]
    cors_origins: String,
    /// Host names of this server in addition to the one in `GALVO_PUBLIC_URL`, such as
    /// `upstream.internal`, separated by commas. Pages, cookies and /metrics work only under these
    /// names, `localhost` and IP addresses. Other names receive status 421.
    #[arg(long, env = "GALVO_HOSTS", default_value = "", value_name = "NAMES")]
    hosts: String,
    /// Header in which trusted proxies report the client's address: `x-forwarded-for` or `forwarded`.
    /// The proxies must set it themselves.
    #[arg(long, env = "GALVO_FORWARDED_HEADER", default_value = "x-forwarded-for")]
    forwarded_header: String,
    /// Maximum total cost of the GraphQL requests per client address in a minute, from 1000 to
    /// 1000000000. Requests beyond the limit receive status 429. Behind an untrusted proxy all requests
    /// count for one address. Must not be less than `GALVO_MAX_QUERY_COST`.
    #[arg(long, env = "GALVO_QUERY_COST_PER_MINUTE_OF_ADDRESS", default_value = "50000000")]
    query_cost_per_minute_of_address: String,
    /// Maximum size of the reports per API token in a minute, in bytes as sent, from 1000000 to
    /// 1000000000000000. Requests beyond the limit receive status 429.
    #[arg(long, env = "GALVO_REPORT_BYTES_PER_MINUTE", default_value = "4000000000")]
    report_bytes_per_minute: String,
    /// Maximum size of the reports per client address in a minute, in bytes as sent, from 1000000 to
    /// 1000000000000000. Requests beyond the limit receive status 429.
    #[arg(long, env = "GALVO_REPORT_BYTES_PER_MINUTE_OF_ADDRESS", default_value = "16000000000")]
    report_bytes_per_minute_of_address: String,
}

/// The network settings.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The proxies whose forwarding header is trusted.
    pub proxies: TrustedProxies,
    /// The server's other host names, in lower case.
    pub hosts: Vec<String>,
    /// The origins whose pages may call the server from a browser.
    pub cors_origins: Vec<HeaderValue>,
    /// The maximum cost of the GraphQL requests per client address in a minute.
    pub query_cost_per_minute_of_address: u32,
    /// The maximum size of the reports per API token in a minute, in bytes.
    pub report_bytes_per_minute: u64,
    /// The maximum size of the reports per client address in a minute, in bytes.
    pub report_bytes_per_minute_of_address: u64,
}

impl Default for NetworkConfig {
    /// Returns settings without trusted proxies and with practically no limits.
    fn default() -> Self {
        Self {
            proxies: TrustedProxies::default(),
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            query_cost_per_minute_of_address: u32::MAX,
            report_bytes_per_minute: 1 << 50,
            report_bytes_per_minute_of_address: 1 << 50,
        }
    }
}

impl NetworkArgs {
    /// Parses the options and adds each problem to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<NetworkConfig> {
        let networks = self.trusted_proxies.split(',').map(str::trim).filter(|text| !text.is_empty());
        let networks: Option<Vec<Network>> =
            networks.map(|text| problems.read("trusted-proxies", text)).collect();
        let hosts = self.hosts.split(',').map(str::trim).filter(|text| !text.is_empty());
        let hosts: Option<Vec<String>> = hosts
            .map(|text| parse_host(text).map_err(|problem| problems.add("hosts", &problem)).ok())
            .collect();
        let origins = self.cors_origins.split(',').map(str::trim).filter(|text| !text.is_empty());
        let origins: Option<Vec<HeaderValue>> = origins
            .map(|text| parse_origin(text).map_err(|problem| problems.add("cors-origins", &problem)).ok())
            .collect();
        let header = match self.forwarded_header.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => Some(ForwardedHeader::XForwardedFor),
            "forwarded" => Some(ForwardedHeader::Forwarded),
            _ => {
                problems.add("forwarded-header", &"must be 'x-forwarded-for' or 'forwarded'");
                None
            }
        };
        let mut read_bytes =
            |flag, text| problems.read_in_range(flag, text, (1_000_000_u64, 1_000_000_000_000_000));
        let report_bytes = read_bytes("report-bytes-per-minute", &self.report_bytes_per_minute);
        let address_report_bytes =
            read_bytes("report-bytes-per-minute-of-address", &self.report_bytes_per_minute_of_address);
        let address_query_cost = problems.read_in_range(
            "query-cost-per-minute-of-address",
            &self.query_cost_per_minute_of_address,
            (1_000, 1_000_000_000),
        );
        Some(NetworkConfig {
            proxies: TrustedProxies::new(networks?, header?),
            hosts: hosts?,
            cors_origins: origins?,
            query_cost_per_minute_of_address: address_query_cost?,
            report_bytes_per_minute: report_bytes?,
            report_bytes_per_minute_of_address: address_report_bytes?,
        })
    }
}

/// Parses a host name without scheme and port, and converts it to lower case.
fn parse_host(text: &str) -> Result<String, &'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_valid = text.chars().all(is_allowed) && !text.starts_with('.') && !text.ends_with('.');
    let message = "must be host names such as galvo.example or upstream.internal, without a scheme and a \
                 port; '*' is not allowed";
    if is_valid { Ok(text.to_ascii_lowercase()) } else { Err(message) }
}

/// Parses an origin in the exact form that browsers send. Any other form would never match.
fn parse_origin(text: &str) -> Result<HeaderValue, &'static str> {
    let message = "must be origins such as https://example.com or http://localhost:3000; '*' is not allowed";
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(message)?;
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_allowed) {
        return Err(message);
    }
    HeaderValue::from_str(text).map_err(|_| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_port() {
        for text in ["galvo.example", "upstream", "a_b-c.internal"] {
            assert_eq!(parse_host(text).as_deref(), Ok(text));
        }
        assert_eq!(parse_host("Galvo.Example").as_deref(), Ok("galvo.example"));
        for text in
            ["*", "*.example", "galvo.example:8000", "https://galvo.example", ".example", "example.", "gälvo"]
        {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn origins_are_exact() {
        for text in ["https://example.com", "http://localhost:3000", "http://[::1]:8000"] {
            assert_eq!(parse_origin(text).map_err(str::to_owned), Ok(HeaderValue::from_static(text)));
        }
        for text in
            ["*", "https://*", "https://example.com/", "example.com", "https://", "https://Example.com"]
        {
            assert!(parse_origin(text).is_err(), "{text}");
        }
    }
}
