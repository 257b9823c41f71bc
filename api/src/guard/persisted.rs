//! Documents that the operator stores beside the server, and those of the dashboard. A request selects one
//! by its hash instead of sending it. Documents from clients are never stored here.

use std::{collections::HashMap, io, path::Path};

use async_graphql::ServerError;
use sha2::{Digest, Sha256};

use super::refusal::{self, Code};

/// The start of an identifier, before the digits of the hash.
const PREFIX: &str = "sha256:";

/// The documents that requests can select.
#[derive(Default)]
pub struct PersistedDocuments {
    /// The operator's documents. None without a directory.
    documents: Option<KnownDocuments>,
    /// The documents of the dashboard.
    dashboard_documents: KnownDocuments,
    only: bool,
}

/// Documents by the SHA-256 of their bytes.
#[derive(Clone, Default)]
pub(crate) struct KnownDocuments(HashMap<[u8; 32], String>);

/// The part of a request that selects its document.
#[derive(Default)]
pub(crate) struct DocumentSelector {
    /// The document itself.
    pub(crate) document: Option<String>,
    /// The document's identifier: `sha256:` and 64 hexadecimal digits.
    pub(crate) id: Option<String>,
    /// The 64 digits alone, as some clients send them.
    pub(crate) hash: Option<String>,
}

impl PersistedDocuments {
    /// Reads all files in a directory with the extension `.graphql`. With `only`, no other document is
    /// executed.
    ///
    /// # Errors
    /// Returns an error if the directory or a file cannot be read.
    pub fn read(directory: &Path, only: bool) -> io::Result<Self> {
        let mut documents = KnownDocuments::default();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "graphql") {
                let document = std::fs::read_to_string(&path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
                documents.0.insert(hash(&document), document);
            }
        }
        Ok(Self { documents: Some(documents), dashboard_documents: KnownDocuments::default(), only })
    }

    /// Adds the documents of the dashboard. They count as the operator's own.
    pub(crate) fn with_dashboard(self, documents: &KnownDocuments) -> Self {
        Self { dashboard_documents: documents.clone(), ..self }
    }

    /// Returns the number of documents.
    #[must_use]
    pub fn count(&self) -> usize {
        self.documents.as_ref().map_or(0, |documents| documents.0.len())
    }

    fn get(&self, hash: &[u8; 32]) -> Option<&String> {
        let operator_document = self.documents.as_ref().and_then(|documents| documents.0.get(hash));
        operator_document.or_else(|| self.dashboard_documents.0.get(hash))
    }

    /// Returns the document that a request selects. Returns None if the request selects none.
    pub(super) fn find(&self, selector: DocumentSelector) -> Result<Option<String>, ServerError> {
        let DocumentSelector { document, id, hash: digits } = selector;
        let id = match (id, digits) {
            (Some(id), _) => Some(id.strip_prefix(PREFIX).and_then(parse_hash).ok_or_else(not_found)),
            (None, Some(digits)) => Some(parse_hash(&digits).ok_or_else(not_found)),
            (None, None) => None,
        };
        if let Some(document) = document {
            if let Some(Ok(claimed_hash)) = id
                && claimed_hash != hash(&document)
            {
                let message = "the document does not match the hash that was sent with it";
                return Err(refusal::new(Code::Input, message));
            }
            if self.only && self.get(&hash(&document)).is_none() {
                let message = "this server executes only registered documents";
                return Err(refusal::new(Code::NotPersisted, message));
            }
            return Ok(Some(document));
        }
        let Some(id) = id else { return Ok(None) };
        if let Ok(id) = &id
            && let Some(document) = self.get(id)
        {
            return Ok(Some(document.clone()));
        }
        if self.documents.is_none() {
            let message = "this server does not store documents: send the document itself";
            return Err(refusal::new(Code::PersistedUnsupported, message));
        }
        Err(not_found())
    }
}

impl KnownDocuments {
    /// Parses an object of documents by their identifiers, or by the digits of these alone. Returns None for
    /// anything else, and if a hash is not that of its document: a client would ask for it in vain.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        let texts: HashMap<String, String> = serde_json::from_slice(json).ok()?;
        let document = |(digits, text): (String, String)| {
            let hash = hash(&text);
            let digits = digits.strip_prefix(PREFIX).unwrap_or(&digits);
            (parse_hash(digits) == Some(hash)).then_some((hash, text))
        };
        texts.into_iter().map(document).collect::<Option<_>>().map(Self)
    }
}

fn not_found() -> ServerError {
    refusal::new(Code::PersistedNotFound, "the document is not registered: send the document itself")
}

fn hash(document: &str) -> [u8; 32] {
    Sha256::digest(document).into()
}

fn parse_hash(digits: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let digits: &[u8; 64] = digits.as_bytes().try_into().ok()?;
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(hash)
}
