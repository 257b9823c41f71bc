//! What is wrong with what a user entered, told as data beside what a mutation changes.

use std::fmt::Display;

use async_graphql::{Enum, SimpleObject};

use crate::domain::{alert::AlertError, idle_policy::IdlePolicyError, stop::ReasonError, tag::TagError};

/// Something wrong with what a user entered.
#[derive(Clone, Debug, SimpleObject)]
pub(super) struct UserError {
    /// The field of the input, or the argument, it is about.
    field: &'static str,
    /// What is wrong with it, for programs.
    code: UserErrorCode,
    /// What is wrong with it, for people.
    message: String,
}

/// What can be wrong with what a user entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum UserErrorCode {
    /// It has not the form that it needs, or is too short or too long a text.
    Invalid,
    /// It is too small or too large, or a time that has passed.
    OutOfRange,
    /// It is needed, with what else was entered.
    Missing,
    /// There are more than there can be.
    TooMany,
    /// It was given more than once.
    Duplicate,
    /// There is nothing like it.
    NotFound,
    /// What it is about has ended.
    Ended,
}

/// A rule that what was entered has to keep, where it does not.
pub(super) trait BrokenRule: Display {
    fn code(&self) -> UserErrorCode;
}

impl UserError {
    pub(super) fn new(field: &'static str, code: UserErrorCode, message: impl Into<String>) -> Self {
        Self { field, code, message: message.into() }
    }

    pub(super) fn of(field: &'static str, broken: &impl BrokenRule) -> Self {
        Self::new(field, broken.code(), broken.to_string())
    }
}

impl BrokenRule for TagError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Key | Self::Value => UserErrorCode::Invalid,
            Self::Twice => UserErrorCode::Duplicate,
            Self::TooMany => UserErrorCode::TooMany,
        }
    }
}

impl BrokenRule for IdlePolicyError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Timeout | Self::Warning => UserErrorCode::OutOfRange,
            Self::TimeoutMissing => UserErrorCode::Missing,
            Self::TooManyTags => UserErrorCode::TooMany,
            Self::Tag(error) => error.code(),
        }
    }
}

impl BrokenRule for AlertError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Name | Self::Currency | Self::Webhook | Self::Email => UserErrorCode::Invalid,
            Self::NoKinds | Self::NoChannel => UserErrorCode::Missing,
            Self::Count | Self::Time | Self::Amount | Self::Days | Self::CoolDown => {
                UserErrorCode::OutOfRange
            }
            Self::Users | Self::Tags | Self::TooManyTargets => UserErrorCode::TooMany,
        }
    }
}

impl BrokenRule for ReasonError {
    fn code(&self) -> UserErrorCode {
        UserErrorCode::Invalid
    }
}
