//! The program `galvo`: parse, call, exit.

use std::process::ExitCode;

use clap::Parser;
use galvo::{cli, config::Cli};

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(Cli::parse()).await
}
