//! Cut, slow and changing downloads: what is gone on with, and what is not.

use crate::server::{Answer, Server, answer, written};
use crate::{Cache, TEN, fails, ten};
use ipse_geodata::{Downloader, Outcome, Progress};
use std::time::Duration;
use tokio::sync::mpsc;

/// Half of the ten bytes, then the end.
fn half(validator: &str) -> Answer {
    answer("200 OK", &["Content-Length: 10", validator], "01234")
}

fn rest(headers: &[&str], body: &str) -> Answer {
    answer("206 Partial Content", headers, body)
}

const ASKED_FOR_REST: &str = "GET /city | range: bytes=5- | if-range: \"v1\"";
const HALF_THERE: [(&str, &str); 3] = [("city", "old"), ("city.part", "01234"), ("city.part.meta", "…")];

#[tokio::test]
async fn a_cut_download_goes_on_at_once() {
    let cache = Cache::new();
    let second = rest(&["Content-Range: bytes 5-9/10", "Content-Length: 5", "ETag: \"v1\""], "567");
    let third = rest(&["Content-Range: bytes 8-9/10", "Content-Length: 2", "ETag: \"v1\""], "89");
    let server = Server::start(vec![half("ETag: \"v1\""), second, third]).await;
    let (result, delays) = cache.fetch_and_watch(&cache.download(&server.url("/city"))).await;
    assert_eq!(result, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(delays.len(), 2);
    cache.holds_the_new(TEN);
    let third_asked = ASKED_FOR_REST.replace("=5-", "=8-");
    assert_eq!(server.requests(), ["GET /city", ASKED_FOR_REST, &third_asked]);
}

#[tokio::test]
async fn a_cut_download_goes_on_in_a_later_run() {
    let mut cache = Cache::new();
    cache.patience.attempts = 1;
    let second = rest(&["Content-Range: bytes 5-9/10", "Content-Length: 5"], "56789");
    let server = Server::start(vec![half("ETag: \"v1\""), second]).await;
    let download = cache.download(&server.url("/city"));
    let said = cache.fetch(&download).await.unwrap_err();
    assert!(said.starts_with("http://HOST/city: the transfer broke after 5 bytes: "), "{said}");
    cache.holds(&HALF_THERE);
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
    assert_eq!(server.requests(), ["GET /city", ASKED_FOR_REST]);
}

#[tokio::test]
async fn a_settled_date_joins_parts_as_well() {
    let cache = Cache::new();
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    let first = answer(
        "200 OK",
        &["Content-Length: 10", &format!("Last-Modified: {modified}"), "Date: Sun, 06 Nov 1994 09:49:37 GMT"],
        "01234",
    );
    let second = rest(&["Content-Range: bytes 5-9/10", "Content-Length: 5"], "56789");
    let server = Server::start(vec![first, second]).await;
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(server.requests()[1], format!("GET /city | range: bytes=5- | if-range: {modified}"));
}

#[tokio::test]
async fn without_a_strong_validator_a_cut_download_starts_over() {
    let cut = |validator| vec![half(validator), half(validator), half(validator)];
    for validator in ["ETag: W/\"v1\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "X-Nothing: 1"] {
        let said =
            "http://HOST/city: the transfer broke after 5 bytes: end of file before message length reached";
        fails(cut(validator), 3, said).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_ranges_or_has_a_new_file_starts_over() {
    for (etag, body) in [("ETag: \"v1\"", TEN), ("ETag: \"v2\"", "abcdefgh")] {
        let cache = Cache::new();
        let whole = answer("200 OK", &[&format!("Content-Length: {}", body.len()), etag], body);
        let server = Server::start(vec![half("ETag: \"v1\""), whole]).await;
        let result = cache.fetch(&cache.download(&server.url("/city"))).await;
        assert_eq!(result, Ok(Outcome::Fetched { bytes: body.len() as u64 }));
        cache.holds_the_new(body);
        assert_eq!(server.requests(), ["GET /city", ASKED_FOR_REST]);
    }
}

#[tokio::test]
async fn a_part_that_was_not_asked_for_is_refused() {
    let wrong: [(&[&str], &str); 6] = [
        (&["Content-Range: bytes 4-9/10", "Content-Length: 6"], "asked for bytes 5-, got bytes 4-9/10"),
        (&["Content-Range: bytes 5-10/11", "Content-Length: 6"], "asked for bytes 5-, got bytes 5-10/11"),
        (&["Content-Range: bytes 5-9/*", "Content-Length: 5"], "asked for bytes 5-, got bytes 5-9/*"),
        (&["Content-Range: bytes 5-9/10", "Content-Length: 6"], "asked for bytes 5-, got bytes 5-9/10"),
        (&["Content-Length: 5"], "asked for bytes 5-, got no range"),
        (&["Content-Range: bytes 5-9/10", "Content-Length: 5", "ETag: \"v2\""], "of another version"),
    ];
    for (headers, what) in wrong {
        let cache = Cache::new();
        let server = Server::start(vec![half("ETag: \"v1\""), rest(headers, "567890"), ten()]).await;
        let download = cache.download(&server.url("/city"));
        let said = format!(
            "http://HOST/city: the server sent another part of the file than the one asked for ({what}); the next \
             download starts over"
        );
        assert_eq!(cache.fetch(&download).await, Err(said));
        cache.holds_only_the_old();
        assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
        assert_eq!(server.requests(), ["GET /city", ASKED_FOR_REST, "GET /city"]);
    }
}

#[tokio::test]
async fn a_rest_that_is_longer_than_promised_is_refused() {
    let cache = Cache::new();
    let headers = ["Content-Range: bytes 5-9/10", "Transfer-Encoding: chunked"];
    let server = Server::start(vec![half("ETag: \"v1\""), rest(&headers, "6\r\n567890\r\n0\r\n\r\n")]).await;
    let said = "http://HOST/city: the server sent more than the 10 bytes that it promised";
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Err(said.to_owned()));
    cache.holds_only_the_old();
}

#[tokio::test]
async fn a_rest_that_ends_early_is_gone_on_with() {
    let cache = Cache::new();
    let server = Server::start(vec![
        half("ETag: \"v1\""),
        rest(&["Content-Range: bytes 5-6/10", "Content-Length: 2"], "56"),
        rest(&["Content-Range: bytes 7-9/10", "Content-Length: 3"], "789"),
    ])
    .await;
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
}

#[tokio::test]
async fn a_part_that_the_server_does_not_know_starts_over_once() {
    let cache = Cache::new();
    let unknown =
        || answer("416 Range Not Satisfiable", &["Content-Range: bytes */3", "Content-Length: 0"], "");
    let server =
        Server::start(vec![half("ETag: \"v1\""), unknown(), half("ETag: \"v1\""), unknown(), ten()]).await;
    let download = cache.download(&server.url("/city"));
    let said = "http://HOST/city: the server answered 416 Range Not Satisfiable, which is no file";
    assert_eq!(cache.fetch(&download).await, Err(said.to_owned()));
    cache.holds_only_the_old();
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    let asked = ["GET /city", ASKED_FOR_REST, "GET /city", ASKED_FOR_REST, "GET /city"];
    assert_eq!(server.requests(), asked);
}

#[tokio::test]
async fn a_part_of_another_url_is_not_joined() {
    let mut cache = Cache::new();
    cache.patience.attempts = 1;
    let none = answer("404 Not Found", &["Content-Length: 0"], "");
    let server = Server::start(vec![half("ETag: \"v1\""), none, ten()]).await;
    cache.fetch(&cache.download(&server.url("/city"))).await.unwrap_err();
    // A file that is not there costs nothing of what is.
    cache.fetch(&cache.download(&server.url("/other"))).await.unwrap_err();
    cache.holds(&HALF_THERE);
    cache.fetch(&cache.download(&server.url("/other"))).await.unwrap();
    cache.holds_the_new(TEN);
    assert_eq!(server.requests(), ["GET /city", "GET /other", "GET /other"]);
}

#[tokio::test]
async fn a_damaged_part_is_not_gone_on_with() {
    for (file, content) in [("city.part", "012"), ("city.part.meta", "nonsense"), ("city.part.meta", "")] {
        let mut cache = Cache::new();
        cache.patience.attempts = 1;
        let server = Server::start(vec![half("ETag: \"v1\""), ten()]).await;
        let download = cache.download(&server.url("/city"));
        cache.fetch(&download).await.unwrap_err();
        std::fs::write(cache.folder.path().join(file), content).unwrap();
        cache.fetch(&download).await.unwrap();
        cache.holds_the_new(TEN);
        assert_eq!(server.requests(), ["GET /city", "GET /city"]);
    }
}

#[tokio::test]
async fn what_was_not_made_durable_is_asked_for_again() {
    let mut cache = Cache::new();
    cache.patience.attempts = 1;
    let second = rest(&["Content-Range: bytes 5-9/10", "Content-Length: 5"], "56789");
    let server = Server::start(vec![half("ETag: \"v1\""), second]).await;
    let download = cache.download(&server.url("/city"));
    cache.fetch(&download).await.unwrap_err();
    std::fs::write(cache.folder.path().join("city.part"), "01234\0\0\0\0\0\0\0").unwrap();
    cache.fetch(&download).await.unwrap();
    cache.holds_the_new(TEN);
    assert_eq!(server.requests(), ["GET /city", ASKED_FOR_REST]);
}

#[tokio::test]
async fn a_download_keeps_others_out_until_it_is_dropped() {
    let cache = Cache::new();
    let silent = written("200 OK", &["Content-Length: 10", "ETag: \"v1\""], "01234");
    let server = Server::start(vec![Answer::ThenSilence(silent), ten()]).await;
    let download = cache.download(&server.url("/city"));
    let client = Downloader::new(cache.patience.clone()).unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let first = download.clone();
    let running = tokio::spawn(async move {
        let mut tell = |progress| tell.send(progress).unwrap();
        client.fetch(&first, &mut tell).await
    });
    while told.recv().await != Some(Progress::Bytes { done: 5, total: Some(10) }) {}
    let said = format!("{} is being downloaded already", cache.file().display());
    assert_eq!(cache.fetch(&download).await, Err(said));
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_left_and_its_part_kept() {
    let mut cache = Cache::new();
    let silent = written("200 OK", &["Content-Length: 10", "ETag: \"v1\""], "01234");
    let second = rest(&["Content-Range: bytes 5-9/10", "Content-Length: 5"], "56789");
    let server = Server::start(vec![Answer::ThenSilence(silent), second]).await;
    let download = cache.download(&server.url("/city"));
    let patient = cache.patience.clone();
    cache.patience.attempts = 1;
    cache.patience.stall = Duration::from_millis(500);
    let said = "http://HOST/city: nothing came for 0.5 seconds, after 5 bytes";
    assert_eq!(cache.fetch(&download).await, Err(said.to_owned()));
    cache.holds(&HALF_THERE);
    cache.patience = patient;
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(server.requests(), ["GET /city", ASKED_FOR_REST]);
}

#[tokio::test]
async fn a_server_that_never_answers_is_left() {
    let mut cache = Cache::new();
    cache.patience.attempts = 2;
    cache.patience.connect = Duration::from_millis(200);
    cache.patience.stall = Duration::from_millis(50);
    let silence = Answer::ThenSilence(Vec::new());
    let server = Server::start(vec![silence.clone(), silence]).await;
    let said = "http://HOST/city: nothing came for 0.25 seconds, after 0 bytes";
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Err(said.to_owned()));
    cache.holds_only_the_old();
    assert_eq!(server.requests(), ["GET /city", "GET /city"]);
}

#[tokio::test]
async fn a_download_that_takes_too_long_in_all_is_given_up() {
    let mut cache = Cache::new();
    cache.patience.whole = Duration::from_millis(300);
    let server = Server::start(vec![Answer::ThenSilence(Vec::new())]).await;
    let said =
        "http://HOST/city: the download was given up after 0.3 seconds; the next one goes on from there";
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Err(said.to_owned()));
    cache.holds_only_the_old();
}

#[tokio::test]
async fn large_steps_do_not_use_up_the_attempts() {
    const STEP: usize = 1024 * 1024;
    let mut cache = Cache::new();
    cache.patience.attempts = 2;
    cache.patience.largest_bytes = 1 << 30;
    let whole = "x".repeat(4 * STEP);
    let total = whole.len();
    let mut answers =
        vec![answer("200 OK", &[&format!("Content-Length: {total}"), "ETag: \"v1\""], &whole[..STEP])];
    for done in [STEP, 2 * STEP, 3 * STEP] {
        let range = format!("Content-Range: bytes {done}-{}/{total}", total - 1);
        answers.push(rest(&[&range, &format!("Content-Length: {}", total - done)], &whole[..STEP]));
    }
    let server = Server::start(answers).await;
    let result = cache.fetch(&cache.download(&server.url("/city"))).await;
    assert_eq!(result, Ok(Outcome::Fetched { bytes: total as u64 }));
    assert_eq!(server.requests().len(), 4);
}
