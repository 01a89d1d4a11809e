//! Where a vendor sends us, and what we do not take along.

use crate::server::{Answer, Server, answer};
use crate::{Cache, TEN, fails, ten};
use ipse_geodata::{Credentials, Download, Outcome};

fn to(location: &str) -> Answer {
    answer("302 Found", &[&format!("Location: {location}"), "Content-Length: 0"], "")
}

const BASIC: &str = "authorization: Basic NDI6c2VjcmV0";

#[tokio::test]
async fn a_password_stays_with_its_host() {
    let cache = Cache::new();
    // The second redirect stays on the foreign host, the third leads back.
    let home_again = Server::start(vec![ten()]).await;
    let storage = Server::start(vec![to("/there"), to(&home_again.url("/end"))]).await;
    let by_name = format!("http://localhost:{}/presigned?signature=secret", storage.address.port());
    let vendor = Server::start(vec![to("/city/latest"), to(&by_name)]).await;
    let credentials = Some(Credentials::new("42", "secret"));
    let download = Download { credentials, ..cache.download(&vendor.url("/city")) };
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    cache.holds_the_new(TEN);
    assert_eq!(vendor.requests(), [format!("GET /city | {BASIC}"), format!("GET /city/latest | {BASIC}")]);
    assert_eq!(storage.requests(), ["GET /presigned?signature=secret", "GET /there"]);
    assert_eq!(home_again.requests(), ["GET /end"]);
}

#[tokio::test]
async fn another_port_is_another_host() {
    let cache = Cache::new();
    let other = Server::start(vec![ten()]).await;
    let vendor = Server::start(vec![to(&other.url("/city").replace("http://", "http://7:8@"))]).await;
    let url = vendor.url("/city").replace("http://", "http://42:secret@");
    assert_eq!(cache.fetch(&cache.download(&url)).await, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(vendor.requests(), [format!("GET /city | {BASIC}")]);
    assert_eq!(other.requests(), ["GET /city"]);
}

#[tokio::test]
async fn a_host_that_led_away_gets_no_password_when_it_is_led_back_to() {
    let cache = Cache::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = format!("http://{}/again", listener.local_addr().unwrap());
    let other = Server::start(vec![to(&home)]).await;
    let vendor = Server::on(listener, vec![to(&other.url("/")), ten()]);
    let credentials = Some(Credentials::new("42", "secret"));
    let download = Download { credentials, ..cache.download(&vendor.url("/city")) };
    assert_eq!(cache.fetch(&download).await, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(vendor.requests(), [&format!("GET /city | {BASIC}"), "GET /again"]);
}

#[tokio::test]
async fn a_cut_after_a_redirect_goes_on_from_the_first_url() {
    let cache = Cache::new();
    let half = answer("200 OK", &["Content-Length: 10", "ETag: \"v1\""], "01234");
    let rest = answer("206 Partial Content", &["Content-Range: bytes 5-9/10", "Content-Length: 5"], "56789");
    let storage = Server::start(vec![half, rest]).await;
    let vendor = Server::start(vec![to(&storage.url("/one")), to(&storage.url("/two"))]).await;
    let result = cache.fetch(&cache.download(&vendor.url("/city"))).await;
    assert_eq!(result, Ok(Outcome::Fetched { bytes: 10 }));
    assert_eq!(storage.requests(), ["GET /one", "GET /two | range: bytes=5- | if-range: \"v1\""]);
    cache.holds_the_new(TEN);
}

#[tokio::test]
async fn a_circle_is_left_after_ten_redirects() {
    let said = "http://HOST/city redirects more than 10 times, perhaps in a circle";
    fails(vec![to("/city"); 20], 11, said).await;
}

#[tokio::test]
async fn ten_redirects_are_followed() {
    let cache = Cache::new();
    let mut answers = vec![to("/city"); 10];
    answers.push(ten());
    let server = Server::start(answers).await;
    assert_eq!(cache.fetch(&cache.download(&server.url("/city"))).await, Ok(Outcome::Fetched { bytes: 10 }));
}

#[tokio::test]
async fn a_redirect_to_nowhere_is_an_error() {
    let lost = answer("302 Found", &["Content-Length: 0"], "");
    fails(vec![lost], 1, "http://HOST/city redirects without saying where to").await;
    let said = "http://HOST/city redirects to file:///etc/passwd, which is not HTTPS; it was not followed";
    fails(vec![to("file:///etc/passwd")], 1, said).await;
}
