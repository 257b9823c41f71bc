//! Timing of rejected tokens: checks that it does not reveal whether a token's identifier exists.

use crate::{
    database::{Databases, Result, Store},
    hostile::{ordinary_request, send},
    hostile_requests::HostileRequest,
    results::{Outcome, summarize},
    server::Server,
};

/// The maximum ratio of the medians.
const AIM: f64 = 1.05;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of times each token is sent.
    #[arg(long, default_value_t = 2_000)]
    rounds: usize,
    #[arg(long, value_enum, default_value_t = Store::Postgres)]
    store: Store,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(options.store).await?;
    let database = databases.create_copy().await?;
    let server = Server::start(&database.url, 16).await?;
    let (identifier, secret) = databases.token.split_once('-').ok_or("the token has no identifier")?;
    // A secret of the same length, which matches nothing.
    let wrong_secret = "A".repeat(secret.len());
    let unknown_identifier: String = identifier.chars().rev().collect();
    let tokens = [format!("{identifier}-{wrong_secret}"), format!("{unknown_identifier}-{wrong_secret}")];
    let rejected_request =
        HostileRequest { name: "a wrong token", status: 401, code: "UNAUTHENTICATED", ..ordinary_request() };
    let mut times = [Vec::new(), Vec::new()];
    // The first rounds are a warm-up.
    for round in 0..options.rounds + options.rounds / 10 {
        for index in [round % 2, (round + 1) % 2] {
            let time = send(server.address, &tokens[index], &rejected_request).await?;
            if round >= options.rounds / 10 {
                times[index].push(time);
            }
        }
    }
    server.stop().await?;
    database.drop().await?;
    let [(known, ..), (unknown, ..)] = times.each_ref().map(|times| summarize(times));
    let ratio = known / unknown;
    Outcome {
        benchmark: format!("wrong tokens with an identifier that exists, {}", options.store.name()),
        figure: format!("{known:.3} ms in the median of {}", options.rounds),
        reference: format!("{unknown:.3} ms with one that does not"),
        ratio: Some(ratio),
        aim: format!("{:.2} to {AIM}", 1.0 / AIM),
        is_met: Some((1.0 / AIM..=AIM).contains(&ratio)),
    }
    .publish();
    Ok(())
}
