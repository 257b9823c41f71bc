//! The slot of a request in the concurrency limits, held from its head to the end of its response.
//!
//! A request with credentials that were valid recently begins in a slot of their owner. Any other one
//! begins in a slot for unverified requests of its address, which it may lose while it waits for its
//! client. After authentication it moves to a slot of the owner. The response to a request that was never
//! authenticated is complete when it begins, so the slot ends there. A socket keeps the slot of the
//! request that opened it, and an event stream the slot of its response. Probes and login requests have
//! slots of their own, which no other request can take.

use std::{
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};

use super::rate_limit::LimitKeys;
use crate::{
    auth::{CALLBACK, Viewer},
    blocking_work::cores,
    domain::{audit::Origin, client_ip::rate_limit_address},
    http::{
        extract::{credentials::Credentials, problem::Problem},
        server::state::AppState,
    },
    shares::{
        BusyGuard, ClientWait, FairShares, Holder, Refused, RequestSlot, RequestWork, Slots, UnverifiedSlots,
    },
};

/// The parts of the connections for unverified requests, for login requests and for probes, which requests
/// of owners leave free. Login requests are as many as unverified ones: while they wait for the rest of a
/// form, newer ones of the same address take their slots, so that few slots would leave a form little time.
const UNVERIFIED_DIVISOR: usize = 8;
const SIGN_IN_DIVISOR: usize = 8;
const PROBES_DIVISOR: usize = 16;

/// The minimum number of slots for unverified requests, for probes, and for login requests.
const MIN_SLOTS: usize = 4;

/// The number of threads per core for long work. The threads share the cores, so a caller that holds
/// half of them does not delay others until its work ends.
const THREADS_OF_CORE: usize = 2;

/// The slots for requests.
pub(crate) struct RequestSlots {
    requests: Slots,
    unverified: UnverifiedSlots,
    signing_in: UnverifiedSlots,
    probes: UnverifiedSlots,
    threads: Slots,
}

/// The kinds of requests that have slots of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Probe,
    SignIn,
    Other,
}

impl Kind {
    fn of(path: &str) -> Self {
        match path {
            "/healthz" | "/readyz" | "/metrics" => Self::Probe,
            "/sign-in"
            | "/sign-in/link"
            | "/sign-in/invitation"
            | "/sign-in/oidc"
            | "/sign-out"
            | "/password"
            | "/activate-token"
            | CALLBACK => Self::SignIn,
            _ => Self::Other,
        }
    }
}

impl RequestSlots {
    /// Creates the slots in proportion to the number of connections.
    pub(crate) fn new(shares: &FairShares, connections: usize) -> Self {
        let part = |divisor: usize| connections / divisor;
        let reserved = part(UNVERIFIED_DIVISOR) + part(SIGN_IN_DIVISOR) + part(PROBES_DIVISOR);
        let slots = |resource, divisor| shares.unverified(resource, part(divisor).max(MIN_SLOTS));
        Self {
            requests: shares.places("requests", connections - reserved),
            unverified: slots("unverified_requests", UNVERIFIED_DIVISOR),
            signing_in: slots("sign_in_requests", SIGN_IN_DIVISOR),
            probes: slots("probes", PROBES_DIVISOR),
            threads: shares.places("threads", (THREADS_OF_CORE * cores()).max(MIN_SLOTS)),
        }
    }

    /// Reserves a slot for a request: one of the owner if its credentials are known, or else one of the
    /// unverified requests. An owner who has its share is rejected only after authentication, which costs
    /// points.
    fn reserve(&self, kind: Kind, known: Option<Holder>, stranger: Stranger) -> Result<RequestSlot, Refused> {
        if let Some(owner) = known
            && kind == Kind::Other
            && self.requests.would_take(owner)
            && let Ok(slot) = self.requests.try_take(owner)
        {
            return Ok(RequestSlot::Verified(slot));
        }
        let slots = match kind {
            Kind::Probe => &self.probes,
            Kind::SignIn => &self.signing_in,
            Kind::Other => &self.unverified,
        };
        let Stranger { address, holder } = stranger;
        Ok(RequestSlot::Unverified(slots.try_take(address)?, holder))
    }
}

/// A client whose credentials are not verified.
#[derive(Clone, Copy)]
struct Stranger {
    /// The address, or its network.
    address: IpAddr,
    /// The holder of what the request needs besides its slot.
    holder: Holder,
}

/// The slot of a request, held until all work of the request has ended.
#[derive(Clone)]
pub(crate) struct OccupiedSlot(Arc<Parts>);

struct Parts {
    work: Arc<RequestWork>,
    address: IpAddr,
    _answering: Option<Arc<BusyGuard>>,
}

tokio::task_local! {
    static HELD: OccupiedSlot;
}

impl OccupiedSlot {
    /// Runs the work of a request within its slot. The work may outlast the response. Returns `None`, and
    /// drops the work, if the request has to give way.
    pub(crate) async fn keep<T>(self, work: impl Future<Output = T>) -> Option<T> {
        let of = Arc::clone(&self.0.work);
        of.run_future(HELD.scope(self, work)).await
    }

    /// Runs a future that waits for the client of a request. Meanwhile the request may have to give way
    /// if it is not verified.
    pub(crate) async fn wait_for_client<T>(waiting: impl Future<Output = T>) -> T {
        let _wait = HELD.try_with(|held| held.0.work.wait_for_client()).ok();
        waiting.await
    }

    /// Moves the request to a slot of the viewer after authentication. Work outside a request has no slot
    /// and needs none. Returns the client's address if the viewer has its share.
    pub(crate) fn hand_to(viewer: &Viewer) -> Result<(), IpAddr> {
        let handed = HELD.try_with(|held| held.0.work.hand_to(viewer.holder()).map_err(|_| held.0.address));
        handed.unwrap_or(Ok(()))
    }

    /// Moves the request to a slot of the viewer. A rejection costs points.
    pub(crate) fn transfer_to(state: &AppState, viewer: &Viewer) -> Result<(), Problem> {
        Self::hand_to(viewer).map_err(|address| {
            let keys = LimitKeys::new(viewer.limit_key(), address);
            if let Err(problem) = state.query_budget.check(keys) {
                return problem;
            }
            state.query_budget.charge_refusal(keys);
            Problem::unavailable(
                "too many concurrent requests with these credentials: wait until some finish, or close \
                 streams",
            )
        })
    }
}

/// Reserves a slot for a request, or rejects the request.
pub(crate) async fn reserve_slot(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    // A request without an origin did not arrive over the network.
    let Some(address) = request.extensions().get::<Origin>().map(|origin| origin.address) else {
        return next.run(request).await;
    };
    // Ambiguous credentials are never valid.
    let shown = Credentials::of(&state.site.cookies, request.headers()).unwrap_or_default();
    let known = state.authentication.find_known(&shown).map(|(owner, _)| owner);
    let stranger = Stranger {
        address: rate_limit_address(address),
        holder: state.authentication.stranger(address, &shown),
    };
    let slots = &state.request_slots;
    let Ok(slot) = slots.reserve(Kind::of(request.uri().path()), known, stranger) else {
        return busy();
    };
    let answering = request.extensions_mut().remove::<Arc<BusyGuard>>();
    let work = RequestWork::new(slot, slots.requests.clone(), slots.threads.clone());
    if !request.body().is_end_stream() && !work.is_verified() {
        let work = Arc::clone(&work);
        request = request.map(|body| Body::new(UnverifiedBody { body, work, wait: None }));
    }
    let held = OccupiedSlot(Arc::new(Parts { work, address, _answering: answering }));
    request.extensions_mut().insert(held.clone());
    let Some(response) = held.clone().keep(next.run(request)).await else { return busy() };
    response.map(|body| {
        if body.is_end_stream() || !held.0.work.is_verified() {
            body
        } else {
            Body::new(HeldBody { body, _held: held })
        }
    })
}

fn busy() -> Response {
    Problem::unavailable("too many concurrent requests: try again later").into_response()
}

/// The body of an unverified request, which may lose its slot while the next part of the body has not
/// arrived.
struct UnverifiedBody {
    body: Body,
    work: Arc<RequestWork>,
    wait: Option<ClientWait>,
}

impl HttpBody for UnverifiedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.wait = None;
        } else if self.wait.is_none() {
            self.wait = Some(self.work.wait_for_client());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body that holds the slot of its request until it ends.
struct HeldBody {
    body: Body,
    _held: OccupiedSlot,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
