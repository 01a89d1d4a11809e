//! Regions whose name alone does not say which they are, told by the city.

/// What a city decides about a region's ambiguous name.
pub(super) struct Twin {
    pub(super) country: &'static str,
    pub(super) region: &'static str,
    pub(super) city: &'static str,
    /// The code of the city by itself.
    pub(super) inside: &'static str,
    /// The code of the land of the same name around it, for any other city, where that is certain.
    pub(super) outside: Option<&'static str>,
}

const fn twin(
    country: &'static str,
    region: &'static str,
    city: &'static str,
    inside: &'static str,
    outside: Option<&'static str>,
) -> Twin {
    Twin { country, region, city, inside, outside }
}

/// Cities that have a code of their own and share their name with the region around them.
pub(super) static TWINS: &[Twin] = &[
    twin("AR", "Buenos Aires", "Buenos Aires", "AR-C", Some("AR-B")),
    twin("BG", "Sofia", "Sofia", "BG-22", Some("BG-23")),
    twin("BY", "Minsk", "Minsk", "BY-HM", Some("BY-MI")),
    twin("HR", "Zagreb", "Zagreb", "HR-21", None),
    twin("KG", "Osh", "Osh", "KG-GO", Some("KG-O")),
    twin("KZ", "Almaty", "Almaty", "KZ-75", None),
    twin("LA", "Vientiane", "Vientiane", "LA-VT", Some("LA-VI")),
    twin("MZ", "Maputo", "Maputo", "MZ-MPM", Some("MZ-L")),
    twin("PE", "Lima", "Lima", "PE-LMA", None),
    twin("UA", "Kiev", "Kiev", "UA-30", Some("UA-32")),
    twin("UA", "Kyiv", "Kyiv", "UA-30", Some("UA-32")),
    twin("UZ", "Tashkent", "Tashkent", "UZ-TK", None),
    twin("UZ", "Toshkent", "Tashkent", "UZ-TK", None),
    twin("YE", "Sanaa", "Sanaa", "YE-SA", None),
];

/// Country and name of what sources call a region though it spans many codes: there only the city tells.
pub(super) static WIDE: &[(&str, &str)] = &[
    ("PS", "Gaza Strip"),
    ("PS", "West Bank"),
    ("RS", "Central Serbia"),
    ("TW", "Taipei"),
    ("TW", "Taiwan"),
    ("TW", "Taiwan Province"),
];

/// Country, city, code; sorted. Read only for the regions above.
pub(super) static TOWNS: &[(&str, &str, &str)] = &[
    ("PS", "Bethlehem", "PS-BTH"),
    ("PS", "Gaza", "PS-GZA"),
    ("PS", "Hebron", "PS-HBN"),
    ("PS", "Jenin", "PS-JEN"),
    ("PS", "Jericho", "PS-JRH"),
    ("PS", "Khan Yunis", "PS-KYS"),
    ("PS", "Nablus", "PS-NBS"),
    ("PS", "Qalqilya", "PS-QQA"),
    ("PS", "Rafah", "PS-RFH"),
    ("PS", "Ramallah", "PS-RBH"),
    ("PS", "Salfit", "PS-SLT"),
    ("PS", "Tubas", "PS-TBS"),
    ("PS", "Tulkarm", "PS-TKM"),
    ("RS", "Belgrade", "RS-00"),
    ("TW", "Banqiao District", "TW-NWT"),
    ("TW", "Changhua", "TW-CHA"),
    ("TW", "Chiayi City", "TW-CYI"),
    ("TW", "Douliu", "TW-YUN"),
    ("TW", "Fengyuan", "TW-TXG"),
    ("TW", "Hsinchu", "TW-HSZ"),
    ("TW", "Hualien City", "TW-HUA"),
    ("TW", "Keelung", "TW-KEE"),
    ("TW", "Luodong", "TW-ILA"),
    ("TW", "Miaoli", "TW-MIA"),
    ("TW", "Nantou City", "TW-NAN"),
    ("TW", "Neihu District", "TW-TPE"),
    ("TW", "New Taipei City", "TW-NWT"),
    ("TW", "Pingtung City", "TW-PIF"),
    ("TW", "Puli", "TW-NAN"),
    ("TW", "Sanxia District", "TW-NWT"),
    ("TW", "Shulin District", "TW-NWT"),
    ("TW", "Taichung", "TW-TXG"),
    ("TW", "Tainan", "TW-TNN"),
    ("TW", "Taipei", "TW-TPE"),
    ("TW", "Taipei City", "TW-TPE"),
    ("TW", "Taitung", "TW-TTT"),
    ("TW", "Taoyuan", "TW-TAO"),
    ("TW", "Toufen Township", "TW-MIA"),
    ("TW", "Xindian District", "TW-NWT"),
    ("TW", "Xizhi District", "TW-NWT"),
    ("TW", "Yilan", "TW-ILA"),
    ("TW", "Yingge District", "TW-NWT"),
    ("TW", "Yongkang District", "TW-TNN"),
    ("TW", "Yuanlin", "TW-CHA"),
    ("TW", "Zhubei", "TW-HSQ"),
    ("TW", "Zhudong", "TW-HSQ"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::regions::known;

    #[test]
    fn every_code_exists_in_its_country() {
        assert!(TOWNS.is_sorted() && WIDE.is_sorted());
        let towns = TOWNS.iter().map(|(country, _, code)| (*country, *code));
        let twins = TWINS.iter().flat_map(|twin| {
            [Some(twin.inside), twin.outside].into_iter().flatten().map(|code| (twin.country, code))
        });
        for (country, code) in towns.chain(twins) {
            assert!(known(code), "{code}");
            assert_eq!(&code[..2], country);
        }
    }
}
