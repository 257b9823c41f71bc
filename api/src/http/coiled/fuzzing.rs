//! Properties that hold for every form with a performance report.

use std::future::ready;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
};
use futures::stream;

use super::performance_report::{MAX_NAME, PIECE, Received, receive};
use crate::{
    fuzzing::{lines, wait},
    http::extract::problem::Problem,
};

/// Checks one input. Its first line is the media type, the second the number of bytes per chunk, the
/// remainder the body. Without a multipart media type, the whole input is a report, which is wrapped in a
/// form here.
pub(crate) fn performance_report(bytes: &[u8]) {
    let [media_type, chunk_size, body] = lines(bytes);
    let chunk_size =
        str::from_utf8(chunk_size).ok().and_then(|text| text.parse().ok()).unwrap_or(7_usize).max(1);
    if media_type.starts_with(b"multipart/") {
        let Ok(media_type) = HeaderValue::from_bytes(media_type) else { return };
        match receive_form(media_type, body, chunk_size) {
            Ok(received) => check_received(&received),
            Err(problem) => {
                assert!(matches!(problem.status().as_u16(), 400 | 413 | 415), "{problem:?}");
                assert!(problem.message().chars().count() <= 301, "{problem:?}");
            }
        }
    } else if !bytes.windows(BOUNDARY.len()).any(|window| window == BOUNDARY.as_bytes()) {
        let media_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={BOUNDARY}"));
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n");
        let end = format!("\r\n--{BOUNDARY}--\r\n");
        let form = [head.as_bytes(), bytes, end.as_bytes()].concat();
        let received = receive_form(media_type.expect("a header"), &form, chunk_size).expect("a form");
        check_received(&received);
        assert_eq!(received.pieces.concat(), bytes, "what arrives is what was sent");
    }
}

const BOUNDARY: &str = "a-boundary-that-nobody-guesses";

fn receive_form(
    media_type: HeaderValue,
    body: &[u8],
    chunk_size: usize,
) -> Result<Received<Vec<u8>>, Problem> {
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, media_type)]);
    let chunks: Vec<_> =
        body.chunks(chunk_size).map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk))).collect();
    let body = Body::from_stream(stream::iter(chunks));
    wait(receive(&headers, body, |_, piece| ready(piece)))
}

fn check_received(Received { name, size, pieces }: &Received<Vec<u8>>) {
    assert!((1..=MAX_NAME).contains(&name.chars().count()), "{name:?}");
    assert!(
        !name.contains(|character: char| character.is_control() || matches!(character, '/' | '\\')),
        "{name:?}"
    );
    assert_eq!(pieces.iter().map(Vec::len).sum::<usize>() as u64, *size);
    let mut full = pieces.iter().rev().skip(1);
    assert!(full.all(|piece| piece.len() == PIECE) && pieces.iter().all(|piece| !piece.is_empty()));
}
