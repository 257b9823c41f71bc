//! Codes with typed arguments, from which a client phrases answers, evidence and reasons in its own
//! language, units and time zone.

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Utc};

use super::{
    json::write_enums_by_name,
    projection::{InlineList, inline_members},
};
use crate::domain::answer::{self, Argument, Phrase, answer_codes};

macro_rules! declare {
    ($([$($question:ident),*] $($(#[doc = $doc:tt])+ $code:ident = $text:literal;)+)+) => {
        /// The codes of answers, of their qualifications and of their evidence. A code keeps its meaning and
        /// its arguments.
        ///
        /// In a text, `{name}` is the value of an argument, or a list of several, and `{name:one/many}` is
        /// a word for the count. `[a/b]` is the first alternative whose arguments are all given, or
        /// nothing. `…` is the text that a qualification qualifies, and `{*}` the qualifications without
        /// `…`, with commas between them. A full stop ends the headline.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
        #[graphql(remote = "answer::AnswerCode")]
        pub(crate) enum AnswerCode {
            $($($(#[doc = $doc])+ #[doc = concat!("\nText: `", $text, "`")] $code,)+)+
        }
    };
}

answer_codes!(declare);

write_enums_by_name!(AnswerCode);

/// An argument of a code: a number, a time or a text.
#[derive(SimpleObject)]
pub(crate) struct AnswerArgument {
    /// The name. Arguments with the same name are a list.
    name: &'static str,
    /// The number, in `unit`. Null for a time or a text.
    number: Option<f64>,
    /// The unit of the number: a unit of answers or evidence, `workers`, `threads`, `clusters`, `hours`, or
    /// a section of reports. Null for the number of a cluster, a time and a text.
    unit: Option<String>,
    /// The time. Null for a number or a text.
    time: Option<DateTime<Utc>>,
    /// The text: a name, or a sentence of a reporter. Null for a number or a time.
    text: Option<String>,
}

inline_members! { AnswerArgument: name, number, unit, time, text }

impl AnswerArgument {
    pub(crate) fn list(arguments: &[Argument]) -> InlineList<Self> {
        InlineList(arguments.iter().map(Self::from).collect())
    }
}

impl From<&Argument> for AnswerArgument {
    fn from(Argument { name, value }: &Argument) -> Self {
        Self {
            name,
            number: value.number(),
            unit: value.unit().map(str::to_owned),
            time: value.time(),
            text: value.text().map(str::to_owned),
        }
    }
}

/// A part that an answer's text lists, or a clause or sentence that qualifies it.
#[derive(SimpleObject)]
pub(crate) struct AnswerQualification {
    /// The code.
    code: AnswerCode,
    /// The arguments of the code: each number, time and name in its text.
    arguments: InlineList<AnswerArgument>,
}

inline_members! { AnswerQualification: code; arguments: InlineList<AnswerArgument> }

impl AnswerQualification {
    pub(crate) fn list(qualifications: &[Phrase]) -> InlineList<Self> {
        let qualification = |phrase: &Phrase| Self {
            code: phrase.code.into(),
            arguments: AnswerArgument::list(&phrase.arguments),
        };
        InlineList(qualifications.iter().map(qualification).collect())
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::resolver_utils::EnumType;

    use super::*;
    use crate::{domain::answer::Question, graphql::analysis::idleness::RunReasonCode};

    const DOCUMENT: &str = include_str!("../../../../docs/answer-codes.md");

    fn table<const COLUMNS: usize>(
        heads: [&str; COLUMNS],
        rows: impl Iterator<Item = [String; COLUMNS]>,
    ) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rows: String = rows.map(|cells| row(&cells)).collect();
        format!("{}|{}\n{rows}", row(&heads.map(str::to_owned)), "---|".repeat(COLUMNS))
    }

    fn codes(is_listed: impl Fn(answer::AnswerCode) -> bool, condition: &str) -> String {
        let codes = AnswerCode::items().iter().map(|item| (item.name, answer::AnswerCode::from(item.value)));
        let rows = codes.filter(|(_, code)| is_listed(*code)).map(|(name, code)| {
            [format!("`{name}`"), code.condition().to_owned(), format!("`{}`", code.template())]
        });
        table(["code", condition, "text"], rows)
    }

    /// The tables of the document, in its order.
    fn tables() -> Vec<String> {
        let question_table =
            |question: Question| codes(|code| code.questions().contains(&question), "condition");
        let other_table = |is_clause: bool, condition| {
            let is_listed = |code: answer::AnswerCode| {
                code.questions().is_empty() && code.template().contains('…') == is_clause
            };
            codes(is_listed, condition)
        };
        let reasons = RunReasonCode::items().iter().map(|item| {
            let text = answer::RunReasonCode::from(item.value).template();
            [format!("`{}`", item.name), format!("`{text}`")]
        });
        let reasons = table(["code", "text"], reasons);
        Question::ALL
            .map(question_table)
            .into_iter()
            .chain([other_table(true, "condition"), other_table(false, "description"), reasons])
            .collect()
    }

    #[test]
    fn the_documentation_has_every_code_with_its_text() {
        let mut unmatched = DOCUMENT;
        for table in tables() {
            let Some((_, after)) = unmatched.split_once(&table) else {
                panic!("docs/answer-codes.md lacks this table, or has an older one:\n{table}");
            };
            unmatched = after;
        }
    }

    #[test]
    fn reasons_have_no_numbers_of_their_own() {
        for item in RunReasonCode::items() {
            let text = answer::RunReasonCode::from(item.value).template();
            assert!(!text.contains(|letter: char| letter.is_ascii_digit()), "{text}");
        }
    }
}
