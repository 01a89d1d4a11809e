//! Files that are wrong, damaged or made to harm: each ends in a sentence, soon.

use crate::write::{Raw, country, gzip, list, mmdb, pointer, text, zstd};
use crate::{ranges, read, refused};
use ipse_geodata::sources::{self, Fault, Kind};
use maxminddb_writer::metadata::IpVersion;
use proptest::prelude::*;
use serde_json::json;

fn good() -> Vec<u8> {
    let names = ["8.8.8.0/24", "8.8.9.0/24", "9.0.0.0/9", "100.64.0.0/10", "203.0.113.7/32"];
    let networks: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, network)| {
            let record = json!({
                "city": {"names": {"en": format!("City {index}"), "de": "Stadt"}},
                "country": {"iso_code": "NL"},
                "location": {"latitude": 1.5, "longitude": 2.5},
                "subdivisions": [{"iso_code": "NH", "names": {"en": "North Holland"}}],
            });
            (*network, record)
        })
        .collect();
    mmdb("GeoLite2-City", IpVersion::V4, &networks)
}

fn good_lines() -> String {
    (0..200)
        .map(|index| format!("8.8.{index}.0,8.8.{index}.255,{},\"Company, {index}\"\n", index + 1))
        .collect()
}

#[test]
fn wrong_files_are_called_what_they_are() {
    let check = |bytes: &[u8], expected: &str| {
        assert_eq!(refused("a.mmdb", Kind::City, bytes), format!("a.mmdb: {expected}"));
    };
    check(b"", "it is empty");
    check(&gzip(b""), "it is empty");
    check(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        "it is a PNG image, neither MMDB nor CSV; give the vendor's MMDB or CSV file",
    );
    check(b"PK\x03\x04\0\0", "it is a ZIP archive, neither MMDB nor CSV; unpack it first");
    check(
        b"\n<!DOCTYPE html><html>Not found</html>",
        "it is a web page, neither MMDB nor CSV; the download has failed and saved a message instead",
    );
    check(b"{\"error\": 1}", "it is JSON, neither MMDB nor CSV; give the vendor's MMDB or CSV file");
    check(&gzip(&gzip(b"a")), "it is packed twice, neither MMDB nor CSV; unpack it first");
    check(
        b"Once upon a time.\n",
        "line 1 does not say what the columns are: it has neither addresses nor a column for them (network, or start_ip and end_ip), but \"once_upon_a_time.\"",
    );
    check(
        b"1.2.3.4,5,6,7,8,9\n",
        "line 1 does not say what the columns are: there is no header, and no vendor's columns look like these",
    );
    check(
        &[0; 5000],
        "it is not a sound MMDB: the metadata at its end is missing, so it is cut off or something else",
    );
    check(b"\n\n\n", "line 1 does not say what the columns are: no line holds anything");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path| sources::read(path, Kind::City, &mut |_| {}).unwrap_err().to_string();
    assert!(refused(folder.path()).ends_with(": it is a folder, not a file"));
    let missing = folder.path().join("missing.mmdb");
    assert_eq!(
        refused(&missing),
        "missing.mmdb: it cannot be opened: No such file or directory (os error 2)"
    );
    assert_eq!(refused("/dev/zero".as_ref()), "zero: it is a device or a pipe, not a file");
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let bytes = good();
    for end in 0..bytes.len() {
        refused("a.mmdb", Kind::City, &bytes[..end]);
    }
    for packed in [gzip(&bytes), zstd(&bytes)] {
        for end in (1..packed.len()).step_by(7) {
            refused("a.mmdb.gz", Kind::City, &packed[..end]);
        }
        let why = refused("a.mmdb.gz", Kind::City, &packed[..packed.len() / 2]);
        assert!(why.starts_with("a.mmdb.gz: its compressed data is damaged or cut off near byte "), "{why}");
    }
}

#[test]
fn bombs_are_not_unpacked() {
    let bomb = vec![b'\n'; 9 << 20];
    for packed in [gzip(&bomb), zstd(&bomb)] {
        let error = read("a.csv.gz", Kind::City, &packed).unwrap_err();
        assert!(matches!(error.fault, Fault::Expands { limit: 8_388_608, .. }), "{error}");
    }
    let bomb = vec![0; 9 << 20];
    let error = read("a.mmdb.gz", Kind::City, &gzip(&bomb)).unwrap_err();
    assert!(matches!(error.fault, Fault::Expands { .. }), "{error}");
}

#[test]
fn trees_that_are_none_are_refused() {
    let check = |raw: &Raw, expected: &str| {
        let why = refused("a.mmdb", Kind::Country, &raw.bytes());
        assert!(why.contains(expected), "{why}");
    };
    for version in [4, 6] {
        check(&Raw::new(version, vec![[0, 0]], country("NL")), "the search tree");
        check(&Raw::new(version, vec![[1, 1], [0, 0]], country("NL")), "the search tree");
        // All ways meet at each level, so there are more of them than could ever be walked.
        let nodes = (1..=200).map(|next| [next.min(199), next.min(199)]).collect();
        check(&Raw::new(version, nodes, country("NL")), "the search tree");
        check(&Raw::new(version, vec![[1 + 3, 1]], country("NL")), "leads between itself and the records");
        check(&Raw::new(version, vec![[1 + 16 + 5000, 1]], country("NL")), "invalid location");
        check(
            &Raw { node_count: Some(u32::MAX), ..Raw::new(version, vec![[1, 1]], country("NL")) },
            "beyond",
        );
        check(&Raw { node_count: Some(0), ..Raw::new(version, vec![[1, 1]], country("NL")) }, "node_count");
        check(&Raw { record_size: 200, ..Raw::new(version, vec![[1, 1]], country("NL")) }, "record_size");
    }
    let levels: Vec<[u32; 2]> = (1..=16).map(|next| [next.min(15), next.min(15)]).collect();
    let shared = levels.into_iter().map(|[a, b]| if a == 15 { [16 + 16, 16 + 16] } else { [a, b] }).collect();
    check(&Raw::new(4, shared, country("NL")), "comes back to nodes that were visited before");
    check(&Raw::new(5, vec![[1, 1]], country("NL")), "ip_version");
}

#[test]
fn records_that_are_none_are_refused() {
    let check = |data: Vec<u8>, expected: &str| {
        let why = refused("a.mmdb", Kind::Country, &Raw::new(4, vec![[17, 1]], data).bytes());
        assert!(why.contains(expected), "{why}");
    };
    check(pointer(0), "depth");
    check([vec![0xe1], text("a"), pointer(0)].concat(), "nested deeper than 16 levels");
    check([0x01, 4].repeat(400), "nested deeper than 16 levels");
    check(vec![0x5f, 0xff, 0xff, 0xff], "maximum size of data structure string");
    check([vec![0xe1], vec![0x41, 0xff], text("x")].concat(), "at byte 27: invalid UTF-8");
    check([list(16_000_000), vec![0x40]].concat(), "maximum number of data structure values");
    check(vec![0x00, 0xff], "unknown data type");
    // Each list has the one before twice, so the last has it more often than could ever be read.
    let mut data = text("x");
    let mut before = 0;
    for _ in 0..60 {
        let here = u32::try_from(data.len()).unwrap();
        data.extend([vec![0x02, 4], pointer(before), pointer(before)].concat());
        before = here;
    }
    let raw = Raw::new(4, vec![[17 + before, 1]], data);
    let why = refused("a.mmdb", Kind::Country, &raw.bytes());
    assert!(why.contains("nested deeper") || why.contains("maximum number"), "{why}");
}

#[test]
fn records_that_share_too_much_are_refused() {
    // 4096 records, each of which is 60,000 values that are the same for all.
    const RECORDS: u32 = 4096;
    let mut data = vec![0x1e, 4];
    data.extend(u16::to_be_bytes(60_000 - 285));
    data.extend(vec![0xa0; 60_000]);
    let mut nodes = Vec::new();
    for node in 1..RECORDS {
        nodes.push([node * 2 - 1, node * 2]);
    }
    for record in 0..RECORDS {
        let target = u32::try_from(data.len()).unwrap() + (RECORDS - 1) + 16;
        data.extend([vec![0xe2], text("a"), pointer(0), text("country_code"), text("NL")].concat());
        let slot = (RECORDS - 1 + record - 1) as usize;
        nodes[slot / 2][slot % 2] = target;
    }
    let why = refused("a.mmdb", Kind::Country, &Raw::new(4, nodes, data).bytes());
    assert!(why.contains("repeat the same values more often"), "{why}");
}

#[test]
fn ways_that_lead_to_ipv4_again_are_not_ipv6() {
    // 96 zeros lead to node 96, whose both halves are Dutch; so does 2002::/16, as MaxMind's files have it.
    let (data, nothing) = (u32::MAX - 1, u32::MAX);
    let mut nodes: Vec<[u32; 2]> = (1..=96).map(|next| [next, nothing]).collect();
    nodes.push([data, data]);
    // Both ways begin with two zeros and part at the third bit.
    nodes[2][1] = 97;
    for bit in (0..13).rev() {
        let next = if bit == 0 { 96 } else { u32::try_from(nodes.len() + 1).unwrap() };
        nodes.push(if 0x2002_u16 >> bit & 1 == 1 { [nothing, next] } else { [next, nothing] });
    }
    let empty = u32::try_from(nodes.len()).unwrap();
    for child in nodes.iter_mut().flatten() {
        if *child == nothing {
            *child = empty;
        } else if *child == data {
            *child = empty + 16;
        }
    }
    let source = read("a.mmdb", Kind::Country, &Raw::new(6, nodes, country("NL")).bytes()).unwrap();
    assert_eq!(ranges(&source), ["0.0.0.0-255.255.255.255"]);
}

#[test]
fn a_few_bad_lines_are_counted_and_many_refused() {
    let mut text = good_lines();
    text.push_str("8.9.0.0,\"not closed\n8.9.0.9,8.9.0.0,5,Backwards\n");
    let source = read("a.csv", Kind::Asn, text.as_bytes()).unwrap();
    assert_eq!(source.about.bad_lines, 2);
    assert_eq!((source.about.networks, source.table.v4.len()), (200, 200));
    let told: Vec<_> = source.about.first_bad_lines.iter().map(|bad| (bad.line, bad.why.as_str())).collect();
    let expected =
        [(201, "a quote is opened and not closed"), (202, "its last address comes before its first")];
    assert_eq!(told, expected);
    text.push_str("nonsense\n");
    assert_eq!(
        refused("a.csv", Kind::Asn, text.as_bytes()),
        "a.csv: 3 of 203 lines cannot be read; the first is line 201: a quote is opened and not closed"
    );
}

#[test]
fn endless_lines_cost_one_line() {
    let endless =
        format!("{}9.0.0.0,9.0.0.255,7,{}\n9.0.1.0,9.0.1.255,7,Last\n", good_lines(), "x".repeat(1 << 20));
    let source = read("a.csv", Kind::Asn, endless.as_bytes()).unwrap();
    assert_eq!((source.about.bad_lines, source.table.v4.len()), (1, 201));
    let commas = format!("{}{}\n", good_lines(), ",".repeat(60_000));
    assert_eq!(read("a.csv", Kind::Asn, commas.as_bytes()).unwrap().about.bad_lines, 1);
}

#[test]
fn overlaps_are_settled_and_counted() {
    let text = "1.0.0.0,1.0.0.255,1,Wide\n1.0.0.16,1.0.0.31,2,Narrow\n0.0.0.0,0.0.0.9,3,Late\n1.0.0.0,1.0.0.255,4,Wide again\n";
    let source = read("a.csv", Kind::Asn, text.as_bytes()).unwrap();
    assert_eq!(source.about.overlaps, 2);
    assert_eq!(
        ranges(&source),
        ["0.0.0.0-0.0.0.9", "1.0.0.0-1.0.0.15", "1.0.0.16-1.0.0.31", "1.0.0.32-1.0.0.255"]
    );
    let asns: Vec<_> =
        source.table.v4.iter().map(|range| source.table.facts[range.facts as usize].asn).collect();
    assert_eq!(asns, [Some(3), Some(4), Some(2), Some(4)]);
}

const KINDS: [Kind; 4] = [Kind::City, Kind::Country, Kind::Asn, Kind::Anonymous];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in prop::sample::select(&KINDS[..])) {
        let _ = read("a", kind, &bytes);
        let _ = read("a", kind, &[b"\0", bytes.as_slice(), b"\xab\xcd\xefMaxMind.com", &bytes].concat());
    }

    #[test]
    fn random_records_are_survived(data in prop::collection::vec(any::<u8>(), 1..200), nodes in prop::collection::vec([0_u32..300, 0_u32..300], 1..60), version in prop::sample::select(vec![4, 6])) {
        let _ = read("a", Kind::City, &Raw::new(version, nodes, data).bytes());
    }

    #[test]
    fn damaged_files_are_survived(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), kind in prop::sample::select(&KINDS[..])) {
        for mut bytes in [good(), good_lines().into_bytes(), gzip(&good())] {
            for (index, value) in &changes {
                let index = index.index(bytes.len());
                bytes[index] = *value;
            }
            if let Ok(source) = read("a", kind, &bytes) {
                let sound = |last: u128, first: u128| last < first;
                prop_assert!(source.table.v4.windows(2).all(|pair| sound(pair[0].last.into(), pair[1].first.into())));
                prop_assert!(source.table.v6.windows(2).all(|pair| sound(pair[0].last, pair[1].first)));
                prop_assert!(source.table.v4.iter().all(|range| (range.facts as usize) < source.table.facts.len()));
            }
        }
    }
}
