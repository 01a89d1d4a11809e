//! When storage cannot be asked.

use crate::{House, check_error};

#[test]
fn a_pause_that_cannot_be_written_is_a_500_and_never_a_429() {
    let (house, key) = House::with_key();
    let mut connection = house.connect();
    for _ in 0..300 {
        assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 200);
    }
    house.runtime.block_on(house.records.close());
    for _ in 0..3 {
        let response = connection.get("/api/v1/ip", Some(&key.text)).unwrap();
        check_error(&response, 500, "internal_error");
        assert_eq!(response.header("retry-after"), None);
        assert_eq!(response.header("x-ratelimit-limit"), None);
    }
    // A minute later the key is served again: it was never paused. Of the connection, which rested so long, leave may be taken.
    house.hand.advance_ms(60_000);
    assert_eq!(house.connect().get("/api/v1/ip", Some(&key.text)).unwrap().status, 200);
}
