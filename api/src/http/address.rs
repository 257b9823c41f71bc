//! Where a request comes from, and what it is called.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{HeaderName, HeaderValue, request::Parts},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

use super::policy;
use crate::domain::{address::Proxies, audit::Origin};

/// Names a request in its answer, in the log and in the audit log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives a request a name, finds out where it comes from, and closes its answer to other sites.
pub(super) async fn mark(State(proxies): State<Arc<Proxies>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    // What has no peer was sent by no network.
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let told = request.headers().get_all(proxies.header().name()).iter();
    let told: Vec<&str> = told.filter_map(|value| value.to_str().ok()).collect();
    let origin = Origin { address: proxies.client(peer, &told), request_id: Uuid::now_v7() };
    request.extensions_mut().insert(origin);
    let mut response = next.run(request).await;
    policy::close(&mut response);
    if let Ok(id) = HeaderValue::from_str(&origin.request_id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// What a request is called.
pub(super) fn request_id(request: &Request) -> Option<Uuid> {
    request.extensions().get::<Origin>().map(|origin| origin.request_id)
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source(pub(super) Origin);

impl<S: Sync> FromRequestParts<S> for Source {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nowhere = || Origin { address: IpAddr::V4(Ipv4Addr::LOCALHOST), request_id: Uuid::now_v7() };
        Ok(Self(parts.extensions.get().copied().unwrap_or_else(nowhere)))
    }
}
