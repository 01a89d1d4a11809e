//! Every country: its English name, its continent, its currency, and whether it belongs to the European Union.
//!
//! Names are those that people write in English ("South Korea", "Czechia"), and where a state asks to be called by its
//! own name in English, as Türkiye and Côte d'Ivoire do, that one. Continents are the United Nations', but for
//! Cyprus (EU), the British Indian Ocean Territory (AS) and the islands of the far south (AN).
//! Currencies are those of 2026. Where two are legal tender, it is the country's own.

/// A country, or what has a code like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Country {
    /// ISO 3166-1 alpha-2, in capitals; and XK, which vendors use for Kosovo.
    pub code: [u8; 2],
    /// The English name.
    pub name: &'static str,
    /// AF, AN, AS, EU, NA, OC or SA.
    pub continent: &'static str,
    /// ISO 4217. Antarctica has none.
    pub currency: Option<&'static str>,
    /// Whether it is one of the 27 members, or a part of one that has its own code and where the Union's treaties
    /// apply: AX, GF, GP, MF, MQ, RE, YT.
    pub is_eu: bool,
}

/// The country of an ISO 3166-1 alpha-2 code in capitals.
#[must_use]
pub(crate) fn country(code: [u8; 2]) -> Option<&'static Country> {
    COUNTRIES.binary_search_by(|country| country.code.cmp(&code)).ok().map(|index| &COUNTRIES[index])
}

const fn outside(
    code: [u8; 2],
    name: &'static str,
    continent: &'static str,
    currency: &'static str,
) -> Country {
    Country { code, name, continent, currency: Some(currency), is_eu: false }
}

const fn member(
    code: [u8; 2],
    name: &'static str,
    continent: &'static str,
    currency: &'static str,
) -> Country {
    Country { code, name, continent, currency: Some(currency), is_eu: true }
}

/// Sorted by code.
static COUNTRIES: [Country; 250] = [
    outside(*b"AD", "Andorra", "EU", "EUR"),
    outside(*b"AE", "United Arab Emirates", "AS", "AED"),
    outside(*b"AF", "Afghanistan", "AS", "AFN"),
    outside(*b"AG", "Antigua and Barbuda", "NA", "XCD"),
    outside(*b"AI", "Anguilla", "NA", "XCD"),
    outside(*b"AL", "Albania", "EU", "ALL"),
    outside(*b"AM", "Armenia", "AS", "AMD"),
    outside(*b"AO", "Angola", "AF", "AOA"),
    Country { code: *b"AQ", name: "Antarctica", continent: "AN", currency: None, is_eu: false },
    outside(*b"AR", "Argentina", "SA", "ARS"),
    outside(*b"AS", "American Samoa", "OC", "USD"),
    member(*b"AT", "Austria", "EU", "EUR"),
    outside(*b"AU", "Australia", "OC", "AUD"),
    outside(*b"AW", "Aruba", "NA", "AWG"),
    member(*b"AX", "Åland Islands", "EU", "EUR"),
    outside(*b"AZ", "Azerbaijan", "AS", "AZN"),
    outside(*b"BA", "Bosnia and Herzegovina", "EU", "BAM"),
    outside(*b"BB", "Barbados", "NA", "BBD"),
    outside(*b"BD", "Bangladesh", "AS", "BDT"),
    member(*b"BE", "Belgium", "EU", "EUR"),
    outside(*b"BF", "Burkina Faso", "AF", "XOF"),
    member(*b"BG", "Bulgaria", "EU", "EUR"),
    outside(*b"BH", "Bahrain", "AS", "BHD"),
    outside(*b"BI", "Burundi", "AF", "BIF"),
    outside(*b"BJ", "Benin", "AF", "XOF"),
    outside(*b"BL", "Saint Barthélemy", "NA", "EUR"),
    outside(*b"BM", "Bermuda", "NA", "BMD"),
    outside(*b"BN", "Brunei", "AS", "BND"),
    outside(*b"BO", "Bolivia", "SA", "BOB"),
    outside(*b"BQ", "Caribbean Netherlands", "NA", "USD"),
    outside(*b"BR", "Brazil", "SA", "BRL"),
    outside(*b"BS", "Bahamas", "NA", "BSD"),
    outside(*b"BT", "Bhutan", "AS", "BTN"),
    outside(*b"BV", "Bouvet Island", "AN", "NOK"),
    outside(*b"BW", "Botswana", "AF", "BWP"),
    outside(*b"BY", "Belarus", "EU", "BYN"),
    outside(*b"BZ", "Belize", "NA", "BZD"),
    outside(*b"CA", "Canada", "NA", "CAD"),
    outside(*b"CC", "Cocos (Keeling) Islands", "OC", "AUD"),
    outside(*b"CD", "Democratic Republic of the Congo", "AF", "CDF"),
    outside(*b"CF", "Central African Republic", "AF", "XAF"),
    outside(*b"CG", "Republic of the Congo", "AF", "XAF"),
    outside(*b"CH", "Switzerland", "EU", "CHF"),
    outside(*b"CI", "Côte d'Ivoire", "AF", "XOF"),
    outside(*b"CK", "Cook Islands", "OC", "NZD"),
    outside(*b"CL", "Chile", "SA", "CLP"),
    outside(*b"CM", "Cameroon", "AF", "XAF"),
    outside(*b"CN", "China", "AS", "CNY"),
    outside(*b"CO", "Colombia", "SA", "COP"),
    outside(*b"CR", "Costa Rica", "NA", "CRC"),
    outside(*b"CU", "Cuba", "NA", "CUP"),
    outside(*b"CV", "Cape Verde", "AF", "CVE"),
    outside(*b"CW", "Curaçao", "NA", "XCG"),
    outside(*b"CX", "Christmas Island", "OC", "AUD"),
    member(*b"CY", "Cyprus", "EU", "EUR"),
    member(*b"CZ", "Czechia", "EU", "CZK"),
    member(*b"DE", "Germany", "EU", "EUR"),
    outside(*b"DJ", "Djibouti", "AF", "DJF"),
    member(*b"DK", "Denmark", "EU", "DKK"),
    outside(*b"DM", "Dominica", "NA", "XCD"),
    outside(*b"DO", "Dominican Republic", "NA", "DOP"),
    outside(*b"DZ", "Algeria", "AF", "DZD"),
    outside(*b"EC", "Ecuador", "SA", "USD"),
    member(*b"EE", "Estonia", "EU", "EUR"),
    outside(*b"EG", "Egypt", "AF", "EGP"),
    outside(*b"EH", "Western Sahara", "AF", "MAD"),
    outside(*b"ER", "Eritrea", "AF", "ERN"),
    member(*b"ES", "Spain", "EU", "EUR"),
    outside(*b"ET", "Ethiopia", "AF", "ETB"),
    member(*b"FI", "Finland", "EU", "EUR"),
    outside(*b"FJ", "Fiji", "OC", "FJD"),
    outside(*b"FK", "Falkland Islands", "SA", "FKP"),
    outside(*b"FM", "Micronesia", "OC", "USD"),
    outside(*b"FO", "Faroe Islands", "EU", "DKK"),
    member(*b"FR", "France", "EU", "EUR"),
    outside(*b"GA", "Gabon", "AF", "XAF"),
    outside(*b"GB", "United Kingdom", "EU", "GBP"),
    outside(*b"GD", "Grenada", "NA", "XCD"),
    outside(*b"GE", "Georgia", "AS", "GEL"),
    member(*b"GF", "French Guiana", "SA", "EUR"),
    outside(*b"GG", "Guernsey", "EU", "GBP"),
    outside(*b"GH", "Ghana", "AF", "GHS"),
    outside(*b"GI", "Gibraltar", "EU", "GIP"),
    outside(*b"GL", "Greenland", "NA", "DKK"),
    outside(*b"GM", "Gambia", "AF", "GMD"),
    outside(*b"GN", "Guinea", "AF", "GNF"),
    member(*b"GP", "Guadeloupe", "NA", "EUR"),
    outside(*b"GQ", "Equatorial Guinea", "AF", "XAF"),
    member(*b"GR", "Greece", "EU", "EUR"),
    outside(*b"GS", "South Georgia and the South Sandwich Islands", "AN", "GBP"),
    outside(*b"GT", "Guatemala", "NA", "GTQ"),
    outside(*b"GU", "Guam", "OC", "USD"),
    outside(*b"GW", "Guinea-Bissau", "AF", "XOF"),
    outside(*b"GY", "Guyana", "SA", "GYD"),
    outside(*b"HK", "Hong Kong", "AS", "HKD"),
    outside(*b"HM", "Heard Island and McDonald Islands", "AN", "AUD"),
    outside(*b"HN", "Honduras", "NA", "HNL"),
    member(*b"HR", "Croatia", "EU", "EUR"),
    outside(*b"HT", "Haiti", "NA", "HTG"),
    member(*b"HU", "Hungary", "EU", "HUF"),
    outside(*b"ID", "Indonesia", "AS", "IDR"),
    member(*b"IE", "Ireland", "EU", "EUR"),
    outside(*b"IL", "Israel", "AS", "ILS"),
    outside(*b"IM", "Isle of Man", "EU", "GBP"),
    outside(*b"IN", "India", "AS", "INR"),
    outside(*b"IO", "British Indian Ocean Territory", "AS", "USD"),
    outside(*b"IQ", "Iraq", "AS", "IQD"),
    outside(*b"IR", "Iran", "AS", "IRR"),
    outside(*b"IS", "Iceland", "EU", "ISK"),
    member(*b"IT", "Italy", "EU", "EUR"),
    outside(*b"JE", "Jersey", "EU", "GBP"),
    outside(*b"JM", "Jamaica", "NA", "JMD"),
    outside(*b"JO", "Jordan", "AS", "JOD"),
    outside(*b"JP", "Japan", "AS", "JPY"),
    outside(*b"KE", "Kenya", "AF", "KES"),
    outside(*b"KG", "Kyrgyzstan", "AS", "KGS"),
    outside(*b"KH", "Cambodia", "AS", "KHR"),
    outside(*b"KI", "Kiribati", "OC", "AUD"),
    outside(*b"KM", "Comoros", "AF", "KMF"),
    outside(*b"KN", "Saint Kitts and Nevis", "NA", "XCD"),
    outside(*b"KP", "North Korea", "AS", "KPW"),
    outside(*b"KR", "South Korea", "AS", "KRW"),
    outside(*b"KW", "Kuwait", "AS", "KWD"),
    outside(*b"KY", "Cayman Islands", "NA", "KYD"),
    outside(*b"KZ", "Kazakhstan", "AS", "KZT"),
    outside(*b"LA", "Laos", "AS", "LAK"),
    outside(*b"LB", "Lebanon", "AS", "LBP"),
    outside(*b"LC", "Saint Lucia", "NA", "XCD"),
    outside(*b"LI", "Liechtenstein", "EU", "CHF"),
    outside(*b"LK", "Sri Lanka", "AS", "LKR"),
    outside(*b"LR", "Liberia", "AF", "LRD"),
    outside(*b"LS", "Lesotho", "AF", "LSL"),
    member(*b"LT", "Lithuania", "EU", "EUR"),
    member(*b"LU", "Luxembourg", "EU", "EUR"),
    member(*b"LV", "Latvia", "EU", "EUR"),
    outside(*b"LY", "Libya", "AF", "LYD"),
    outside(*b"MA", "Morocco", "AF", "MAD"),
    outside(*b"MC", "Monaco", "EU", "EUR"),
    outside(*b"MD", "Moldova", "EU", "MDL"),
    outside(*b"ME", "Montenegro", "EU", "EUR"),
    member(*b"MF", "Saint Martin", "NA", "EUR"),
    outside(*b"MG", "Madagascar", "AF", "MGA"),
    outside(*b"MH", "Marshall Islands", "OC", "USD"),
    outside(*b"MK", "North Macedonia", "EU", "MKD"),
    outside(*b"ML", "Mali", "AF", "XOF"),
    outside(*b"MM", "Myanmar", "AS", "MMK"),
    outside(*b"MN", "Mongolia", "AS", "MNT"),
    outside(*b"MO", "Macao", "AS", "MOP"),
    outside(*b"MP", "Northern Mariana Islands", "OC", "USD"),
    member(*b"MQ", "Martinique", "NA", "EUR"),
    outside(*b"MR", "Mauritania", "AF", "MRU"),
    outside(*b"MS", "Montserrat", "NA", "XCD"),
    member(*b"MT", "Malta", "EU", "EUR"),
    outside(*b"MU", "Mauritius", "AF", "MUR"),
    outside(*b"MV", "Maldives", "AS", "MVR"),
    outside(*b"MW", "Malawi", "AF", "MWK"),
    outside(*b"MX", "Mexico", "NA", "MXN"),
    outside(*b"MY", "Malaysia", "AS", "MYR"),
    outside(*b"MZ", "Mozambique", "AF", "MZN"),
    outside(*b"NA", "Namibia", "AF", "NAD"),
    outside(*b"NC", "New Caledonia", "OC", "XPF"),
    outside(*b"NE", "Niger", "AF", "XOF"),
    outside(*b"NF", "Norfolk Island", "OC", "AUD"),
    outside(*b"NG", "Nigeria", "AF", "NGN"),
    outside(*b"NI", "Nicaragua", "NA", "NIO"),
    member(*b"NL", "Netherlands", "EU", "EUR"),
    outside(*b"NO", "Norway", "EU", "NOK"),
    outside(*b"NP", "Nepal", "AS", "NPR"),
    outside(*b"NR", "Nauru", "OC", "AUD"),
    outside(*b"NU", "Niue", "OC", "NZD"),
    outside(*b"NZ", "New Zealand", "OC", "NZD"),
    outside(*b"OM", "Oman", "AS", "OMR"),
    outside(*b"PA", "Panama", "NA", "PAB"),
    outside(*b"PE", "Peru", "SA", "PEN"),
    outside(*b"PF", "French Polynesia", "OC", "XPF"),
    outside(*b"PG", "Papua New Guinea", "OC", "PGK"),
    outside(*b"PH", "Philippines", "AS", "PHP"),
    outside(*b"PK", "Pakistan", "AS", "PKR"),
    member(*b"PL", "Poland", "EU", "PLN"),
    outside(*b"PM", "Saint Pierre and Miquelon", "NA", "EUR"),
    outside(*b"PN", "Pitcairn Islands", "OC", "NZD"),
    outside(*b"PR", "Puerto Rico", "NA", "USD"),
    outside(*b"PS", "Palestine", "AS", "ILS"),
    member(*b"PT", "Portugal", "EU", "EUR"),
    outside(*b"PW", "Palau", "OC", "USD"),
    outside(*b"PY", "Paraguay", "SA", "PYG"),
    outside(*b"QA", "Qatar", "AS", "QAR"),
    member(*b"RE", "Réunion", "AF", "EUR"),
    member(*b"RO", "Romania", "EU", "RON"),
    outside(*b"RS", "Serbia", "EU", "RSD"),
    outside(*b"RU", "Russia", "EU", "RUB"),
    outside(*b"RW", "Rwanda", "AF", "RWF"),
    outside(*b"SA", "Saudi Arabia", "AS", "SAR"),
    outside(*b"SB", "Solomon Islands", "OC", "SBD"),
    outside(*b"SC", "Seychelles", "AF", "SCR"),
    outside(*b"SD", "Sudan", "AF", "SDG"),
    member(*b"SE", "Sweden", "EU", "SEK"),
    outside(*b"SG", "Singapore", "AS", "SGD"),
    outside(*b"SH", "Saint Helena, Ascension and Tristan da Cunha", "AF", "SHP"),
    member(*b"SI", "Slovenia", "EU", "EUR"),
    outside(*b"SJ", "Svalbard and Jan Mayen", "EU", "NOK"),
    member(*b"SK", "Slovakia", "EU", "EUR"),
    outside(*b"SL", "Sierra Leone", "AF", "SLE"),
    outside(*b"SM", "San Marino", "EU", "EUR"),
    outside(*b"SN", "Senegal", "AF", "XOF"),
    outside(*b"SO", "Somalia", "AF", "SOS"),
    outside(*b"SR", "Suriname", "SA", "SRD"),
    outside(*b"SS", "South Sudan", "AF", "SSP"),
    outside(*b"ST", "São Tomé and Príncipe", "AF", "STN"),
    outside(*b"SV", "El Salvador", "NA", "USD"),
    outside(*b"SX", "Sint Maarten", "NA", "XCG"),
    outside(*b"SY", "Syria", "AS", "SYP"),
    outside(*b"SZ", "Eswatini", "AF", "SZL"),
    outside(*b"TC", "Turks and Caicos Islands", "NA", "USD"),
    outside(*b"TD", "Chad", "AF", "XAF"),
    outside(*b"TF", "French Southern Territories", "AN", "EUR"),
    outside(*b"TG", "Togo", "AF", "XOF"),
    outside(*b"TH", "Thailand", "AS", "THB"),
    outside(*b"TJ", "Tajikistan", "AS", "TJS"),
    outside(*b"TK", "Tokelau", "OC", "NZD"),
    outside(*b"TL", "Timor-Leste", "AS", "USD"),
    outside(*b"TM", "Turkmenistan", "AS", "TMT"),
    outside(*b"TN", "Tunisia", "AF", "TND"),
    outside(*b"TO", "Tonga", "OC", "TOP"),
    outside(*b"TR", "Türkiye", "AS", "TRY"),
    outside(*b"TT", "Trinidad and Tobago", "NA", "TTD"),
    outside(*b"TV", "Tuvalu", "OC", "AUD"),
    outside(*b"TW", "Taiwan", "AS", "TWD"),
    outside(*b"TZ", "Tanzania", "AF", "TZS"),
    outside(*b"UA", "Ukraine", "EU", "UAH"),
    outside(*b"UG", "Uganda", "AF", "UGX"),
    outside(*b"UM", "U.S. Minor Outlying Islands", "OC", "USD"),
    outside(*b"US", "United States", "NA", "USD"),
    outside(*b"UY", "Uruguay", "SA", "UYU"),
    outside(*b"UZ", "Uzbekistan", "AS", "UZS"),
    outside(*b"VA", "Vatican City", "EU", "EUR"),
    outside(*b"VC", "Saint Vincent and the Grenadines", "NA", "XCD"),
    outside(*b"VE", "Venezuela", "SA", "VES"),
    outside(*b"VG", "British Virgin Islands", "NA", "USD"),
    outside(*b"VI", "U.S. Virgin Islands", "NA", "USD"),
    outside(*b"VN", "Vietnam", "AS", "VND"),
    outside(*b"VU", "Vanuatu", "OC", "VUV"),
    outside(*b"WF", "Wallis and Futuna", "OC", "XPF"),
    outside(*b"WS", "Samoa", "OC", "WST"),
    outside(*b"XK", "Kosovo", "EU", "EUR"),
    outside(*b"YE", "Yemen", "AS", "YER"),
    member(*b"YT", "Mayotte", "AF", "EUR"),
    outside(*b"ZA", "South Africa", "AF", "ZAR"),
    outside(*b"ZM", "Zambia", "AF", "ZMW"),
    outside(*b"ZW", "Zimbabwe", "AF", "ZWG"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The currencies of countries in ISO 4217 as of 2026; funds, metals and codes for tests are left out.
    const CURRENCIES: &str = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP \
        BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD \
        GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP \
        LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN \
        PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS \
        TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";

    #[test]
    fn the_codes_are_those_of_iso_3166_and_kosovo() {
        assert!(COUNTRIES.is_sorted_by(|left, right| left.code < right.code));
        let ours: BTreeSet<&str> =
            COUNTRIES.iter().map(|country| str::from_utf8(&country.code).unwrap()).collect();
        let mut theirs: BTreeSet<&str> = rust_iso3166::ALL_ALPHA2.iter().copied().collect();
        assert_eq!(theirs.len(), 249);
        theirs.insert("XK");
        assert_eq!(ours, theirs);
    }

    #[test]
    fn every_currency_is_one_of_iso_4217_and_only_two_of_those_have_no_country() {
        let valid: BTreeSet<&str> = CURRENCIES.split_whitespace().collect();
        let used: BTreeSet<&str> = COUNTRIES.iter().filter_map(|country| country.currency).collect();
        assert_eq!(used.difference(&valid).collect::<Vec<_>>(), Vec::<&&str>::new());
        // El Salvador and Venezuela each keep a second code in the standard.
        assert_eq!(valid.difference(&used).copied().collect::<Vec<_>>(), ["SVC", "VED"]);
        let without: Vec<&str> = COUNTRIES
            .iter()
            .filter(|country| country.currency.is_none())
            .map(|country| country.name)
            .collect();
        assert_eq!(without, ["Antarctica"]);
    }

    #[test]
    fn the_union_has_its_members_and_their_parts_with_a_code() {
        let union: Vec<&str> = COUNTRIES
            .iter()
            .filter(|country| country.is_eu)
            .map(|country| str::from_utf8(&country.code).unwrap())
            .collect();
        assert_eq!(
            union.join(" "),
            "AT AX BE BG CY CZ DE DK EE ES FI FR GF GP GR HR HU IE IT LT LU LV MF MQ MT NL PL PT RE RO SE SI SK YT"
        );
    }

    #[test]
    fn every_continent_is_one_of_seven() {
        for continent in ["AF", "AN", "AS", "EU", "NA", "OC", "SA"] {
            assert!(COUNTRIES.iter().any(|country| country.continent == continent), "{continent}");
        }
        let known =
            |country: &&Country| ["AF", "AN", "AS", "EU", "NA", "OC", "SA"].contains(&country.continent);
        assert_eq!(COUNTRIES.iter().filter(known).count(), COUNTRIES.len());
    }

    #[test]
    fn names_are_distinct_and_the_common_ones() {
        let names: BTreeSet<&str> = COUNTRIES.iter().map(|country| country.name).collect();
        assert_eq!(names.len(), COUNTRIES.len());
        check(*b"GB", "United Kingdom", "EU", Some("GBP"), false);
        check(*b"US", "United States", "NA", Some("USD"), false);
        check(*b"KR", "South Korea", "AS", Some("KRW"), false);
        check(*b"CZ", "Czechia", "EU", Some("CZK"), true);
        check(*b"TR", "Türkiye", "AS", Some("TRY"), false);
        check(*b"BG", "Bulgaria", "EU", Some("EUR"), true);
        check(*b"CW", "Curaçao", "NA", Some("XCG"), false);
        check(*b"XK", "Kosovo", "EU", Some("EUR"), false);
        check(*b"AQ", "Antarctica", "AN", None, false);
        assert_eq!(country(*b"ZZ"), None);
        assert_eq!(country(*b"gb"), None);
    }

    #[track_caller]
    fn check(code: [u8; 2], name: &str, continent: &str, currency: Option<&str>, is_eu: bool) {
        let found = country(code).unwrap();
        assert_eq!(
            (found.name, found.continent, found.currency, found.is_eu),
            (name, continent, currency, is_eu)
        );
    }
}
