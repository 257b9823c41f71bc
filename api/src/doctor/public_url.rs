//! How the server is reached from outside.

use url::Url;

use super::Finding;
use crate::{config::ServeConfig, error::Chain, outgoing::Outgoing};

/// Bytes of what a server says of its health, and more.
const ANSWER: usize = 4_096;

pub(super) async fn examine(serve: &ServeConfig) -> Finding {
    let Some(public) = &serve.public_url else {
        return if serve.listen.ip().is_loopback() || serve.tls.is_some() {
            Finding::ok("public url", "there is none: the server is called by the address it listens on")
        } else {
            Finding::warning(
                "public url",
                format!("tokens come to {} in the open", serve.listen),
                "set GALVO_TLS_CERTIFICATE and GALVO_TLS_KEY, or put a proxy with TLS in front and set GALVO_PUBLIC_URL",
            )
        };
    };
    if !public.is_secure() && !serve.listen.ip().is_loopback() {
        let advice = "have browsers come by https, and set GALVO_PUBLIC_URL so";
        return Finding::warning(
            "public url",
            format!("{public} is not encrypted: tokens travel in the open"),
            advice,
        );
    }
    let address: Option<Url> = format!("{public}/healthz").parse().ok();
    let advice = "start the server, and its proxy; or nothing, if this machine cannot reach that address";
    let Some(address) = address else {
        return Finding::failed("public url", format!("{public} is no address"), advice);
    };
    match Outgoing::new().get(&address, ANSWER).await {
        Ok(_) => Finding::ok("public url", format!("{public} answers")),
        Err(error) => Finding::warning("public url", format!("{public}: {}", Chain(&error)), advice),
    }
}
