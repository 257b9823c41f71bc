#![no_main]

use std::sync::LazyLock;

use galvo::fuzzing::FuzzServer;

static SERVED: LazyLock<FuzzServer> = LazyLock::new(FuzzServer::start);

// The server starts before the first input, which would otherwise count as slow.
libfuzzer_sys::fuzz_target!(
    init: { LazyLock::force(&SERVED); },
    |bytes: &[u8]| galvo::fuzzing::coiled(&SERVED, bytes)
);
