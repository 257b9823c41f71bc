//! Lists as files, for notebooks and spreadsheets: all pages of a list, one after the other, as Arrow or CSV.
//!
//! An export is a field of the schema. Its parameters are the field's arguments, its columns fields of the items, and what
//! it reads are the pages that a client could ask for, by the same guard, resolvers and statements: what an export tells
//! and to whom cannot differ from what the API does. It knows neither addresses nor connections, which are for `http`.

mod arrow;
mod catalog;
mod column;
mod csv;
mod encode;
mod list;
mod read;

pub(crate) use catalog::{Export, Parameter, exports};
pub(crate) use encode::{EncodeError, File, Format};
pub(crate) use list::Of;
pub(crate) use read::{Page, ReadError, Reading, Source};
