//! The program `galvo`: parses the command line, runs the command and exits.

use std::process::ExitCode;

use clap::Parser;
use galvo::{cli, config::Cli, http::threads};
use mimalloc::MiMalloc;

/// A report consists of many small values. One thread allocates them and another one often frees them, which
/// mimalloc handles well.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads()).enable_all().build();
    runtime.expect("a process may have threads").block_on(cli::run(Cli::parse()))
}
