//! Documents the operator keeps beside the server, which a request names by their hash instead of sending them.
//! Nothing a client sends is ever kept here.

use std::{collections::HashMap, io, path::Path};

use async_graphql::ServerError;
use sha2::{Digest, Sha256};

use super::refusal::{self, Code};

/// The documents, by the SHA-256 of their bytes.
#[derive(Default)]
pub struct PersistedDocuments {
    documents: Option<HashMap<[u8; 32], String>>,
    only: bool,
}

/// What a request says of the document it means.
#[derive(Default)]
pub(crate) struct Asked {
    /// The document itself.
    pub(crate) document: Option<String>,
    /// Its identifier: `sha256:` and 64 hexadecimal digits.
    pub(crate) id: Option<String>,
    /// The 64 digits alone, as some clients send them.
    pub(crate) hash: Option<String>,
}

impl PersistedDocuments {
    /// Reads all files of a directory whose names end in `.graphql`; with `only`, no other document is executed.
    ///
    /// # Errors
    /// When the directory or a file cannot be read.
    pub fn read(directory: &Path, only: bool) -> io::Result<Self> {
        let mut documents = HashMap::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "graphql") {
                let document = std::fs::read_to_string(&path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
                documents.insert(hash(&document), document);
            }
        }
        Ok(Self { documents: Some(documents), only })
    }

    /// How many documents there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.documents.as_ref().map_or(0, HashMap::len)
    }

    /// The document a request means, or none if it says nothing of one.
    pub(super) fn find(&self, asked: Asked) -> Result<Option<String>, ServerError> {
        let Asked { document, id, hash: digits } = asked;
        let id = match (id, digits) {
            (Some(id), _) => Some(id.strip_prefix("sha256:").and_then(parse).ok_or_else(not_found)),
            (None, Some(digits)) => Some(parse(&digits).ok_or_else(not_found)),
            (None, None) => None,
        };
        if let Some(document) = document {
            if let Some(Ok(claimed)) = id
                && claimed != hash(&document)
            {
                let message = "the document is not the one of the hash that was sent with it";
                return Err(refusal::new(Code::Input, message));
            }
            let known = || self.documents.as_ref().is_some_and(|kept| kept.contains_key(&hash(&document)));
            if self.only && !known() {
                let message = "this server executes only documents that its operator knows";
                return Err(refusal::new(Code::NotPersisted, message));
            }
            return Ok(Some(document));
        }
        let Some(id) = id else { return Ok(None) };
        let Some(documents) = &self.documents else {
            let message = "this server keeps no documents: send the document itself";
            return Err(refusal::new(Code::PersistedUnsupported, message));
        };
        documents.get(&id?).cloned().map(Some).ok_or_else(not_found)
    }
}

fn not_found() -> ServerError {
    refusal::new(Code::PersistedNotFound, "the server does not know this document: send the document itself")
}

fn hash(document: &str) -> [u8; 32] {
    Sha256::digest(document).into()
}

fn parse(digits: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let digits: &[u8; 64] = digits.as_bytes().try_into().ok()?;
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(hash)
}
