//! The address of a running server, for the commands that query it: `galvo ready` and `galvo status`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;
use url::Url;

use super::parse_socket_address;

/// The server that a command asks.
#[derive(Clone, Debug, Args)]
pub struct RunningServerArgs {
    /// IP address and port the server listens on, as `ADDRESS:PORT`.
    #[arg(long, env = "GALVO_LISTEN", default_value = "127.0.0.1:8000", value_parser = parse_socket_address)]
    listen: SocketAddr,
    /// URL of the server, as `https://NAME`, instead of the listening address. Required for a server
    /// with TLS: its certificate is valid only for its name.
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
}

/// The options of `status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub server: RunningServerArgs,
    /// Second address of the server, if its metrics are served there, as `ADDRESS:PORT`.
    #[arg(
        long,
        env = "GALVO_METRICS_LISTEN",
        value_name = "ADDRESS:PORT",
        value_parser = parse_socket_address
    )]
    metrics_listen: Option<SocketAddr>,
    /// Print the status as one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl RunningServerArgs {
    /// Returns the URL of the readiness endpoint.
    #[must_use]
    pub fn readiness(&self) -> Url {
        self.endpoint("readyz")
    }

    /// Returns the URL of the server without the path of an endpoint.
    #[must_use]
    pub fn base(&self) -> Url {
        self.endpoint("")
    }

    fn endpoint(&self, name: &str) -> Url {
        let mut url = self.url.clone().unwrap_or_else(|| url_of(self.listen));
        // The server may be mounted under a path prefix. The prefix ends before the server's own path.
        let path = url.path().trim_end_matches('/');
        let base = path.strip_suffix("/graphql").unwrap_or(path);
        url.set_path(&format!("{base}/{name}"));
        url
    }
}

impl StatusArgs {
    /// Returns the URL of the metrics.
    #[must_use]
    pub fn metrics(&self) -> Url {
        match self.metrics_listen {
            None => self.server.endpoint("metrics"),
            Some(listen) => {
                let mut url = url_of(listen);
                url.set_path("/metrics");
                url
            }
        }
    }
}

fn url_of(listen: SocketAddr) -> Url {
    // A server that listens on all addresses also listens on the loopback address.
    let address = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    let local_address = SocketAddr::new(address, listen.port());
    format!("http://{local_address}").parse().expect("a socket address forms a valid URL")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::config::{Cli, Command};

    #[test]
    fn endpoints_are_below_the_path_of_an_address() {
        for (arguments, base) in [
            (&["--listen", "0.0.0.0:8000"][..], "http://127.0.0.1:8000"),
            (&["--listen", "[::]:8000"], "http://[::1]:8000"),
            (&["--url", "https://galvo.example"], "https://galvo.example"),
            (&["--url", "https://tools.example/galvo"], "https://tools.example/galvo"),
            (&["--url", "https://tools.example/galvo/"], "https://tools.example/galvo"),
        ] {
            let ready = Cli::parse_from([&["galvo", "ready"], arguments].concat());
            let Command::Ready(server) = ready.command else { panic!("{arguments:?}") };
            assert_eq!(server.readiness().as_str(), format!("{base}/readyz"));
            let status = Cli::parse_from([&["galvo", "status"], arguments].concat());
            let Command::Status(status) = status.command else { panic!("{arguments:?}") };
            assert_eq!(status.server.base().as_str(), format!("{base}/"));
            assert_eq!(status.metrics().as_str(), format!("{base}/metrics"));
        }
    }

    #[test]
    fn metrics_may_have_an_address_of_their_own() {
        let arguments =
            ["galvo", "status", "--url", "https://galvo.example", "--metrics-listen", "0.0.0.0:9000"];
        let Command::Status(status) = Cli::parse_from(arguments).command else { panic!() };
        assert_eq!(status.metrics().as_str(), "http://127.0.0.1:9000/metrics");
    }
}
