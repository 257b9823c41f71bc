//! The payload types of subscriptions to rows.

use async_graphql::Object;

use super::{Gap, PayloadContent, Rows};
use crate::graphql::{
    alerts::alert::Alert,
    computations::computation::Computation,
    engine::{projection::InlineList, scope::AccountScope},
    errors::{error_group::ErrorGroup, error_occurrence::ErrorOccurrence},
    telemetry::{event::Event, log_line::LogLine},
};

/// Declares the payload type of one kind of rows, with a field for each of its lists.
macro_rules! payload_type {
    ($doc:literal, $batch:ident, $rows:ident { $($field_doc:literal $field:ident: $noun:ident),+ $(,)? }) => {
        #[doc = $doc]
        pub(super) struct $batch {
            cursor: String,
            $($field: Vec<$noun>,)+
        }

        impl $batch {
            pub(super) fn of(
                scope: &AccountScope,
                PayloadContent { cursor, rows }: PayloadContent,
            ) -> Option<Self> {
                let Rows::$rows($($field),+) = rows else { return None };
                $(let $field = $field.into_iter().map(|row| $noun::new(scope, row)).collect();)+
                Some(Self { cursor, $($field),+ })
            }
        }

        #[doc = $doc]
        #[Object]
        impl $batch {
            /// The position of the stream after this payload. Pass it as `after` to resume from here.
            async fn cursor(&self) -> &str {
                &self.cursor
            }

            /// True if items may be missing before this payload. There are two causes: more than 5,000
            /// clusters changed since `after` (in a stream of alerts or error groups: more than 5,000 alerts
            /// or error groups); or `after` is more than one day old, so retention may have deleted items.
            async fn gap(&self) -> Gap {
                Gap
            }

            $(
                #[doc = $field_doc]
                async fn $field(&self) -> InlineList<&$noun> {
                    InlineList(self.$field.iter().collect())
                }
            )+
        }
    };
}

payload_type!(
    "Computations that started or changed, with the cursor of the stream.",
    ComputationBatch,
    Computations { "The computations in their current state, at most 100." computations: Computation }
);
payload_type!(
    "Tasks that failed, with the cursor of the stream.",
    ErrorBatch,
    Errors { "The errors, at most 100." errors: ErrorOccurrence }
);
payload_type!(
    "Logged events, with the cursor of the stream.",
    EventBatch,
    Events { "The events, at most 100." events: Event }
);
payload_type!(
    "Log lines, with the cursor of the stream.",
    LogBatch,
    Logs { "The lines, at most 100." lines: LogLine }
);
payload_type!(
    "Alerts that were raised, changed or ended, with the cursor of the stream.",
    AlertBatch,
    Alerts { "The alerts in their current state, at most 100." alerts: Alert }
);
payload_type!(
    "Error groups that are new, got errors or changed their status, with the cursor of the stream.",
    ErrorGroupBatch,
    ErrorGroups {
        "The groups that pass the filter, in their current state, at most 100 together with `unmatched`."
        error_groups: ErrorGroup,
        "The groups that do not pass the filter because of their status, in their current state. Each is \
         sent once, until it passes the filter again."
        unmatched: ErrorGroup,
    }
);
