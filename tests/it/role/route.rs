//! The routes, and the status of each for every role.

/// Every role of the account may read it.
const READERS: [u16; 6] = [200, 200, 200, 200, 200, 401];

/// Only owners and admins may do it.
const DECIDERS: [u16; 6] = [200, 200, 403, 403, 403, 401];

/// Routes, their request body, and the status for an owner, an admin, a member, a viewer, a guest and an
/// anonymous client. Undescribed routes are at the end.
pub(super) const ROUTES: &[(&str, Sent, [u16; 6])] = &[
    ("DELETE /api/v1/api-tokens/{identifier}/revoke", Sent::Nothing, [404, 404, 404, 404, 404, 401]),
    ("GET /api/v1/api-tokens/", Sent::Nothing, READERS),
    ("GET /api/v1/clusters/{id}/profile", Sent::Nothing, READERS),
    ("GET /api/v1/export/alert-deliveries", Sent::Nothing, DECIDERS),
    ("GET /api/v1/export/alert-rules", Sent::Nothing, DECIDERS),
    ("GET /api/v1/export/alerts", Sent::Nothing, READERS),
    ("GET /api/v1/export/audit-log", Sent::Nothing, DECIDERS),
    ("GET /api/v1/export/clusters", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/clients", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/computations", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/errors", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/events", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/fine-metrics", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/flags", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/functions", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/logs", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/spans", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/task-groups", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/thread-history", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/usage-hours", Sent::Nothing, READERS),
    ("GET /api/v1/export/clusters/{id}/workers", Sent::Nothing, READERS),
    ("GET /api/v1/export/computations", Sent::Nothing, READERS),
    ("GET /api/v1/export/computations/{id}/errors", Sent::Nothing, READERS),
    ("GET /api/v1/export/computations/{id}/task-groups", Sent::Nothing, READERS),
    ("GET /api/v1/export/error-groups", Sent::Nothing, READERS),
    ("GET /api/v1/export/error-groups/{id}/occurrences", Sent::Nothing, READERS),
    ("GET /api/v1/export/errors", Sent::Nothing, READERS),
    ("GET /api/v1/export/events", Sent::Nothing, READERS),
    ("GET /api/v1/export/flags", Sent::Nothing, READERS),
    ("GET /api/v1/export/functions", Sent::Nothing, READERS),
    ("GET /api/v1/export/invitations", Sent::Nothing, DECIDERS),
    ("GET /api/v1/export/logs", Sent::Nothing, READERS),
    ("GET /api/v1/export/members", Sent::Nothing, DECIDERS),
    ("GET /api/v1/export/performance-reports", Sent::Nothing, READERS),
    ("GET /api/v1/export/saved-views", Sent::Nothing, READERS),
    ("GET /api/v1/export/scheduler-tokens", Sent::Nothing, DECIDERS),
    ("GET /api/v1/export/spans", Sent::Nothing, READERS),
    ("GET /api/v1/export/spans/{id}/children", Sent::Nothing, READERS),
    ("GET /api/v1/export/spans/{id}/task-groups", Sent::Nothing, READERS),
    ("GET /api/v1/export/tokens", Sent::Nothing, DECIDERS),
    // Its dimension parameter is required.
    ("GET /api/v1/export/usage-table", Sent::Nothing, [400, 400, 400, 400, 400, 401]),
    // For browsers with a session, which none of these is.
    ("GET /api/v1/session", Sent::Nothing, [401; 6]),
    ("GET /api/v2/analytics/preload", Sent::Nothing, [200; 6]),
    ("GET /api/v2/user/account/{workspace}/usage", Sent::Nothing, READERS),
    ("GET /api/v2/user/me", Sent::Nothing, READERS),
    ("GET /api/v2/user/me/memberships", Sent::Nothing, READERS),
    ("GET /healthz", Sent::Nothing, [200; 6]),
    ("GET /metrics", Sent::Nothing, [200; 6]),
    ("GET /readyz", Sent::Nothing, [200; 6]),
    ("POST /api/v1/api-tokens-no-user/", Sent::Form, [201; 6]),
    ("POST /api/v1/api-tokens/", Sent::Json("{}"), [201, 201, 201, 201, 201, 401]),
    ("POST /api/v1/reports", Sent::Report, [200, 200, 200, 403, 403, 401]),
    ("POST /api/v1/scheduler-tokens", Sent::Json("{}"), [201, 201, 201, 403, 403, 401]),
    (
        "POST /api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}",
        Sent::Span,
        [409, 409, 409, 403, 403, 401],
    ),
    (
        "POST /api/v2/interactions/interaction",
        Sent::Json("{\"action\": \"x\"}"),
        [200, 200, 200, 200, 200, 401],
    ),
    // Requests of the `coiled` client.
    ("DELETE /api/v2/clusters/account/{workspace}/id/{id}", Sent::Nothing, DECIDERS),
    ("GET /api/v1/health", Sent::Nothing, [200; 6]),
    ("GET /api/v1/users/me/", Sent::Nothing, READERS),
    ("GET /api/v1/{workspace}/billing-events/", Sent::Nothing, READERS),
    ("GET /api/v1/{workspace}/performance_reports/all/", Sent::Nothing, READERS),
    ("GET /api/v1/{workspace}/usage/cores/", Sent::Nothing, READERS),
    ("GET /api/v2/analytics/{workspace}/cluster/{id}/computations/list", Sent::Nothing, READERS),
    ("GET /api/v2/analytics/{workspace}/clusters/list", Sent::Nothing, READERS),
    ("GET /api/v2/analytics/{workspace}/exceptions/list", Sent::Nothing, READERS),
    ("GET /api/v2/analytics/{workspace}/{id}/computations/list", Sent::Nothing, READERS),
    ("GET /api/v2/analytics/{workspace}/{id}/events/list", Sent::Nothing, READERS),
    ("GET /api/v2/clusters/account/{workspace}/", Sent::Nothing, READERS),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}", Sent::Nothing, READERS),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}/better-logs", Sent::Nothing, READERS),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}/log-info", Sent::Nothing, READERS),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}/ssh-key", Sent::Nothing, READERS),
    ("GET /api/v2/clusters/account/{workspace}/name/{name}", Sent::Nothing, READERS),
    ("GET /api/v2/instances/{workspace}/instance/{name}/logs", Sent::Nothing, [404, 404, 404, 404, 404, 401]),
    ("GET /api/v2/interactions/user-interactions/hello", Sent::Nothing, READERS),
    (
        "GET /api/v2/metrics/account/{workspace}/cluster/{id}/value",
        Sent::Nothing,
        [400, 400, 400, 400, 400, 401],
    ),
    ("GET /api/v2/user/account/{workspace}/prometheus-read-credentials", Sent::Nothing, READERS),
    ("POST /api/v1/{workspace}/performance_reports/{kind}/", Sent::Parts, [201, 201, 201, 403, 403, 401]),
    (
        "POST /api/v2/analytics/{workspace}/{id}/desired-state",
        Sent::Json("{\"desired_status\": \"stopped\"}"),
        [200, 200, 403, 403, 403, 401],
    ),
    // Pages, which redirect to the sign-in page without a session. `password.rs` tests its form.
    ("GET /sign-in", Sent::Nothing, [200; 6]),
    ("GET /password", Sent::Nothing, [200; 6]),
    // Invalid identifiers.
    ("GET /clusters/x", Sent::Nothing, [404; 6]),
    ("GET /reports/x", Sent::Nothing, [404; 6]),
    ("GET /reports/x/content", Sent::Nothing, [404; 6]),
    ("GET /activate-token?id=x", Sent::Nothing, [200; 6]),
    ("POST /sign-out", Sent::Form, [200; 6]),
    ("POST /password", Sent::Form, [200; 6]),
    ("POST /activate-token?id=x", Sent::Form, [200; 6]),
    ("GET /sign-in/link", Sent::Nothing, [200; 6]),
    ("POST /sign-in/link", Sent::Form, [401; 6]),
    ("GET /sign-in/invitation", Sent::Nothing, [200; 6]),
    ("POST /sign-in/invitation", Sent::Form, [200; 6]),
    ("GET /sign-in/oidc", Sent::Nothing, [404; 6]),
    ("GET /sign-in/oidc/callback?code=x&state=y", Sent::Nothing, [404; 6]),
    ("GET /", Sent::Nothing, [200; 6]),
    // Files of the dashboard, which this server does not have.
    ("GET /assets/x.js", Sent::Nothing, [404; 6]),
    ("GET /api/v1/openapi.json", Sent::Nothing, [200; 6]),
    ("GET /graphql?query={__typename}", Sent::Nothing, READERS),
    ("POST /graphql", Sent::Query, [200, 200, 200, 200, 200, 401]),
];

/// Routes without an API description, because they are no REST API or are public pages.
pub(super) const UNDESCRIBED: usize = 20;

#[derive(Clone, Copy, Debug)]
pub(super) enum Sent {
    Nothing,
    Form,
    Json(&'static str),
    Report,
    Span,
    Query,
    /// A multipart form.
    Parts,
}
