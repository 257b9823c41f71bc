//! Messages to the receivers of alerts, as JSON and as text.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use entity::{
    alert_delivery::Event,
    cluster_flag::ClusterFlagKind,
    ids::{AlertDeliveryId, AlertId, AlertRuleId, ClusterId},
};
use sea_orm::ActiveEnum;
use serde_json::{Value, json};

use crate::domain::visible_text::visible;

/// The largest number of alerts in one message. Of further ones it contains the number.
const MAX_ITEMS: usize = 50;

/// The phase of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The condition holds.
    Firing,
    /// The condition no longer holds.
    Resolved,
}

/// An alert in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertItem {
    /// The id of the alert.
    pub id: AlertId,
    /// The phase.
    pub phase: Phase,
    /// The start of the condition.
    pub since: DateTime<Utc>,
    /// The end of the condition. `None` while it holds.
    pub until: Option<DateTime<Utc>>,
    /// The value.
    pub value: f64,
    /// The unit of the value.
    pub unit: String,
    /// The cluster concerned, with its name. `None` if the alert concerns no single cluster.
    pub cluster: Option<(ClusterId, Option<String>)>,
    /// The user concerned. `None` if the alert concerns no single user.
    pub user: Option<String>,
    /// The kind of flag. `None` if the alert is not about a flag.
    pub flag: Option<ClusterFlagKind>,
    /// A sentence that describes the alert.
    pub text: String,
}

/// A message to the receivers of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The id of the message. It is the same in every delivery attempt.
    pub id: AlertDeliveryId,
    /// The kind of message.
    pub event: Event,
    /// The time at which it was created.
    pub at: DateTime<Utc>,
    /// The slug of the account.
    pub account: String,
    /// The rule and its name.
    pub rule: (AlertRuleId, String),
    /// The alerts.
    pub alerts: Vec<AlertItem>,
}

impl Message {
    /// Returns the body of a webhook request.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "version": 1,
            "id": self.id,
            "event": self.event.to_value(),
            "created_at": time(self.at),
            "account": self.account,
            "rule": { "id": self.rule.0, "name": self.rule.1 },
            "alerts": self.alerts.iter().take(MAX_ITEMS).map(AlertItem::json).collect::<Vec<_>>(),
            "more": self.alerts.len().saturating_sub(MAX_ITEMS),
        })
    }

    /// Returns the subject of an e-mail.
    #[must_use]
    pub fn title(&self) -> String {
        let (account, rule) = (&self.account, visible(&self.rule.1));
        if self.event == Event::Test {
            return format!("[Galvo] {account}: {rule}: a test");
        }
        let count = |phase| self.alerts.iter().filter(|item| item.phase == phase).count();
        let (firing, resolved) = (count(Phase::Firing), count(Phase::Resolved));
        let counts = match (firing, resolved) {
            (firing, 0) => format!("{firing} firing"),
            (0, resolved) => format!("{resolved} resolved"),
            (firing, resolved) => format!("{firing} firing, {resolved} resolved"),
        };
        format!("[Galvo] {account}: {rule}: {counts}")
    }

    /// Returns the text of an e-mail. Invisible characters in user-defined names are made visible.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.event == Event::Test {
            text.push_str("This is a test message of an alert rule.\n");
        }
        for item in self.alerts.iter().take(MAX_ITEMS) {
            let phase = match item.phase {
                Phase::Firing => "Firing",
                Phase::Resolved => "Resolved",
            };
            let _ = write!(text, "{phase}: {}\n  since {}", visible(&item.text), time(item.since)); // a `String` accepts every write
            if let Some(until) = item.until {
                let _ = write!(text, " until {}", time(until));
            }
            text.push('\n');
        }
        let omitted = self.alerts.len().saturating_sub(MAX_ITEMS);
        if omitted > 0 {
            let _ = writeln!(text, "… and {omitted} more.");
        }
        let _ = write!(text, "\nRule: {}\nAccount: {}\n", visible(&self.rule.1), self.account);
        text
    }
}

impl AlertItem {
    fn json(&self) -> Value {
        let cluster = self.cluster.as_ref().map(|(number, name)| json!({ "number": number, "name": name }));
        json!({
            "id": self.id,
            "state": match self.phase { Phase::Firing => "firing", Phase::Resolved => "resolved" },
            "since": time(self.since),
            "until": self.until.map(time),
            "value": self.value,
            "unit": self.unit,
            "cluster": cluster,
            "user": self.user,
            "flag": self.flag.map(|kind| kind.to_value().to_uppercase()),
            "text": self.text,
        })
    }
}

fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn nothing_of_a_name_is_unseen_in_an_e_mail() {
        let (at, id) = (DateTime::UNIX_EPOCH, Uuid::nil());
        let item = AlertItem {
            id: AlertId(id),
            phase: Phase::Firing,
            since: at,
            until: None,
            value: 1.0,
            unit: "clusters".to_owned(),
            cluster: None,
            user: None,
            flag: None,
            text: "Cluster a\u{202e}b\nResolved".to_owned(),
        };
        let message = Message {
            id: AlertDeliveryId(id),
            event: Event::Test,
            at,
            account: "ada".to_owned(),
            rule: (AlertRuleId(id), "r\u{200f}".to_owned()),
            alerts: vec![item],
        };
        assert_eq!(message.title(), "[Galvo] ada: r\\u{200f}: a test");
        let text = message.text();
        assert!(text.contains("Firing: Cluster a\\u{202e}b\\u{a}Resolved\n"), "{text}");
        assert!(text.ends_with("\nRule: r\\u{200f}\nAccount: ada\n"), "{text}");
    }
}
