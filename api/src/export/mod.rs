//! Exports: all pages of a list as one Arrow or CSV file, for notebooks and spreadsheets, and profiles as
//! files of profile viewers.
//!
//! An export is a field of the schema. Its parameters are the field's arguments, and its columns are
//! fields of the items. It reads the same pages as a GraphQL client, through the same guard, resolvers
//! and statements, so that an export cannot reveal more than the API. URLs and connections belong to
//! `http`.

mod arrow;
mod column;
mod csv;
mod export_registry;
mod file_format;
mod list;
mod page_reader;
mod profile;

pub(crate) use export_registry::{Export, Parameter, exports};
pub(crate) use file_format::{EncodeError, File, Format};
pub(crate) use list::ListParent;
pub(crate) use page_reader::{ExportReader, Page, ReadError, Source};
pub(crate) use profile::{ProfileFormat, ProfileRequest};
