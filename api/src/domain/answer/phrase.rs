//! Phrases: a code with arguments, from which the text follows. A text is written only in its template,
//! so it cannot contradict the arguments.
//!
//! In a template, `{name}` is the value of an argument. Several values of one name are a list.
//! `{name:one/many}` is a word for the count. `[a/b]` is the first alternative whose arguments are all
//! given, or nothing. `…` is the text that a qualification qualifies, and `{*}` the qualifications without
//! `…`, with commas between them.

use chrono::{DateTime, Utc};

use super::{AnswerCode, bytes, format_duration, format_time, percent};
use crate::domain::cost::amount_in_words;

/// The place of the qualified text in a template.
pub(super) const QUALIFIED: char = '…';

/// The name of the qualifications that a template lists.
const PARTS: &str = "*";

/// A code with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Phrase {
    /// The code.
    pub code: AnswerCode,
    /// The arguments, in the order in which they were added.
    pub arguments: Vec<Argument>,
}

/// An argument of a phrase.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The name. The values of a list have the same name.
    pub name: &'static str,
    /// The value.
    pub value: Value,
}

/// The value of an argument. Its kind decides on the form in a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number of things, with their name in the plural.
    Count(i64, &'static str),
    /// The number of a cluster.
    Cluster(i64),
    /// A wall-clock time, in seconds.
    Seconds(f64),
    /// A thread time, in thread-seconds.
    ThreadSeconds(f64),
    /// The interval between two ticks of an event loop, in seconds.
    Tick(f64),
    /// A share, from 0 to 1.
    Share(f64),
    /// A number of bytes.
    Bytes(f64),
    /// An amount of money, with its currency.
    Amount(f64, String),
    /// A price, with its currency.
    Price(f64, String),
    /// A time.
    Time(DateTime<Utc>),
    /// A name, or another text.
    Text(String),
    /// A section of reports.
    Section(&'static str),
    /// A number of further items of a section of reports.
    Items(i64, &'static str),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<AnswerCode> for Phrase {
    fn from(code: AnswerCode) -> Self {
        Self { code, arguments: Vec::new() }
    }
}

impl AnswerCode {
    /// Returns the phrase with one argument.
    pub(super) fn with(self, name: &'static str, value: Value) -> Phrase {
        Phrase::from(self).with(name, value)
    }
}

impl Phrase {
    /// Adds an argument.
    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        let template = self.code.template();
        debug_assert!(
            placeholders(template).any(|placeholder| placeholder == name),
            "no {name} in {template:?}"
        );
        self.arguments.push(Argument { name, value });
        self
    }

    /// Adds an argument for each value; none without a value.
    pub(super) fn with_any(self, name: &'static str, values: impl IntoIterator<Item = Value>) -> Self {
        values.into_iter().fold(self, |phrase, value| phrase.with(name, value))
    }

    /// Returns true if the phrase qualifies another one as a whole, and is not a part of it.
    pub(super) fn is_clause(&self) -> bool {
        self.code.template().contains(QUALIFIED)
    }

    /// Returns the text, without a full stop.
    #[must_use]
    pub fn text(&self) -> String {
        render(self.code.template(), &self.arguments)
    }

    /// Returns the text with the parts that it lists.
    pub(super) fn text_with_parts<'a>(&self, parts: impl Iterator<Item = &'a Self>) -> String {
        let parts: Vec<String> = parts.map(Self::text).collect();
        debug_assert!(parts.is_empty() || placeholders(self.code.template()).any(|name| name == PARTS));
        let parts_argument = (!parts.is_empty()).then(|| Value::Text(parts.join(", ")));
        let parts_argument = parts_argument.map(|value| Argument { name: PARTS, value });
        let arguments: Vec<Argument> = self.arguments.iter().cloned().chain(parts_argument).collect();
        render(self.code.template(), &arguments)
    }

    /// Returns a text with this qualification.
    pub(super) fn qualify(&self, text: &str) -> String {
        let (before, after) = self.code.template().split_once(QUALIFIED).unwrap_or_default();
        render(before, &self.arguments) + text + &render(after, &self.arguments)
    }
}

impl Value {
    /// The number of a value that is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count, _) | Self::Cluster(count) | Self::Items(count, _) => {
                Some(super::to_f64(*count))
            }
            Self::Seconds(number)
            | Self::ThreadSeconds(number)
            | Self::Tick(number)
            | Self::Share(number)
            | Self::Bytes(number)
            | Self::Amount(number, _)
            | Self::Price(number, _) => Some(*number),
            Self::Time(_) | Self::Text(_) | Self::Section(_) => None,
        }
    }

    /// The unit of the number. `None` for the number of a cluster.
    #[must_use]
    pub fn unit(&self) -> Option<&str> {
        match self {
            Self::Count(_, unit) | Self::Items(_, unit) => Some(unit),
            Self::Seconds(_) | Self::Tick(_) => Some("seconds"),
            Self::ThreadSeconds(_) => Some("thread-seconds"),
            Self::Share(_) => Some("share"),
            Self::Bytes(_) => Some("bytes"),
            Self::Amount(_, currency) | Self::Price(_, currency) => Some(currency),
            Self::Cluster(_) | Self::Time(_) | Self::Text(_) | Self::Section(_) => None,
        }
    }

    /// The time of a value that is one.
    #[must_use]
    pub fn time(&self) -> Option<DateTime<Utc>> {
        if let Self::Time(at) = self { Some(*at) } else { None }
    }

    /// The text of a value that is neither a number nor a time.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Section(section) => Some(section),
            _ => None,
        }
    }

    /// Returns the value as a text shows it.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Count(number, _) | Self::Cluster(number) => number.to_string(),
            Self::Seconds(seconds) | Self::ThreadSeconds(seconds) => format_duration(*seconds),
            Self::Tick(seconds) => format!("{:.0} ms", seconds * 1_000.0),
            Self::Share(share) => percent(*share),
            Self::Bytes(count) => bytes(*count),
            Self::Amount(amount, currency) => amount_in_words(*amount, currency),
            Self::Price(price, currency) => format!("{price} {currency}"),
            Self::Time(at) => format_time(*at),
            Self::Text(text) => text.clone(),
            Self::Section(section) => section.replace('_', " "),
            Self::Items(count, section) => more_items_text(section, *count),
        }
    }
}

/// Returns the text of a template with these arguments.
pub(super) fn render(template: &str, arguments: &[Argument]) -> String {
    let (mut text, mut remainder) = (String::new(), template);
    while let Some((before, brackets, after)) = split_at_brackets(remainder) {
        text.push_str(before);
        text.push_str(&match brackets {
            Brackets::Place(place) => fill_place(place, arguments),
            Brackets::Choice(choice) => {
                let has_argument = |name: &str| arguments.iter().any(|argument| argument.name == name);
                let alternative =
                    alternatives(choice).into_iter().find(|text| placeholders(text).all(has_argument));
                alternative.map(|alternative| render(alternative, arguments)).unwrap_or_default()
            }
        });
        remainder = after;
    }
    text + remainder
}

/// The first pair of brackets in a template, with its content.
enum Brackets<'a> {
    /// `{…}`, the place of an argument.
    Place(&'a str),
    /// `[…]`, alternatives.
    Choice(&'a str),
}

fn split_at_brackets(template: &str) -> Option<(&str, Brackets<'_>, &str)> {
    let index = template.find(['{', '['])?;
    let (before, remainder) = template.split_at(index);
    if let Some(remainder) = remainder.strip_prefix('{') {
        let (placeholder, after) = remainder.split_once('}')?;
        return Some((before, Brackets::Place(placeholder), after));
    }
    let (choice, after) = remainder[1..].split_once(']')?;
    Some((before, Brackets::Choice(choice), after))
}

/// Returns the alternatives of a choice. Slashes in braces separate words.
fn alternatives(choice: &str) -> Vec<&str> {
    let mut is_inside = false;
    choice
        .split(|letter: char| {
            is_inside = letter == '{' || (is_inside && letter != '}');
            letter == '/' && !is_inside
        })
        .collect()
}

/// Returns the names of the arguments in a template.
fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|remainder| remainder.split(['}', ':']).next())
}

fn fill_place(placeholder: &str, arguments: &[Argument]) -> String {
    let (name, forms) = placeholder.split_once(':').unzip();
    let name = name.unwrap_or(placeholder);
    let values: Vec<&Value> =
        arguments.iter().filter(|argument| argument.name == name).map(|argument| &argument.value).collect();
    debug_assert!(!values.is_empty(), "there is no argument {name}");
    let Some((singular, plural)) = forms.and_then(|forms: &str| forms.split_once('/')) else {
        return list_in_words(&values);
    };
    let is_singular = matches!(values[..], [Value::Count(1, _) | Value::Items(1, _)]);
    if is_singular { singular.to_owned() } else { plural.to_owned() }
}

fn list_in_words(values: &[&Value]) -> String {
    let texts: Vec<String> = values.iter().map(|value| value.in_words()).collect();
    match (&texts[..], values) {
        ([texts @ .., last], [Value::Section(_) | Value::Items(..), _, ..]) => {
            format!("{} and {last}", texts.join(", "))
        }
        _ => texts.join(" and "),
    }
}

/// Formats a count of further items of a section.
fn more_items_text(section: &str, count: i64) -> String {
    let (singular, plural) = match section {
        "computations" => ("more computation", "more computations"),
        "usage" => ("more hour of usage", "more hours of usage"),
        "samples" => ("more sample", "more samples"),
        "fine_metrics" => ("more set of fine metrics", "more sets of fine metrics"),
        "environments" => ("more environment", "more environments"),
        "workers" => ("more worker", "more workers"),
        "spans" => ("more span", "more spans"),
        "thread_history" => ("more change of the threads", "more changes of the threads"),
        _ => ("more item", "more items"),
    };
    super::count_text(count, singular, plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &'static str, value: Value) -> Argument {
        Argument { name, value }
    }

    #[test]
    fn a_template_is_filled_as_its_grammar_says() {
        let text = |name, text: &str| argument(name, Value::Text(text.to_owned()));
        let count = |count| argument("n", Value::Count(count, "tasks"));
        let items = |count| argument("i", Value::Items(count, "spans"));
        for (template, arguments, expected) in [
            ("as it is.", vec![], "as it is."),
            ("{n} {n:task is/tasks are} here", vec![count(1)], "1 task is here"),
            ("{n} {n:task is/tasks are} here", vec![count(0)], "0 tasks are here"),
            ("a[, {b}]!", vec![], "a!"),
            ("a[, {b}]!", vec![text("b", "x")], "a, x!"),
            ("[{a}, {b}/{b}/none]", vec![text("b", "x")], "x"),
            ("[{a}, {b}/{b}/none]", vec![text("b", "x"), text("a", "y")], "y, x"),
            ("[{a}, {b}/{b}/none]", vec![text("a", "y")], "none"),
            ("[{n:one/more} of {n}/none]", vec![count(2)], "more of 2"),
            ("{a}", vec![text("a", "x"), text("a", "y"), text("a", "z")], "x and y and z"),
            ("{i} {i:was/were}", vec![items(1)], "1 more span was"),
            ("{i} {i:was/were}", vec![items(1), items(2)], "1 more span and 2 more spans were"),
            (
                "{i} {i:was/were}",
                vec![items(3), items(1), items(2)],
                "3 more spans, 1 more span and 2 more spans were",
            ),
            // A value is not read as a template.
            ("{a} and {b}", vec![text("a", "{b}[x/"), text("b", "}")], "{b}[x/ and }"),
        ] {
            assert_eq!(render(template, &arguments), expected, "{template}");
        }
    }

    #[test]
    fn values_have_a_number_a_time_or_a_text() {
        let at = DateTime::from_timestamp(1_795_172_400, 0).expect("it is a time");
        let usd = || "USD".to_owned();
        for (value, number, unit, words) in [
            (Value::Count(3, "tasks"), Some(3.0), Some("tasks"), "3"),
            (Value::Cluster(7), Some(7.0), None, "7"),
            (Value::Seconds(90.0), Some(90.0), Some("seconds"), "1.5 min"),
            (Value::ThreadSeconds(0.0), Some(0.0), Some("thread-seconds"), "0 s"),
            (Value::Tick(0.02), Some(0.02), Some("seconds"), "20 ms"),
            (Value::Share(0.5), Some(0.5), Some("share"), "50 %"),
            (Value::Bytes(2048.0), Some(2048.0), Some("bytes"), "2.0 KiB"),
            (Value::Amount(0.2, usd()), Some(0.2), Some("USD"), "0.20 USD"),
            (Value::Price(0.05, usd()), Some(0.05), Some("USD"), "0.05 USD"),
            (Value::Items(2, "usage"), Some(2.0), Some("usage"), "2 more hours of usage"),
            (Value::Time(at), None, None, "2026-11-20 11:00:00 UTC"),
            (Value::Text("load".to_owned()), None, None, "load"),
            (Value::Section("fine_metrics"), None, None, "fine metrics"),
        ] {
            assert_eq!((value.number(), value.unit(), value.in_words().as_str()), (number, unit, words));
            let kinds = [value.number().is_some(), value.time().is_some(), value.text().is_some()];
            assert_eq!(kinds.into_iter().filter(|is_given| *is_given).count(), 1, "{value:?}");
        }
    }
}
