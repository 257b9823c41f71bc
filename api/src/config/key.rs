//! The subcommands of `galvo key`.

use clap::Subcommand;

use crate::encryption::PLAIN;

/// Manage encryption keys. A key's identifier has 12 hexadecimal digits and does not reveal the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Generate a key and print it as a key file, for a database that has none yet.
    Generate,
    /// List the keys, their state, and the number of rows encrypted with each, by table.
    List,
    /// Add a new key as the encrypting key. The server re-encrypts rows of the older keys in the
    /// background.
    Rotate,
    /// Remove a key that encrypts no row any more. Fails until all servers have had time to read the
    /// newest key.
    Retire {
        /// Identifier of the key, as `galvo key list` prints it.
        #[arg(value_parser = parse_key_id)]
        id: i64,
    },
}

fn parse_key_id(text: &str) -> Result<i64, &'static str> {
    let is_hexadecimal = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = is_hexadecimal.then(|| i64::from_str_radix(text, 16).ok()).flatten();
    id.filter(|id| *id != PLAIN).ok_or("must be the 12 hexadecimal digits that `galvo key list` shows")
}
