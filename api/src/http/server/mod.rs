//! Connections: acceptance, TLS, the router and its state.

pub(super) mod accept;
pub(super) mod router;
pub(super) mod site;
pub(super) mod state;
pub(super) mod tls;
pub(super) mod transport;
