//! What the licences of the geo data want to be said where its results are shown.

use ipse_geo::Atlas;

/// A stretch of text, perhaps with a link behind it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) href: Option<String>,
}

/// The sentences for what an atlas was built from, each once.
pub(crate) fn sentences(atlas: &Atlas) -> Vec<Vec<Piece>> {
    atlas.about().attributions().into_iter().map(pieces).collect()
}

/// Vendors' sentences name an address behind each name: the name becomes the link.
fn pieces(sentence: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = sentence;
    while let Some(at) = rest.find("https://") {
        let (name, address) = rest.split_at(at);
        let end = address.find([' ', ',', ';']).unwrap_or(address.len());
        let (address, after) = address.split_at(end);
        let begin = name.len() - name.trim_start_matches([' ', ',', ';']).len();
        let begin = if name[begin..].starts_with("and ") { begin + 4 } else { begin };
        if begin > 0 {
            pieces.push(Piece { text: name[..begin].to_owned(), href: None });
        }
        let name = &name[begin..];
        // Where the sentence leads up to the address, that is the link.
        if name.trim_end().ends_with(" from") {
            pieces.push(Piece { text: name.to_owned(), href: None });
            let shown = address.trim_start_matches("https://").to_owned();
            pieces.push(Piece { text: shown, href: Some(address.to_owned()) });
        } else {
            pieces.push(Piece { text: name.trim_end().to_owned(), href: Some(address.to_owned()) });
        }
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece { text: rest.to_owned(), href: None });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_before_an_address_is_its_link() {
        #[track_caller]
        fn check(sentence: &str, expected: &[(&str, Option<&str>)]) {
            let found = pieces(sentence);
            let found: Vec<_> =
                found.iter().map(|piece| (piece.text.as_str(), piece.href.as_deref())).collect();
            assert_eq!(found, expected);
        }
        check("Nothing to link", &[("Nothing to link", None)]);
        check(
            "Made by M, available from https://m.example",
            &[("Made by M, available from ", None), ("m.example", Some("https://m.example"))],
        );
        check(
            "IP Geolocation by DB-IP https://db-ip.com",
            &[("IP Geolocation by DB-IP", Some("https://db-ip.com"))],
        );
        check(
            "Data by A https://a.example, B https://b.example and C https://c.example.",
            &[
                ("Data by A", Some("https://a.example")),
                (", ", None),
                ("B", Some("https://b.example")),
                (" and ", None),
                ("C", Some("https://c.example.")),
            ],
        );
    }
}
