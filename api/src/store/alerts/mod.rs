//! Flags, alert rules, alerts and their deliveries.

pub(super) mod alert;
pub(super) mod alert_delivery;
pub(super) mod alert_rule;
pub(super) mod cluster_flag;
pub(super) mod flag_facts;
pub(super) mod flag_mute;
