//! Errors in the input of mutations, returned as data beside the result.

use std::fmt::Display;

use async_graphql::{Enum, SimpleObject};

use crate::domain::{
    alert::AlertError, idle_policy::IdlePolicyError, permission::Denial, saved_view::ViewError,
    stop::ReasonError, tag::TagError,
};

/// An error in the input of a mutation.
#[derive(Clone, Debug, SimpleObject)]
pub(crate) struct UserError {
    /// The input field or the argument with the error.
    field: &'static str,
    /// The error code, for programs.
    code: UserErrorCode,
    /// The error message, for people.
    message: String,
}

/// The codes of errors in the input of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum UserErrorCode {
    /// The value has the wrong format, or the text is too short or too long.
    Invalid,
    /// The value is too small or too large, or the time lies in the past.
    OutOfRange,
    /// The value is missing, but required together with other values of the input.
    Missing,
    /// The limit for the number of items is exceeded.
    TooMany,
    /// The value occurs more than once.
    Duplicate,
    /// The object does not exist.
    NotFound,
    /// The object has ended or closed.
    Ended,
    /// The object belongs to another user, and the role of the viewer allows changes of own objects only.
    Forbidden,
}

/// An error of a domain rule that has a code for clients.
pub(crate) trait InputError: Display {
    fn code(&self) -> UserErrorCode;
}

impl UserError {
    pub(crate) fn new(field: &'static str, code: UserErrorCode, message: impl Into<String>) -> Self {
        Self { field, code, message: message.into() }
    }

    /// Creates the error of an object that belongs to another user.
    pub(crate) fn not_owner(field: &'static str) -> Self {
        Self::new(field, UserErrorCode::Forbidden, Denial::NotOwner.to_string())
    }

    pub(crate) fn from_rule(field: &'static str, error: &impl InputError) -> Self {
        Self::new(field, error.code(), error.to_string())
    }
}

impl InputError for TagError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Key | Self::Value => UserErrorCode::Invalid,
            Self::Twice => UserErrorCode::Duplicate,
            Self::TooMany => UserErrorCode::TooMany,
        }
    }
}

impl InputError for IdlePolicyError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Timeout | Self::Warning => UserErrorCode::OutOfRange,
            Self::TimeoutMissing => UserErrorCode::Missing,
            Self::TooManyTags => UserErrorCode::TooMany,
            Self::Tag(error) => error.code(),
        }
    }
}

impl InputError for ViewError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Name | Self::Page | Self::Parameters => UserErrorCode::Invalid,
        }
    }
}

impl InputError for AlertError {
    fn code(&self) -> UserErrorCode {
        match self {
            Self::Name | Self::Currency | Self::Webhook | Self::Email => UserErrorCode::Invalid,
            Self::NoKinds | Self::NoChannel => UserErrorCode::Missing,
            Self::Count | Self::Time | Self::Amount | Self::Days | Self::Percent | Self::CoolDown => {
                UserErrorCode::OutOfRange
            }
            Self::Users | Self::Tags | Self::TooManyTargets => UserErrorCode::TooMany,
        }
    }
}

impl InputError for ReasonError {
    fn code(&self) -> UserErrorCode {
        UserErrorCode::Invalid
    }
}
