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

/// The fractions of the connections that are reserved for unverified requests, for login requests and for
/// probes. Login requests get as many slots as unverified ones: while a login request waits for its form,
/// newer ones of the same address can take its slot, so that few slots would leave a form little time.
const UNVERIFIED_DIVISOR: usize = 8;
const SIGN_IN_DIVISOR: usize = 8;
const PROBES_DIVISOR: usize = 16;

/// The minimum number of slots for unverified requests, for probes, and for login requests.
const MIN_SLOTS: usize = 4;

/// The number of threads per core for long work. The threads share the cores, so a caller that holds
/// half of them does not delay others until its work ends.
const THREADS_PER_CORE: usize = 2;

/// The slots for requests.
pub(crate) struct RequestSlots {
    requests: Slots,
    unverified: UnverifiedSlots,
    sign_in: UnverifiedSlots,
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
        let share_of = |divisor: usize| connections / divisor;
        let reserved = share_of(UNVERIFIED_DIVISOR) + share_of(SIGN_IN_DIVISOR) + share_of(PROBES_DIVISOR);
        let slots = |resource, divisor| shares.unverified(resource, share_of(divisor).max(MIN_SLOTS));
        Self {
            requests: shares.slots("requests", connections - reserved),
            unverified: slots("unverified_requests", UNVERIFIED_DIVISOR),
            sign_in: slots("sign_in_requests", SIGN_IN_DIVISOR),
            probes: slots("probes", PROBES_DIVISOR),
            threads: shares.slots("threads", (THREADS_PER_CORE * cores()).max(MIN_SLOTS)),
        }
    }

    /// Reserves a slot for a request: one of the owner if its credentials are known, or else one of the
    /// unverified requests. An owner who has its share is rejected only after authentication, which costs
    /// points.
    fn reserve(
        &self,
        kind: Kind,
        known_holder: Option<Holder>,
        client: UnverifiedClient,
    ) -> Result<RequestSlot, Refused> {
        if let Some(owner) = known_holder
            && kind == Kind::Other
            && self.requests.can_take(owner)
            && let Ok(slot) = self.requests.try_take(owner)
        {
            return Ok(RequestSlot::Verified(slot));
        }
        let slots = match kind {
            Kind::Probe => &self.probes,
            Kind::SignIn => &self.sign_in,
            Kind::Other => &self.unverified,
        };
        let UnverifiedClient { address, holder } = client;
        Ok(RequestSlot::Unverified(slots.try_take(address)?, holder))
    }
}

/// A client whose credentials are not verified.
#[derive(Clone, Copy)]
struct UnverifiedClient {
    /// The address, or its network.
    address: IpAddr,
    /// The holder of what the request needs besides its slot.
    holder: Holder,
}

/// The slot of a request, held until all work of the request has ended.
#[derive(Clone)]
pub(crate) struct OccupiedSlot(Arc<SlotContents>);

struct SlotContents {
    work: Arc<RequestWork>,
    address: IpAddr,
    _busy_guard: Option<Arc<BusyGuard>>,
}

tokio::task_local! {
    static CURRENT_SLOT: OccupiedSlot;
}

impl OccupiedSlot {
    /// Runs the work of a request within its slot. The work may outlast the response. Returns `None`, and
    /// drops the work, if the request has to give way.
    pub(crate) async fn hold_during<T>(self, work: impl Future<Output = T>) -> Option<T> {
        let request_work = Arc::clone(&self.0.work);
        request_work.run_future(CURRENT_SLOT.scope(self, work)).await
    }

    /// Runs a future that waits for the client of a request. Meanwhile the request may have to give way
    /// if it is not verified.
    pub(crate) async fn wait_for_client<T>(waiting: impl Future<Output = T>) -> T {
        let _wait = CURRENT_SLOT.try_with(|slot| slot.0.work.wait_for_client()).ok();
        waiting.await
    }

    /// Moves the request to a slot of the viewer after authentication. Work outside a request has no slot
    /// and needs none. Returns the client's address if the viewer has its share.
    pub(crate) fn move_to_viewer(viewer: &Viewer) -> Result<(), IpAddr> {
        let result = CURRENT_SLOT
            .try_with(|slot| slot.0.work.transfer_to(viewer.holder()).map_err(|_| slot.0.address));
        result.unwrap_or(Ok(()))
    }

    /// Moves the request to a slot of the viewer. A rejection costs points.
    pub(crate) fn transfer_to(state: &AppState, viewer: &Viewer) -> Result<(), Problem> {
        Self::move_to_viewer(viewer).map_err(|address| {
            let keys = LimitKeys::new(viewer.limit_key(), address);
            if let Err(problem) = state.query_limiter.check(keys) {
                return problem;
            }
            state.query_limiter.charge_refusal(keys);
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
    let credentials = Credentials::of(&state.site.cookies, request.headers()).unwrap_or_default();
    let known_holder = state.authentication.find_known(&credentials).map(|(owner, _)| owner);
    let client = UnverifiedClient {
        address: rate_limit_address(address),
        holder: state.authentication.unauthenticated_holder(address, &credentials),
    };
    let slots = &state.request_slots;
    let Ok(slot) = slots.reserve(Kind::of(request.uri().path()), known_holder, client) else {
        return too_many_requests();
    };
    let busy_guard = request.extensions_mut().remove::<Arc<BusyGuard>>();
    let work = RequestWork::new(slot, slots.requests.clone(), slots.threads.clone());
    if !request.body().is_end_stream() && !work.is_verified() {
        let work = Arc::clone(&work);
        request = request.map(|body| Body::new(UnverifiedBody { body, work, wait: None }));
    }
    let occupied_slot = OccupiedSlot(Arc::new(SlotContents { work, address, _busy_guard: busy_guard }));
    request.extensions_mut().insert(occupied_slot.clone());
    let Some(response) = occupied_slot.clone().hold_during(next.run(request)).await else {
        return too_many_requests();
    };
    response.map(|body| {
        if body.is_end_stream() || !occupied_slot.0.work.is_verified() {
            body
        } else {
            Body::new(SlotHoldingBody { body, _slot: occupied_slot })
        }
    })
}

fn too_many_requests() -> Response {
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
struct SlotHoldingBody {
    body: Body,
    _slot: OccupiedSlot,
}

impl HttpBody for SlotHoldingBody {
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
