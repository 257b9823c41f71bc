//! What a receiver is told, as JSON and as text.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use entity::{
    alert_delivery::Event,
    cluster_flag::Kind,
    ids::{AlertDeliveryId, AlertId, AlertRuleId, ClusterId},
};
use sea_orm::ActiveEnum;
use serde_json::{Value, json};

/// Alerts that one message tells of at the most; of more it tells the number.
const MAX_ITEMS: usize = 50;

/// Whether something is so or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is so.
    Firing,
    /// It was so.
    Resolved,
}

/// An alert, as it is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Which one.
    pub id: AlertId,
    /// Whether it is so.
    pub phase: Phase,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Until when, if it is not any more.
    pub until: Option<DateTime<Utc>>,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
    /// The cluster it is about, with its name, if it is about one.
    pub cluster: Option<(ClusterId, Option<String>)>,
    /// The user it is about, if it is about one.
    pub user: Option<String>,
    /// What was noticed, if that is what it is about.
    pub flag: Option<Kind>,
    /// All of it in one sentence.
    pub text: String,
}

/// What a receiver is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Which message: the same however often it is sent.
    pub id: AlertDeliveryId,
    /// What about.
    pub event: Event,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// The account's short name.
    pub account: String,
    /// Whose rule.
    pub rule: (AlertRuleId, String),
    /// What happened.
    pub alerts: Vec<Item>,
}

impl Message {
    /// The body of a request.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "version": 1,
            "id": self.id,
            "event": self.event.to_value(),
            "created_at": time(self.at),
            "account": self.account,
            "rule": { "id": self.rule.0, "name": self.rule.1 },
            "alerts": self.alerts.iter().take(MAX_ITEMS).map(Item::json).collect::<Vec<_>>(),
            "more": self.alerts.len().saturating_sub(MAX_ITEMS),
        })
    }

    /// The subject of an e-mail.
    #[must_use]
    pub fn title(&self) -> String {
        let (account, rule) = (&self.account, &self.rule.1);
        if self.event == Event::Test {
            return format!("[Galvo] {account}: {rule}: a test");
        }
        let count = |phase| self.alerts.iter().filter(|item| item.phase == phase).count();
        let (firing, resolved) = (count(Phase::Firing), count(Phase::Resolved));
        let said = match (firing, resolved) {
            (firing, 0) => format!("{firing} firing"),
            (0, resolved) => format!("{resolved} resolved"),
            (firing, resolved) => format!("{firing} firing, {resolved} resolved"),
        };
        format!("[Galvo] {account}: {rule}: {said}")
    }

    /// The text of an e-mail.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.event == Event::Test {
            text.push_str("This is a test: somebody wants to know whether messages of this rule arrive.\n");
        }
        for item in self.alerts.iter().take(MAX_ITEMS) {
            let phase = match item.phase {
                Phase::Firing => "Firing",
                Phase::Resolved => "Resolved",
            };
            let _ = write!(text, "{phase}: {}\n  since {}", item.text, time(item.since)); // text takes what it is given
            if let Some(until) = item.until {
                let _ = write!(text, " until {}", time(until));
            }
            text.push('\n');
        }
        let more = self.alerts.len().saturating_sub(MAX_ITEMS);
        if more > 0 {
            let _ = writeln!(text, "… and {more} more.");
        }
        let _ = write!(text, "\nRule: {}\nAccount: {}\n", self.rule.1, self.account);
        text
    }
}

impl Item {
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

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
