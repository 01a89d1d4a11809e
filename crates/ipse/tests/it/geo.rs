//! Answers of an installation that has data.

use crate::{House, Plan, json};
use ipse_geo::{About, Atlas, Draft, Origin};
use ipse_model::{Degrees, Network, Now, Place, Scope, Zone};

/// What is known of a few addresses, with a city whose name is hostile.
pub(crate) fn atlas() -> Atlas {
    let mut draft = Draft::new(About::default());
    let place = Place {
        city: Some("<script>alert(1)</script> \"London\"".into()),
        region: Some("England".into()),
        region_code: Some("GB-ENG".into()),
        country: Some("GB".into()),
        country_name: Some("United Kingdom".into()),
        continent: Some("EU".into()),
        position: Degrees::latitude(51.5142).zip(Degrees::longitude(-0.0931)),
        zone: Some(Zone::named("Europe/London").unwrap()),
        postal_code: Some("EC2V".into()),
        is_eu: Some(false),
        currency: Some("GBP".into()),
    };
    let network = Network {
        asn: Some(20_712),
        org: Some("Andrews & Arnold Ltd".into()),
        proxy: Some(false),
        hosting: Some(true),
    };
    let (place, network) = (draft.place(&place, Origin::new()), draft.network(network, Origin::new()));
    for (first, last) in [("9.0.0.0", "11.255.255.255"), ("81.2.69.0", "81.2.69.255"), ("2a00::", "2a00::ff")]
    {
        draft.range(first.parse().unwrap(), last.parse().unwrap(), Some(place), Some(network)).unwrap();
    }
    Atlas::read(&draft.write().unwrap()).unwrap()
}

#[test]
fn a_known_address_is_answered_with_all_that_is_known() {
    let (house, keys) =
        House::build(Plan { keys: &[(Scope::Full, None)], atlas: atlas(), ..Plan::default() });
    for caller in ["81.2.69.142", "2a00::1"] {
        let headers =
            [format!("authorization: Bearer {}", keys[0].text), format!("x-forwarded-for: {caller}")];
        let body = json(&house.send("GET", "/api/v1/ip", &[&headers[0], &headers[1]]));
        assert_eq!(body["city"], "<script>alert(1)</script> \"London\"");
        assert_eq!(body["region_code"], "GB-ENG");
        assert_eq!((&body["latitude"], &body["longitude"]), (&51.5142.into(), &(-0.0931).into()));
        assert_eq!((&body["timezone"], &body["timezone_offset"]), (&"Europe/London".into(), &0.into()));
        assert_eq!((&body["asn"], &body["as"]), (&20712.into(), &"AS20712 Andrews & Arnold Ltd".into()));
        assert_eq!(
            (&body["proxy"], &body["hosting"], &body["is_eu"]),
            (&false.into(), &true.into(), &false.into())
        );
    }
}

#[test]
fn the_offset_is_that_of_the_request_in_summer_and_winter() {
    let (house, _) = House::build(Plan { atlas: atlas(), ..Plan::default() });
    let offset = || {
        json(&house.send("GET", "/api/v1/ip/demo", &["x-forwarded-for: 81.2.69.142"]))["timezone_offset"]
            .clone()
    };
    assert_eq!(offset(), 0);
    // 2027-07-15 12:00 UTC.
    house.hand.set(Now { unix_ms: 1_815_652_800_000, boot_ms: 6_000_000 });
    assert_eq!(offset(), 3600);
}

#[test]
fn an_address_that_is_not_global_is_nowhere() {
    let (house, _) = House::build(Plan { atlas: atlas(), ..Plan::default() });
    for caller in
        ["10.1.2.3", "127.0.0.1", "100.64.0.1", "169.254.1.1", "192.0.2.1", "fe80::1", "2001:db8::1"]
    {
        let body = json(&house.send("GET", "/api/v1/ip/demo", &[&format!("x-forwarded-for: {caller}")]));
        for field in ["city", "country", "asn", "as", "timezone_offset", "is_eu", "currency"] {
            assert_eq!(body[field], serde_json::Value::Null, "{caller} {field}");
        }
    }
}

#[test]
fn hostile_names_are_harmless_on_the_front_page() {
    let (house, _) = House::build(Plan { atlas: atlas(), ..Plan::default() });
    let page = house.send("GET", "/", &["x-forwarded-for: 81.2.69.142", "accept: text/html"]);
    assert!(page.body.contains("81.2.69.142") && page.body.contains("England"));
    assert!(!page.body.replace("<script src=\"/assets/", "").contains("<script"), "names are escaped");
}
