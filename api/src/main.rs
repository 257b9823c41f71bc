//! The program `galvo`: parse, call, exit.

use std::process::ExitCode;

use clap::Parser;
use galvo::{cli, config::Cli};
use mimalloc::MiMalloc;

/// A report is many small values that other threads let go of than made them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(Cli::parse()).await
}
