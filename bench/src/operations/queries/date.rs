//! Dates of the API.

/// Converts days since 1970-01-01 to a date in the API's format (civil calendar, after Howard Hinnant).
pub(super) fn date(day: i64) -> String {
    let shifted_day = day + 719_468;
    let (era, day_of_era) = (shifted_day.div_euclid(146_097), shifted_day.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day_of_month:02}", era * 400 + year + i64::from(month <= 2))
}
