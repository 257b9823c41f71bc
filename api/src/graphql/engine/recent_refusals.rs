//! The records of refused attempts in the audit log, at most one per minute for each viewer and action.

use std::{num::NonZeroUsize, sync::Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use entity::audit_entry::Action;
use lru::LruCache;
use serde_json::{Value, json};

use super::{error::ApiError, scope::AccountScope};
use crate::{
    auth::LimitKey,
    domain::{
        audit::{Entry, Target},
        permission::Denial,
    },
    store::StoreError,
};

/// The maximum number of recent refusals in memory.
const MAX_RECENT_REFUSALS: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// The period in which an equal refusal is not recorded again.
const REFUSAL_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// The refusals that were recorded recently. Without them, a client without rights could fill the audit
/// log.
pub(crate) struct RecentRefusals(Mutex<LruCache<(LimitKey, Action), DateTime<Utc>>>);

impl Default for RecentRefusals {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_RECENT_REFUSALS)))
    }
}

impl RecentRefusals {
    /// Returns true if a refusal has to be recorded, because no equal one was recorded recently.
    fn record_if_new(&self, limit_key: LimitKey, action: Action, now: DateTime<Utc>) -> bool {
        let mut recorded_at = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_new =
            recorded_at.get(&(limit_key, action)).is_none_or(|previous| now - *previous >= REFUSAL_INTERVAL);
        if is_new {
            recorded_at.put((limit_key, action), now);
        }
        is_new
    }
}

impl AccountScope {
    /// Records a refused attempt in the audit log.
    pub(crate) async fn record_refusal(
        &self,
        action: Action,
        target: Target,
        detail: Value,
    ) -> Result<(), ApiError> {
        Ok(self.audit_refusal_once(Entry::refused(action, target, detail)).await?)
    }

    /// Records an attempt at an action for which the viewer lacks the permission.
    pub(crate) async fn record_denial(
        &self,
        action: Action,
        target: Target,
        denial: Denial,
    ) -> Result<(), StoreError> {
        let detail = match denial {
            Denial::MissingAdmin => json!({ "missing_scope": "admin" }),
            denial => json!({ "reasons": [denial.to_string()] }),
        };
        self.audit_refusal_once(Entry::refused(action, target, detail)).await
    }

    async fn audit_refusal_once(&self, entry: Entry) -> Result<(), StoreError> {
        if self.refusals.record_if_new(self.limit_key, entry.action, self.now) {
            self.store.record_audit_refusal(entry).await?;
        }
        Ok(())
    }
}
