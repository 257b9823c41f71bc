#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use proptest::{collection::btree_map, prelude::*, sample::select};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-5_i32..900).prop_map(f64::from),
        (0..(1_i64 << 53)).prop_map(whole),
        (0..90_000_i32).prop_map(|number| f64::from(number) / 1000.0),
        -1e9..1e9_f64,
        -1e100..1e100_f64,
        Just(-0.0),
        Just(1e-60),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn whole(number: i64) -> f64 {
    number as f64
}

type Raw = BTreeMap<u32, BTreeMap<Metric, f64>>;

fn raw() -> impl Strategy<Value = Raw> {
    let metrics = btree_map(select(Metric::ALL), value(), 1..6);
    // There are only few different times, so that chunks share some.
    let offset = prop_oneof![0..20_u32, Just(599_999), 0..600_000_u32];
    btree_map(offset, metrics, 0..40)
}

fn samples(raw: &Raw) -> Samples {
    let mut samples = Samples::default();
    for (offset, values) in raw {
        samples.add(*offset, values.clone());
    }
    samples
}

fn raw_of(samples: &Samples) -> Raw {
    let mut raw = Raw::new();
    for metric in Metric::ALL {
        for (offset, value) in samples.values(*metric) {
            raw.entry(offset).or_default().insert(*metric, value);
        }
    }
    raw
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(raw in raw()) {
        let packed = pack(&samples(&raw));
        let expected: Raw = raw
            .into_iter()
            .map(|(offset, values)| (offset, values.into_iter().map(|(m, value)| (m, stored_value(value))).collect()))
            .collect();
        let unpacked = unpack(&packed).unwrap();
        prop_assert_eq!(raw_of(&unpacked), expected);
        // A second packing results in the same bytes, because values are rounded only once.
        prop_assert_eq!(pack(&unpacked), packed);
    }

    #[test]
    fn merging_commutes_and_is_idempotent(a in raw(), b in raw(), c in raw()) {
        let merged = |chunks: &[&Raw]| {
            // The merge goes through the packed form each time, as with the storage of consecutive
            // reports.
            chunks.iter().fold(pack(&Samples::default()), |packed, chunk| {
                let mut stored = unpack(&packed).unwrap();
                let previous = stored.clone();
                assert_eq!(stored.merge(&samples(chunk)), stored != previous);
                pack(&stored)
            })
        };
        let expected = merged(&[&a, &b, &c]);
        prop_assert_eq!(merged(&[&c, &a, &b]), &expected[..]);
        prop_assert_eq!(merged(&[&b, &a, &b, &c, &a]), &expected[..]);
    }

    #[test]
    fn whole_numbers_are_exact_and_others_have_seven_digits(value in value()) {
        let rounded = stored_value(value);
        if value.fract() == 0.0 && value.abs() < EXACT {
            prop_assert_eq!(rounded.to_bits(), (value + 0.0).to_bits());
        } else if value.abs() > 1e-30 && value.abs() < 1e38 {
            prop_assert!(((rounded - value) / value).abs() < 6e-8, "{} of {}", rounded, value);
        }
        prop_assert!(rounded.is_finite());
    }

    #[test]
    fn other_bytes_are_damaged_and_not_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), at in 0..60_usize) {
        let _ = unpack(&bytes);
        let _ = read_columns(&mut ByteReader(&bytes));
        let content = write_columns(&samples(&BTreeMap::from([(7, BTreeMap::from([(Metric::Cpu, 1.5)]))])));
        let mut content: Vec<u8> = content.into_iter().chain(bytes).collect();
        let at = at % content.len();
        content[at] ^= 0x55;
        let _ = read_columns(&mut ByteReader(&content));
    }
}

#[test]
fn the_first_of_too_many_stay_whatever_the_order() {
    let all_offsets: Vec<u32> = (0..7_000).map(|n| n * 80).collect();
    let fill = |offsets: &mut dyn Iterator<Item = &u32>| {
        let mut samples = Samples::default();
        for offset in offsets {
            samples.add(*offset, [(Metric::Workers, f64::from(*offset))]);
        }
        samples
    };
    let forward = fill(&mut all_offsets.iter());
    assert_eq!(forward, fill(&mut all_offsets.iter().rev()));
    assert_eq!(forward.len(), MAX_SAMPLES);
    assert_eq!(forward.offsets, all_offsets[..MAX_SAMPLES]);
    // A metric that only removed samples had is removed as well.
    let mut merged = forward.clone();
    assert!(!merged.add(599_999, [(Metric::Cpu, 1.0)]));
    assert_eq!(merged, forward);
    let packed = pack(&forward);
    assert_eq!(unpack(&packed), Ok(forward));
}

#[test]
fn chunks_begin_every_ten_minutes() {
    assert_eq!(locate(1_795_175_999_999), (1_795_175_400_000, 599_999));
    assert_eq!(locate(1_795_176_000_000), (1_795_176_000_000, 0));
}

#[test]
fn versions_that_are_not_known_are_not_guessed_at() {
    let mut packed = pack(&samples(&BTreeMap::from([(0, BTreeMap::from([(Metric::Cpu, 1.0)]))])));
    packed[0] = 2;
    assert_eq!(unpack(&packed), Err(Damaged));
    assert_eq!(unpack(&[]), Err(Damaged));
}

/// Ten minutes of a busy cluster, sampled every ten seconds, with the resolution of Dask's measurements:
/// process memory in pages, CPU in tenths of a percent, rates and delays with all digits of a float.
fn busy(samples_count: u32) -> Samples {
    let mut random = StdRng::seed_from_u64(1);
    let mut samples = Samples::default();
    let (mut managed, mut tasks) = (20e9_f64, 4_000.0_f64);
    let (mut read, mut write, mut delay, mut contention) = (3e7, 2e7, 0.008, 0.1_f64);
    for n in 0..samples_count {
        managed = (managed + random.random_range(-4e8..4e8)).abs().round();
        tasks = (tasks + random.random_range(-300.0..250.0_f64).round()).max(0.0);
        let process = ((managed + random.random_range(3e9..3.2e9_f64)) / 4096.0).round() * 4096.0;
        for quantity in [&mut read, &mut write, &mut delay, &mut contention] {
            *quantity *= random.random_range(0.75..1.333);
        }
        let values = [
            (Metric::Workers, 20.0),
            (Metric::Threads, 80.0),
            (Metric::MemoryProcess, process),
            (Metric::MemoryManaged, managed),
            (Metric::MemorySpilled, if n < 30 { 0.0 } else { 1_234_567_890.0 }),
            (Metric::Cpu, random.random_range(50_000.0..79_000.0_f64).round() / 1000.0),
            (Metric::NetworkRead, read),
            (Metric::NetworkWrite, write),
            (Metric::EventLoop, delay),
            (Metric::GilContention, contention.min(1.0)),
            (Metric::TasksProcessing, random.random_range(100.0..160.0_f64).round()),
            (Metric::TasksMemory, tasks),
        ];
        samples.add(n * 10_000 + random.random_range(0..9), values);
    }
    samples
}

#[test]
fn a_sample_of_a_busy_cluster_takes_thirty_bytes() {
    let packed = pack(&busy(60));
    assert!(packed.len() <= 30 * 60, "{} bytes a sample", packed.len() / 60);
    let single = pack(&busy(1));
    assert!(single.len() <= 100, "{} bytes", single.len());
}
