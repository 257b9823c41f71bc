#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use proptest::{array::uniform4, collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::domain::series::{MAX_POINTS, Window};

/// A minute of a chunk with some functions and others, in hundredths of seconds.
type Raw = (usize, Vec<(&'static str, [u32; 4])>, [u32; 4]);

fn values() -> impl Strategy<Value = [u32; 4]> {
    uniform4(prop_oneof![3 => Just(0), 2 => 1..6_000_u32, 1 => Just(1_500_000_000)])
}

fn raw() -> impl Strategy<Value = Vec<Raw>> {
    let functions = vec((select(vec!["inc", "load", "größe", "a b", ""]), values()), 0..5);
    vec((0..10_usize, functions, values()), 0..8)
}

fn report((minute, functions, others): &Raw) -> FunctionActivityReport {
    let seconds = |values: &[u32; 4]| values.map(|value| f64::from(value) / 100.0);
    let functions = functions
        .iter()
        .map(|(prefix, values)| json!({ "prefix": prefix, "compute_seconds": seconds(values) }));
    serde_json::from_value(json!({
        "minute": 29_941_230 + minute,
        "functions": functions.collect::<Vec<_>>(),
        "other_compute_seconds": seconds(others),
    }))
    .unwrap()
}

fn activity(raw: &[Raw]) -> Activity {
    let mut activity = Activity::default();
    for minute in raw.iter().map(report) {
        activity.add_minute(locate(minute.minute.get()).1, &minute);
    }
    activity
}

fn minute(functions: &[(&str, [f64; 4])]) -> FunctionActivityReport {
    let functions: Vec<_> = functions
        .iter()
        .map(|(prefix, seconds)| json!({ "prefix": prefix, "compute_seconds": seconds }))
        .collect();
    serde_json::from_value(json!({ "minute": 0, "functions": functions })).unwrap()
}

/// The functions of a chunk with the index and the value of each interval that is not zero.
fn contents(activity: &Activity) -> Vec<(&str, Vec<(usize, u32)>)> {
    let active = |values: &[u32]| {
        values.iter().copied().enumerate().filter(|(_, value)| *value > 0).collect::<Vec<_>>()
    };
    activity.functions().map(|(function, values)| (function, active(values))).collect()
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(raw in raw()) {
        let activity = activity(&raw);
        let packed = pack(&activity);
        prop_assert_eq!(unpack(&packed), Ok(activity.clone()));
        prop_assert_eq!(pack(&activity), packed);
    }

    #[test]
    fn merging_commutes_and_is_idempotent(a in raw(), b in raw(), c in raw()) {
        let merged = |chunks: &[&Vec<Raw>]| {
            // The merge goes through the packed form each time, as with the storage of consecutive
            // reports.
            chunks.iter().fold(pack(&Activity::default()), |packed, chunk| {
                let mut stored = unpack(&packed).unwrap();
                let previous = stored.clone();
                assert_eq!(stored.merge(&activity(chunk)), stored != previous);
                pack(&stored)
            })
        };
        let expected = merged(&[&a, &b, &c]);
        prop_assert_eq!(merged(&[&c, &a, &b]), &expected[..]);
        prop_assert_eq!(merged(&[&b, &a, &b, &c, &a]), &expected[..]);
    }

    #[test]
    fn other_bytes_are_damaged_and_not_a_panic(bytes in vec(any::<u8>(), 0..60), at in 0..60_usize) {
        let _ = unpack(&bytes);
        let _ = read_functions(&mut ByteReader(&bytes));
        let content = write_functions(&activity(&[(3, vec![("inc", [1, 0, 0, 700])], [0, 5, 0, 0])]));
        let mut content: Vec<u8> = content.into_iter().chain(bytes).collect();
        let at = at % content.len();
        content[at] ^= 0x55;
        let _ = read_functions(&mut ByteReader(&content));
    }
}

#[test]
fn each_value_has_its_interval_and_the_larger_one_is_kept() {
    let mut activity = Activity::default();
    activity.add_minute(0, &minute(&[("inc", [0.0, 3.25, 14.9, 0.004])]));
    activity.add_minute(36, &minute(&[("inc", [0.0, 0.0, 0.0, 1.0]), ("load", [0.0; 4])]));
    activity.add_minute(0, &minute(&[("inc", [1.0, 3.0, 15.0, 0.0])]));
    assert_eq!(contents(&activity), [("inc", vec![(0, 100), (1, 325), (2, 1_500), (39, 100)])]);
    assert_eq!(activity.len(), 1);
    // 40 values: three, a run of 36 zeros, and one.
    let content = [&[1, 3][..], b"inc", &[100, 0xc5, 2, 0xdc, 11, 0, 36, 100]].concat();
    assert_eq!(write_functions(&activity), content);
}

#[test]
fn functions_without_a_name_or_with_a_very_long_one_are_others() {
    let mut activity = Activity::default();
    let (long, longer) = ("x".repeat(MAX_NAME_BYTES), "x".repeat(MAX_NAME_BYTES + 1));
    let mut report = minute(&[("", [1.0; 4]), (long.as_str(), [2.0; 4]), (longer.as_str(), [3.0; 4])]);
    activity.add_minute(0, &report);
    let constant_values = |value: u32| (0..4).map(|index| (index, value)).collect::<Vec<_>>();
    assert_eq!(contents(&activity), [("", constant_values(400)), (long.as_str(), constant_values(200))]);
    report.other_compute_seconds = report.functions.first().map(|function| function.compute_seconds);
    activity.add_minute(0, &report);
    assert_eq!(contents(&activity), [("", constant_values(500)), (long.as_str(), constant_values(200))]);
}

#[test]
fn the_first_of_too_many_functions_stay_whatever_the_order() {
    let names: Vec<String> = (0..MAX_FUNCTIONS + 50).map(|number| format!("function {number:03}")).collect();
    let fill = |names: &mut dyn Iterator<Item = &String>| {
        let mut activity = Activity::default();
        activity.add_minute(0, &minute(&[("", [1.0; 4])]));
        names.for_each(|name| activity.add_minute(4, &minute(&[(name.as_str(), [1.0; 4])])));
        activity
    };
    let forward = fill(&mut names.iter());
    assert_eq!(forward, fill(&mut names.iter().rev()));
    assert_eq!(forward.len(), MAX_FUNCTIONS);
    assert_eq!(forward.functions().last().unwrap().0, names[MAX_FUNCTIONS - 2]);
    let mut merged = forward.clone();
    assert!(!merged.merge(&fill(&mut names[MAX_FUNCTIONS..].iter())));
    assert_eq!(unpack(&pack(&forward)), Ok(forward));
}

#[test]
fn chunks_begin_every_ten_minutes() {
    assert_eq!(locate(29_919_589), (1_795_174_800_000, 36));
    assert_eq!(locate(29_919_590), (1_795_175_400_000, 0));
    assert_eq!([0.004, 0.005, 14.9, 15e6].map(hundredths), [0, 1, 1_490, 1_500_000_000]);
}

#[test]
fn versions_that_are_not_known_are_not_guessed_at() {
    let mut packed = pack(&activity(&[(0, vec![("inc", [1; 4])], [0; 4])]));
    packed[0] = 2;
    assert_eq!(unpack(&packed), Err(Damaged));
    assert_eq!(unpack(&[]), Err(Damaged));
    // Names out of order, which would result in other bytes.
    let content = [&[2, 1][..], b"b", &[0, 40, 1], b"a", &[0, 40]].concat();
    assert_eq!(read_functions(&mut ByteReader(&content)), Err(Damaged));
}

#[test]
fn twenty_functions_take_some_two_kilobytes_in_ten_minutes() {
    let names: Vec<String> = (0..20).map(|number| format!("function-with-a-name-{number}")).collect();
    let mut activity = Activity::default();
    for (minute, minute_index) in (0..10_u32).zip(0..) {
        for (name, number) in names.iter().zip(0_u32..) {
            let values = [0, 1, 2, 3].map(|n| (minute * 7_919 + number * 104_729 + n * 31) % 6_000);
            activity.raise(name, 4 * minute_index, &values);
        }
    }
    let bytes = pack(&activity).len();
    assert!(bytes < 2_200, "{bytes}");
}

#[test]
fn the_integral_of_all_columns_is_the_compute_time() {
    let window = |from, to, width| Window::new(from, to, Some(width)).unwrap();
    // Of the first chunk, the interval that contains the start of the period counts whole.
    let mut buckets = ActivityBuckets::new(window(607_000, 1_290_000, 30));
    let first =
        [("inc", [9.0, 15.0, 30.0, 0.0]), ("load", [0.0, 0.0, 45.0, 0.0]), ("", [1.5, 0.0, 0.0, 0.0])];
    let second = [("inc", [0.0, 6.0, 0.0, 0.0]), ("sum", [0.0, 0.0, 3.0, 60.0])];
    for (start, functions) in [(600_000, &first[..]), (1_200_000, &second[..])] {
        let mut activity = Activity::default();
        activity.add_minute(0, &minute(functions));
        buckets.add(start, &activity).unwrap();
    }
    let columns = buckets.columns(2);
    assert_eq!(columns.started_at, Some(600_000));
    let named_functions: Vec<(&str, f64)> =
        columns.functions.iter().map(|function| (&*function.prefix, function.compute_seconds)).collect();
    assert_eq!(named_functions, [("sum", 63.0), ("inc", 60.0)]);
    // 22 buckets of 30 s: those from 600 s on, and those from 1,200 s on with 6 s of `inc`.
    let bucket_values = |nonzero_values: &[(usize, f64)]| {
        let mut values = vec![0.0; 22];
        for (index, value) in nonzero_values {
            values[*index] = *value;
        }
        values
    };
    assert_eq!(columns.functions[0].threads, bucket_values(&[(21, 2.1)]));
    assert_eq!(columns.functions[1].threads, bucket_values(&[(0, 0.8), (1, 1.0), (20, 0.2)]));
    assert_eq!(columns.others, bucket_values(&[(0, 0.05), (1, 1.5)]));
    let columns_of_threads =
        columns.functions.iter().map(|function| &function.threads).chain([&columns.others]);
    let integral: f64 = columns_of_threads.flatten().map(|threads| 30.0 * threads).sum();
    assert!((integral - columns.compute_seconds).abs() < 1e-9, "{integral}");
    assert!((columns.compute_seconds - 169.5).abs() < 1e-9, "{}", columns.compute_seconds);
    // Without activity there are no buckets.
    let empty = ActivityBuckets::new(window(0, 600_000, 15)).columns(20);
    let no_columns =
        ActivityColumns { started_at: None, functions: vec![], others: vec![], compute_seconds: 0.0 };
    assert_eq!(empty, no_columns);
}

#[test]
fn the_functions_of_a_month_fit_and_names_without_end_do_not() {
    let window = Window::with_at_most(MAX_POINTS, 0, 31 * 86_400_000).at_least_seconds(INTERVAL_SECONDS);
    let add = |functions: usize, padding: usize| {
        let mut buckets = ActivityBuckets::new(window);
        (0..31 * 144_i64).try_for_each(|chunk| {
            let mut activity = Activity::default();
            for number in 0..functions {
                activity.raise(&format!("{chunk}-{number}-{}", "x".repeat(padding)), 0, &[1]);
            }
            buckets.add(chunk * 600_000, &activity)
        })
    };
    assert_eq!(add(20, 30), Ok(()));
    assert_eq!(add(20, 900), Err(TooManyFunctions));
}
