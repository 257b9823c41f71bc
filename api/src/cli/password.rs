//! Reading a password. It is not a command-line argument, because every process of a machine can read
//! those.

use std::io::{self, BufRead, IsTerminal, Read};

/// The maximum number of bytes read from standard input. It exceeds the maximum length of a password.
const MAX_BYTES: u64 = 4_096;

/// Reads a password. Prompts for it twice on a terminal; otherwise reads the first line of standard
/// input.
pub(super) fn read() -> io::Result<String> {
    let input = io::stdin();
    if !input.is_terminal() {
        let mut line = String::new();
        input.lock().take(MAX_BYTES).read_line(&mut line)?;
        let without_end = line.trim_end_matches(['\r', '\n']).len();
        line.truncate(without_end);
        return Ok(line);
    }
    let password = rpassword::prompt_password("Password: ")?;
    if rpassword::prompt_password("Again: ")? == password {
        Ok(password)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the passwords do not match"))
    }
}
