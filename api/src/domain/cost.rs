//! Cost of usage.
//!
//! Amounts are whole billionths of a currency's unit, so that the costs of the parts add up to the cost
//! of the whole. Each amount names the basis of its rates. Amounts in different currencies or on
//! different bases are never added.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use super::usage::{Cause, Usage};

/// Billionths in one unit.
const NANO: f64 = 1e9;

/// Microseconds of an hour.
const HOUR_US: i128 = 3_600_000_000;

/// Bytes of a GiB.
const GIB: i128 = 1 << 30;

/// The largest accepted rate, far beyond that of any machine.
pub const MAX_RATE: f64 = 1e6;

/// A currency, as an ISO 4217 code: three capital letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// Parses a currency. Returns `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 3] = text.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_uppercase).then_some(Self(letters))
    }

    /// Returns the letters as one number.
    #[must_use]
    pub fn number(self) -> i64 {
        self.0.into_iter().fold(0, |number, letter| 256 * number + i64::from(letter))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| f.write_char(char::from(*letter)))
    }
}

/// The hourly prices from a day on.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The first day of its validity, in whole days since 1970-01-01 UTC.
    pub valid_from: i64,
    /// The ISO 4217 code of the currency.
    pub currency: String,
    /// The price of one thread.
    pub per_thread_hour: f64,
    /// The price of one GiB of memory limit.
    pub per_gib_hour: f64,
    /// The price of one worker.
    pub per_worker_hour: f64,
}

impl Rate {
    /// Returns the default rate for days without a rate of the account. It is about the price of a
    /// virtual CPU with its memory in public clouds.
    #[must_use]
    pub fn estimate() -> Self {
        Self {
            valid_from: i64::MIN,
            currency: "USD".to_owned(),
            per_thread_hour: 0.05,
            per_gib_hour: 0.0,
            per_worker_hour: 0.0,
        }
    }

    fn nanos(&self, usage: &Usage) -> i128 {
        per_hours(usage.thread_us, self.per_thread_hour)
            + per_hours(usage.memory_gib_us, self.per_gib_hour)
            + per_hours(usage.worker_us, self.per_worker_hour)
    }
}

/// The source of the rates of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The account's own rates.
    RateCard,
    /// The server's default rate, because the account has set none for that day.
    Estimated,
}

/// An amount of money with its components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The ISO 4217 code of the currency.
    pub currency: String,
    /// The source of the rates.
    pub basis: Basis,
    /// The amount, in billionths of the currency's unit.
    pub nanos: i128,
    /// The amount by the use of the threads. The sum is `nanos`.
    pub causes: BTreeMap<Cause, i128>,
}

impl Cost {
    /// Returns the amount in the currency's unit.
    #[must_use]
    pub fn amount(&self) -> f64 {
        amount(self.nanos)
    }
}

/// Formats an amount with its currency. Below a tenth it has four decimals, so that a small amount does not
/// look like zero.
#[must_use]
pub fn amount_in_words(amount: f64, currency: &str) -> String {
    if amount == 0.0 || amount >= 0.1 {
        format!("{amount:.2} {currency}")
    } else if amount < 0.0001 {
        format!("less than 0.0001 {currency}")
    } else {
        format!("{amount:.4} {currency}")
    }
}

/// Converts billionths to the currency's unit.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a large amount needs no more digits")]
pub fn amount(nanos: i128) -> f64 {
    nanos as f64 / NANO
}

/// The size of a cluster at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of threads.
    pub threads: i64,
    /// The number of workers.
    pub workers: i64,
    /// The sum of the workers' memory limits, in bytes. `None` if it is unknown.
    pub memory_bytes: Option<i64>,
}

/// The price of an hour at a constant size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourlyPrice {
    /// The ISO 4217 code of the currency.
    pub currency: String,
    /// The source of the rate.
    pub basis: Basis,
    /// The price, in billionths of the currency's unit.
    pub nanos: i128,
}

/// A range of days with the same hourly prices, in billionths of a currency's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedDays {
    /// The first day.
    pub from: i64,
    /// The day after the last one.
    pub to: i64,
    /// The price of one thread.
    pub per_thread_hour: f64,
    /// The price of one GiB of memory limit.
    pub per_gib_hour: f64,
    /// The price of one worker.
    pub per_worker_hour: f64,
}

/// A day after all possible days.
const LAST_DAY: i64 = 4_000_000;

/// The rates of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateCard(Vec<Rate>);

impl RateCard {
    /// Creates a rate card. Each rate is valid until the next one begins.
    #[must_use]
    pub fn new(mut rates: Vec<Rate>) -> Self {
        rates.sort_by_key(|rate| rate.valid_from);
        Self(rates)
    }

    /// Returns the currency of the prices on a day.
    #[must_use]
    pub fn currency_on(&self, day: i64) -> String {
        self.rate_on(day).cloned().unwrap_or_else(Rate::estimate).currency
    }

    /// Returns the ranges of days with prices in a currency. Days without a rate of the account have the
    /// default rate.
    #[must_use]
    pub fn prices(&self, currency: &str) -> Vec<PricedDays> {
        let mut rates = vec![Rate { valid_from: 0, ..Rate::estimate() }];
        rates.extend(self.0.iter().cloned());
        let ends =
            rates.iter().skip(1).map(|next_rate| next_rate.valid_from).chain([LAST_DAY]).collect::<Vec<_>>();
        let times =
            rates.iter().zip(ends).filter(|(rate, end)| rate.currency == currency && rate.valid_from < *end);
        let nanos = |rate: f64| (rate * NANO).round();
        times
            .map(|(rate, to)| PricedDays {
                from: rate.valid_from,
                to,
                per_thread_hour: nanos(rate.per_thread_hour),
                per_gib_hour: nanos(rate.per_gib_hour),
                per_worker_hour: nanos(rate.per_worker_hour),
            })
            .collect()
    }

    fn rate_on(&self, day: i64) -> Option<&Rate> {
        self.0.iter().rev().find(|rate| rate.valid_from <= day)
    }

    /// Returns the rate of a day with its basis: the default rate if the account has none for the day.
    fn rate_or_default<'a>(&'a self, day: i64, estimate: &'a Rate) -> (&'a Rate, Basis) {
        self.rate_on(day).map_or((estimate, Basis::Estimated), |rate| (rate, Basis::RateCard))
    }

    /// Returns the price of an hour on a day at a constant size. `None` if the rate has a price for memory,
    /// and the memory is unknown.
    #[must_use]
    pub fn price_of_hour(&self, day: i64, size: &Size) -> Option<HourlyPrice> {
        let estimate = Rate::estimate();
        let (rate, basis) = self.rate_or_default(day, &estimate);
        let memory = match size.memory_bytes {
            Some(bytes) => (i128::from(bytes) * to_nanos(rate.per_gib_hour) + GIB / 2).div_euclid(GIB),
            None if rate.per_gib_hour == 0.0 => 0,
            None => return None,
        };
        let price_of = |count: i64, price: f64| i128::from(count) * to_nanos(price);
        let nanos = price_of(size.threads, rate.per_thread_hour)
            + price_of(size.workers, rate.per_worker_hour)
            + memory;
        Some(HourlyPrice { currency: rate.currency.clone(), basis, nanos })
    }

    /// Returns the cost of usage by day, as one amount for each currency and basis.
    #[must_use]
    pub fn cost<'a>(&self, days: impl IntoIterator<Item = (i64, &'a Usage)>) -> Vec<Cost> {
        let estimate = Rate::estimate();
        let mut costs: BTreeMap<(Basis, &str), Cost> = BTreeMap::new();
        for (day, usage) in days {
            let (rate, basis) = self.rate_or_default(day, &estimate);
            let nanos = rate.nanos(usage);
            let cost = costs.entry((basis, &rate.currency)).or_insert_with(|| Cost {
                currency: rate.currency.clone(),
                basis,
                nanos: 0,
                causes: BTreeMap::new(),
            });
            cost.nanos += nanos;
            for (cause, cause_nanos) in shares(nanos, usage) {
                *cost.causes.entry(cause).or_default() += cause_nanos;
            }
        }
        costs.into_values().collect()
    }
}

/// Divides an amount by the use of the threads. The cost of memory and workers is divided in the
/// same ratio. The last part takes the rounding difference.
fn shares(nanos: i128, usage: &Usage) -> Vec<(Cause, i128)> {
    let thread_us = i128::from(usage.thread_us);
    let mut remainder = nanos;
    let mut shares: Vec<(Cause, i128)> = usage
        .causes()
        .into_iter()
        .filter(|(cause, _)| *cause != Cause::Unaccounted)
        .map(|(cause, time)| {
            let share = if thread_us == 0 {
                0
            } else {
                (nanos * i128::from(time) + thread_us / 2).div_euclid(thread_us)
            };
            remainder -= share;
            (cause, share)
        })
        .collect();
    if usage.causes().last().is_some_and(|(_, time)| *time == 0)
        && let Some((_, last_share)) = shares.last_mut()
    {
        // All thread time is accounted for, so the rest is only a rounding difference.
        *last_share += remainder;
        remainder = 0;
    }
    shares.push((Cause::Unaccounted, remainder));
    shares
}

/// Returns the price of a duration, rounded to the nearest billionth.
fn per_hours(time_us: i64, rate: f64) -> i128 {
    (i128::from(time_us) * to_nanos(rate) + HOUR_US / 2).div_euclid(HOUR_US)
}

/// Converts a rate to billionths.
#[expect(clippy::cast_possible_truncation, reason = "rates are bounded where they are set")]
fn to_nanos(rate: f64) -> i128 {
    (rate * NANO).round() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn rate(valid_from: i64, currency: &str, per_thread_hour: f64) -> Rate {
        Rate {
            valid_from,
            currency: currency.to_owned(),
            per_thread_hour,
            per_gib_hour: 0.01,
            per_worker_hour: 0.5,
        }
    }

    #[test]
    fn each_day_has_the_rate_of_its_day() {
        // Two thread-hours, four GiB-hours and one worker-hour a day.
        let usage =
            Usage { thread_us: 2 * HOUR, memory_gib_us: 4 * HOUR, worker_us: HOUR, ..Usage::default() };
        let card = RateCard::new(vec![rate(20, "EUR", 0.3), rate(10, "EUR", 0.1)]);
        let costs = card.cost([(9, &usage), (10, &usage), (19, &usage), (20, &usage)]);
        let amounts: Vec<_> =
            costs.iter().map(|cost| (cost.basis, cost.currency.as_str(), cost.nanos)).collect();
        // 0.2 + 0.04 + 0.5 twice, and 0.6 + 0.04 + 0.5; the first day is estimated at 2 x 0.05.
        let expected = [(Basis::RateCard, "EUR", 2_620_000_000), (Basis::Estimated, "USD", 100_000_000)];
        assert_eq!(amounts, expected);
    }

    #[test]
    fn an_hour_costs_by_the_present_size() {
        let card = RateCard::new(vec![rate(10, "EUR", 0.1)]);
        let size = Size { threads: 8, workers: 2, memory_bytes: Some(3 << 29) };
        let price = |day, size| card.price_of_hour(day, &size).map(|price| (price.basis, price.nanos));
        // 8 x 0.1, 2 x 0.5 and 1.5 GiB x 0.01; the default rate has a price for threads alone.
        assert_eq!(price(10, size), Some((Basis::RateCard, 1_815_000_000)));
        assert_eq!(price(9, size), Some((Basis::Estimated, 400_000_000)));
        let unlimited = Size { memory_bytes: None, ..size };
        assert_eq!(price(10, unlimited), None, "the memory has a price, and is unknown");
        assert_eq!(price(9, unlimited), Some((Basis::Estimated, 400_000_000)));
    }

    #[test]
    fn causes_add_up_to_the_amount() {
        let usage = Usage {
            thread_us: 3 * HOUR + 1,
            cpu_us: Some(HOUR),
            idle_us: Some(2 * HOUR + 1),
            ..Usage::default()
        };
        for usage in [usage, Usage { idle_us: None, ..usage }, Usage { thread_us: 0, worker_us: 7, ..usage }]
        {
            for cost in RateCard::new(vec![rate(0, "USD", 0.077_777)]).cost([(1, &usage), (2, &usage)]) {
                assert_eq!(cost.causes.values().sum::<i128>(), cost.nanos, "{usage:?}");
            }
        }
    }

    #[test]
    fn prices_of_a_currency_are_those_of_its_days() {
        let card = RateCard::new(vec![rate(20, "USD", 0.3), rate(10, "EUR", 0.1), rate(30, "EUR", 0.2)]);
        let days = |currency| -> Vec<(i64, i64, f64)> {
            let prices = card.prices(currency).into_iter();
            prices.map(|days| (days.from, days.to, days.per_thread_hour)).collect()
        };
        // The default rate applies before the first rate.
        assert_eq!(days("USD"), [(0, 10, 5e7), (20, 30, 3e8)]);
        assert_eq!(days("EUR"), [(10, 20, 1e8), (30, LAST_DAY, 2e8)]);
        assert_eq!(days("GBP"), []);
        assert_eq!([9, 10, 29, 30].map(|day| card.currency_on(day)), ["USD", "EUR", "USD", "EUR"]);
        // A rate from the first day on leaves no day to the default rate.
        let card = RateCard::new(vec![rate(0, "EUR", 0.1)]);
        assert_eq!((card.prices("USD").len(), card.prices("EUR").len()), (0, 1));
    }

    #[test]
    fn nothing_costs_nothing() {
        assert_eq!(RateCard::default().cost([]), Vec::new());
    }

    #[test]
    fn small_amounts_are_not_nothing() {
        let words = |nanos| amount_in_words(amount(nanos), "USD");
        let expected = [
            (0, "0.00 USD"),
            (99_999, "less than 0.0001 USD"),
            (532_000, "0.0005 USD"),
            (99_900_000, "0.0999 USD"),
            (480_000_000, "0.48 USD"),
            (1_234_567_000_000, "1234.57 USD"),
        ];
        for (nanos, expected) in expected {
            assert_eq!(words(nanos), expected);
        }
    }
}
