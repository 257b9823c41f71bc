//! The settings of the server: the options of `galvo serve`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    AlertConfig, DashboardSource, JWT_SECRET, JwtConfig, NetworkConfig, OIDC_CLIENT_SECRET, OidcConfig,
    Problems, Timeouts, TlsConfig, TracesConfig, alert::AlertArgs, dashboard::DashboardArgs, jwt::JwtArgs,
    network_settings::NetworkArgs, oidc::OidcArgs, quota::QuotaArgs, tls::TlsArgs, traces::TracesArgs,
};
use crate::{
    bus::RedisUrl,
    domain::{public_url::PublicUrl, quota::Limits, session::SessionLifetimes},
};

/// The settings of the server.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct ServeConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The separate address for metrics. `None` if metrics are served on `listen`.
    pub metrics_listen: Option<SocketAddr>,
    /// The minimum interval between two reports of a cluster.
    pub min_report_interval: Duration,
    /// The maximum number of reports per second and API token.
    pub reports_per_second: u32,
    /// The maximum number of open connections.
    pub max_connections: usize,
    /// The maximum cost of one GraphQL request, in response fields.
    pub max_query_cost: u32,
    /// The directory of persisted documents.
    pub persisted_documents: Option<PathBuf>,
    /// True if only persisted documents are executed.
    pub persisted_documents_only: bool,
    /// The maximum cost of an API token's GraphQL requests in a minute.
    pub query_cost_per_minute: u32,
    /// The timeout of a GraphQL request.
    pub query_timeout: Duration,
    /// The URL under which browsers reach the server.
    pub public_url: Option<PublicUrl>,
    /// The separate origin for the contents of performance reports.
    pub reports_url: Option<PublicUrl>,
    /// The Redis server through which servers of one database notify each other of changes.
    pub redis: Option<RedisUrl>,
    /// The lifetimes of browser sessions.
    pub session_lifetimes: SessionLifetimes,
    /// The timeouts for clients.
    pub timeouts: Timeouts,
    /// The trusted issuer of JWTs. `None` if JWTs are rejected.
    pub jwt: Option<JwtConfig>,
    /// The OpenID provider for signing in. `None` if there is none.
    pub oidc: Option<OidcConfig>,
    /// The delivery settings of alerts.
    pub alerts: AlertConfig,
    /// The settings of proxies, CORS and rate limits.
    pub network: NetworkConfig,
    /// The quotas of accounts that have none of their own.
    pub quotas: Limits,
    /// The server's certificate. `None` if the server does not use TLS itself.
    pub tls: Option<TlsConfig>,
    /// The trace collector. `None` if traces are not exported.
    pub traces: Option<TracesConfig>,
    /// True if an empty database gets its first account, user and token.
    pub bootstrap: bool,
    /// True if each start creates a link for signing in.
    pub sign_in_link: bool,
    /// The source of the web dashboard.
    pub dashboard: DashboardSource,
    /// True if the server starts its background jobs.
    pub jobs: bool,
}

impl ServeConfig {
    /// Returns true if browsers reach the server through TLS, either its own or a proxy's.
    #[must_use]
    pub fn is_behind_tls(&self) -> bool {
        self.tls.is_some() || self.public_url.as_ref().is_some_and(PublicUrl::is_secure)
    }
}

/// The options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// IP address and port to listen on, as `ADDRESS:PORT`. Port 0 picks a free port.
    #[arg(long, env = "GALVO_LISTEN", default_value = "127.0.0.1:8000")]
    listen: String,
    /// Second address for /metrics, /healthz and /readyz, as `ADDRESS:PORT`, open to every client that
    /// can reach it. If set, /metrics is served only there. Otherwise /metrics is served on the main
    /// address, to clients on this machine only.
    #[arg(long, env = "GALVO_METRICS_LISTEN", value_name = "ADDRESS:PORT")]
    metrics_listen: Option<String>,
    /// Minimum interval between two reports of a cluster, in seconds, from 0.1 to 600. The server tells
    /// schedulers to wait this long.
    #[arg(long, env = "GALVO_MIN_REPORT_INTERVAL", default_value = "1")]
    min_report_interval: String,
    /// Maximum rate of reports per API token, in reports per second, from 1 to 1000000. Bursts of up to
    /// ten seconds' worth pass. Requests beyond the limit receive status 429.
    #[arg(long, env = "GALVO_REPORTS_PER_SECOND", default_value = "200")]
    reports_per_second: String,
    /// Maximum number of open client connections, from 1 to 100000. Further connections wait for a free
    /// slot. Each connection needs a file descriptor; the server lowers this number if the process limit
    /// is too small.
    #[arg(long, env = "GALVO_MAX_CONNECTIONS", default_value = "900")]
    max_connections: String,
    /// Maximum cost of one GraphQL request, in response fields, from 1000 to 100000000.
    /// `docs/graphql.md` explains the calculation.
    #[arg(long, env = "GALVO_MAX_QUERY_COST", default_value = "500000")]
    max_query_cost: String,
    /// Directory of persisted GraphQL documents, in files that end in `.graphql`. Requests can send the
    /// SHA-256 hash of a document instead of its text. Read once, at startup.
    #[arg(long, env = "GALVO_PERSISTED_DOCUMENTS", value_name = "DIRECTORY")]
    persisted_documents: Option<PathBuf>,
    /// Reject every GraphQL request that does not use a persisted document.
    #[arg(long, env = "GALVO_PERSISTED_DOCUMENTS_ONLY", requires = "persisted_documents")]
    persisted_documents_only: bool,
    /// Maximum total cost of the GraphQL requests per API token in a minute, from 1000 to 1000000000. A
    /// user who signs in without an API token has a limit of the same size. Requests beyond the limit
    /// receive status 429. Must not be less than `GALVO_MAX_QUERY_COST`.
    #[arg(long, env = "GALVO_QUERY_COST_PER_MINUTE", default_value = "5000000")]
    query_cost_per_minute: String,
    /// Timeout of a GraphQL request, in seconds, from 0.1 to 600. Slower requests receive status 504.
    #[arg(long, env = "GALVO_QUERY_TIMEOUT", default_value = "30")]
    query_timeout: String,
    /// URL under which browsers reach this server, as `https://NAME` or `https://NAME/PATH`. If it
    /// begins with `https`, session cookies are marked `Secure`.
    #[arg(long, env = "GALVO_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Separate origin for the contents of performance reports, as `https://NAME`. It must be a host
    /// name of this server that serves nothing else, without a path. Requires `GALVO_PUBLIC_URL`.
    #[arg(long, env = "GALVO_REPORTS_URL", value_name = "URL")]
    reports_url: Option<String>,
    /// URL of the Redis server through which several servers of one database notify each other of
    /// changes: `redis://…` or `rediss://…`.
    #[arg(long, env = "GALVO_REDIS_URL", hide_env_values = true)]
    redis_url: Option<String>,
    /// Maximum lifetime of a browser session from sign-in, such as `30d` or `12h`. From 5m to 400d.
    #[arg(long, env = "GALVO_SESSION_LIFETIME", default_value = "30d")]
    session_lifetime: String,
    /// Time after which an unused browser session ends, such as `7d` or `1h`. From 5m to 400d.
    #[arg(long, env = "GALVO_SESSION_IDLE", default_value = "7d")]
    session_idle: String,
    /// On an empty database, create the account `default`, the user `admin` and an API token, and print
    /// the token once.
    #[arg(long)]
    bootstrap: bool,
    /// At each start, print a link with which the first owner can sign in once, within 15 minutes. On an
    /// empty database, `--bootstrap` prints it too if the server listens on a loopback address.
    #[arg(long)]
    sign_in_link: bool,
    #[command(flatten)]
    dashboard: DashboardArgs,
    #[command(flatten)]
    jwt: JwtArgs,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    traces: TracesArgs,
}

impl ServeArgs {
    pub(super) fn read(&self, problems: &mut Problems) -> Option<ServeConfig> {
        let listen = problems.read_address("listen", &self.listen);
        let metrics_listen =
            self.metrics_listen.as_deref().map(|listen| problems.read_address("metrics-listen", listen));
        let report_interval =
            problems.read_in_range("min-report-interval", &self.min_report_interval, (0.1, 600.0));
        let report_rate =
            problems.read_in_range("reports-per-second", &self.reports_per_second, (1, 1_000_000));
        let connections = problems.read_in_range("max-connections", &self.max_connections, (1, 100_000));
        let cost = problems.read_in_range("max-query-cost", &self.max_query_cost, (1_000, 100_000_000));
        let budget = problems.read_in_range(
            "query-cost-per-minute",
            &self.query_cost_per_minute,
            (1_000, 1_000_000_000),
        );
        if budget.zip(cost).is_some_and(|(budget, cost)| budget < cost) {
            problems.add("query-cost-per-minute", &"must not be less than one request may cost");
        }
        let network = self.network.read(problems);
        let quotas = self.quotas.read(problems);
        let (tls, traces) = (self.tls.read(problems), self.traces.read(problems));
        let address_budget = network.as_ref().map(|network| network.query_cost_per_minute_of_address);
        if address_budget.zip(cost).is_some_and(|(budget, cost)| budget < cost) {
            problems.add("query-cost-per-minute-of-address", &"must not be less than one request may cost");
        }
        let query_timeout = problems.read_in_range("query-timeout", &self.query_timeout, (0.1, 600.0));
        let public_url = self.public_url.as_deref().map(|url| problems.read("public-url", url));
        let reports_url = self.reports_url.as_deref().and_then(|url| problems.read("reports-url", url));
        if let Some(reports) = &reports_url
            && let Some(problem) = reports_url_error(reports, public_url.as_ref())
        {
            problems.add("reports-url", &problem);
        }
        let redis = self.redis_url.as_deref().map(|url| problems.read("redis-url", url));
        let session_lifetime = problems.read_session_duration("session-lifetime", &self.session_lifetime);
        let session_idle = problems.read_session_duration("session-idle", &self.session_idle);
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let jwt = self.jwt.read(problems, std::env::var_os(JWT_SECRET).as_deref());
        let has_public_url = self.public_url.is_some();
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let oidc = self.oidc.read(problems, std::env::var_os(OIDC_CLIENT_SECRET).as_deref(), has_public_url);
        let alerts = self.alerts.read(problems);
        Some(ServeConfig {
            listen: listen?,
            metrics_listen: match metrics_listen {
                Some(listen) => Some(listen?),
                None => None,
            },
            min_report_interval: Duration::from_secs_f64(report_interval?),
            reports_per_second: report_rate?,
            max_connections: connections?,
            max_query_cost: cost?,
            persisted_documents: self.persisted_documents.clone(),
            persisted_documents_only: self.persisted_documents_only,
            query_cost_per_minute: budget?,
            query_timeout: Duration::from_secs_f64(query_timeout?),
            public_url: match public_url {
                Some(url) => Some(url?),
                None => None,
            },
            reports_url,
            session_lifetimes: SessionLifetimes { absolute: session_lifetime?, idle: session_idle? },
            timeouts: Timeouts::default(),
            redis: match redis {
                Some(url) => Some(url?),
                None => None,
            },
            jwt,
            oidc,
            alerts: alerts?,
            network: network?,
            quotas: quotas?,
            tls,
            traces,
            bootstrap: self.bootstrap,
            sign_in_link: self.sign_in_link,
            dashboard: self.dashboard.source(),
            jobs: true,
        })
    }
}

/// Returns the reason why the contents of performance reports cannot be served at `reports`, given the
/// server's own URL.
fn reports_url_error(reports: &PublicUrl, public: Option<&Option<PublicUrl>>) -> Option<&'static str> {
    match public {
        None => Some("needs GALVO_PUBLIC_URL, the address of the page that shows a report"),
        Some(Some(_)) if !reports.base().is_empty() => {
            Some("must have no path: reports need a host name of their own")
        }
        // Cookies apply to all ports of a host name.
        Some(Some(public)) if reports.host() == public.host() => Some(
            "must have another host name than GALVO_PUBLIC_URL: browsers share cookies between all ports of \
             a host name",
        ),
        Some(Some(public)) if public.is_secure() && !reports.is_secure() => Some(
            "must begin with https://, as GALVO_PUBLIC_URL does: browsers block unencrypted frames in its \
             pages",
        ),
        Some(_) => None,
    }
}
