#![no_main]

use std::sync::LazyLock;

use galvo::fuzzing::Served;

static SERVED: LazyLock<Served> = LazyLock::new(Served::start);

// It starts before the first input, which would otherwise be the slow one.
libfuzzer_sys::fuzz_target!(
    init: { LazyLock::force(&SERVED); },
    |bytes: &[u8]| galvo::fuzzing::coiled(&SERVED, bytes)
);
