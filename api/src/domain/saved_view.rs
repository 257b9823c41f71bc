//! Saved views: the bounds of their texts, and their number.

/// The largest number of private views of a member, and of shared views of an account.
pub const MAX_VIEWS: u64 = 100;

/// The largest length of a name, in characters.
const MAX_NAME: usize = 100;

/// The largest length of the name of a page, in characters.
const MAX_PAGE: usize = 50;

/// The largest length of the parameters, in bytes.
const MAX_PARAMETERS: usize = 2_048;

/// All properties of a view that its owner sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewInput {
    /// The name.
    pub name: String,
    /// The page that the view belongs to.
    pub page: String,
    /// The search parameters of the page.
    pub parameters: String,
    /// True for a view that all members see.
    pub is_shared: bool,
}

/// An error in the properties of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The name is too short, too long, or has control characters.
    #[error("the name must have 1 to {MAX_NAME} characters, none of them a control character")]
    Name,
    /// The page has other characters than the names of pages, or is too short or too long.
    #[error("the page must have 1 to {MAX_PAGE} characters: a to z, 0 to 9, '-' and '/'")]
    Page,
    /// The parameters are too long, or have control characters.
    #[error("the parameters must have at most {MAX_PARAMETERS} bytes, and no control characters")]
    Parameters,
}

impl ViewInput {
    /// Returns the errors, each with the field that has it.
    #[must_use]
    pub fn check(&self) -> Vec<(&'static str, ViewError)> {
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        let is_page_letter = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '/');
        let name = (1..=MAX_NAME).contains(&self.name.chars().count()) && is_plain(&self.name);
        let page = (1..=MAX_PAGE).contains(&self.page.len()) && self.page.chars().all(is_page_letter);
        let parameters = self.parameters.len() <= MAX_PARAMETERS && is_plain(&self.parameters);
        [
            (name, "name", ViewError::Name),
            (page, "page", ViewError::Page),
            (parameters, "parameters", ViewError::Parameters),
        ]
        .into_iter()
        .filter_map(|(is_valid, field, error)| (!is_valid).then_some((field, error)))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_bounds() {
        let view = |name: &str, page: &str, parameters: &str| ViewInput {
            name: name.to_owned(),
            page: page.to_owned(),
            parameters: parameters.to_owned(),
            is_shared: false,
        };
        for (input, expected) in [
            (view("n", "clusters", ""), vec![]),
            (view(&"ü".repeat(100), &"a".repeat(50), &"x".repeat(2_048)), vec![]),
            (view("", "", "\n"), vec![ViewError::Name, ViewError::Page, ViewError::Parameters]),
            (
                view(&"n".repeat(101), &"a".repeat(51), &"ü".repeat(1_025)),
                vec![ViewError::Name, ViewError::Page, ViewError::Parameters],
            ),
            (view("a\u{7}", "Clusters", ""), vec![ViewError::Name, ViewError::Page]),
        ] {
            let errors: Vec<_> = input.check().into_iter().map(|(_, error)| error).collect();
            assert_eq!(errors, expected, "{input:?}");
        }
    }
}
