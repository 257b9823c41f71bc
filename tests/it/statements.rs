//! The statements that a server in this process sends.

use std::{cell::RefCell, sync::Once};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

thread_local! {
    /// Statements of the server on this thread, while they are recorded.
    static STATEMENTS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Extracts the statements from the server's log at the level `trace`.
struct Statements;

impl<S: tracing::Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Sql(Option<String>);
        impl Visit for Sql {
            fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
            fn record_str(&mut self, field: &Field, value: &str) {
                if field.name() == "sql" {
                    self.0 = Some(value.to_owned());
                }
            }
        }
        let mut sql = Sql(None);
        event.record(&mut sql);
        STATEMENTS.with_borrow_mut(|statements| {
            if let Some(statements) = statements {
                statements.extend(sql.0);
            }
        });
    }
}

/// Runs `work`, and returns the statements that the server on this thread sends.
pub(crate) async fn statements_of(work: impl Future<Output = Value>) -> (Value, Vec<String>) {
    // Set globally: a subscriber of one thread is ignored if another thread logs first.
    static LOG: Once = Once::new();
    LOG.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Statements)).unwrap();
    });
    STATEMENTS.set(Some(Vec::new()));
    let value = work.await;
    (value, STATEMENTS.take().unwrap())
}
