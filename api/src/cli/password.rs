//! Reading a password that nobody else is to see: not as an argument, which all processes of a machine can read.

use std::io::{self, BufRead, IsTerminal, Read};

/// Bytes that are read of standard input: more than a password may have.
const MAX_BYTES: u64 = 4_096;

/// A password: typed twice where somebody types it, or otherwise the first line of standard input.
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
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the two are not the same"))
    }
}
