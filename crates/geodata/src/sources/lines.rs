//! Text files: CSV with or without a header, and the tables of `IPtoASN`, which are separated by tabs.
//!
//! Lines are split here and not by a crate for CSV: no vendor breaks lines within quotes, and so a stray quote costs
//! its own line instead of swallowing the rest of the file.

use super::build::{self, Interner};
use super::field::{self, Field, Gather, Scalar};
use super::file::Content;
use super::{BadLine, Fault, Found, Kind, Progress, Schema, Stage, TOLD_FIELDS, vendor};
use crate::clean;
use crate::facts::Range;
use std::io::{self, BufRead, Read};
use std::net::{Ipv4Addr, Ipv6Addr};

/// No line of a vendor is longer.
const MAXIMUM_LINE: usize = 1 << 16;

/// No vendor has more columns.
const MAXIMUM_COLUMNS: usize = 128;

/// How many lines are looked at to tell the columns of a file without a header.
const SAMPLE_LINES: usize = 256;

/// How many bad lines are told.
const TOLD_LINES: usize = 5;

/// How often progress is told, in lines.
const PROGRESS_LINES: u64 = 1 << 15;

/// How much memory a table may take for each byte of its file; those of real files, packed well, take up to seven.
const MEMORY_RATIO: u64 = 12;

/// How much it may take for each byte of text; those of real files take less than two.
const MEMORY_PER_TEXT: u64 = 6;

/// What a table may take besides, and the most it may take at all. To put ranges in order takes up to three times as
/// much for a moment, so that no small file takes more than the table of an atlas does.
const MEMORY_FLOOR: u64 = 16 << 20;
const MEMORY_LIMIT: u64 = 16 << 30;

/// How often memory is counted, in lines.
const MEMORY_LINES: u64 = 1 << 12;

pub(super) fn read(
    content: &mut Content,
    file_name: &str,
    kind: Kind,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, Fault> {
    let mut lines = Lines { content, number: 0, bytes: Vec::new() };
    let mut text = String::new();
    let mut sample: Vec<(u64, Option<String>)> = Vec::new();
    while sample.len() < SAMPLE_LINES
        && let Some(length) = lines.next(&mut text)?
    {
        sample.push((lines.number, (length == Length::Fine).then(|| text.clone())));
    }
    let layout = Layout::tell(&sample, file_name, kind)?;
    let mut rows = Rows::new(&layout, kind, lines.content.size());
    for (number, line) in sample.iter().skip(usize::from(layout.has_header)) {
        rows.add(*number, line.as_deref())?;
    }
    drop(sample);
    let total = lines.content.size();
    while let Some(length) = lines.next(&mut text)? {
        rows.add(lines.number, (length == Length::Fine).then_some(text.as_str()))?;
        if rows.lines.is_multiple_of(PROGRESS_LINES) {
            progress(Progress { stage: Stage::Bytes, done: lines.content.offset().min(total), total });
        }
    }
    progress(Progress { stage: Stage::Bytes, done: total, total });
    rows.finish()
}

#[derive(PartialEq, Eq)]
enum Length {
    Fine,
    Absurd,
}

/// The lines of a text that say something, however long others are.
struct Lines<'a> {
    content: &'a mut Content,
    number: u64,
    bytes: Vec<u8>,
}

impl Lines<'_> {
    fn next(&mut self, text: &mut String) -> Result<Option<Length>, Fault> {
        loop {
            self.bytes.clear();
            let length =
                read_line(self.content, &mut self.bytes).map_err(|error| self.content.fault(error))?;
            let Some(length) = length else { return Ok(None) };
            self.number += 1;
            text.clear();
            let mark = self.number == 1 && self.bytes.starts_with(b"\xef\xbb\xbf");
            let bytes = if mark { &self.bytes[3..] } else { &self.bytes };
            // A small packed file can have millions of these.
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            // A wrong byte in a name is not worth a line.
            match str::from_utf8(bytes) {
                Ok(utf8) => text.push_str(utf8),
                // Old files are in Latin-1, whose bytes are the first characters of Unicode.
                Err(_) => text.extend(bytes.iter().copied().map(char::from)),
            }
            let kept = text.trim_end_matches(['\r', '\n']).len();
            text.truncate(kept);
            if !text.trim().is_empty() && !text.starts_with('#') {
                return Ok(Some(length));
            }
        }
    }
}

/// Reads to the end of the line, but keeps no more of it than a line may have.
fn read_line(content: &mut Content, line: &mut Vec<u8>) -> io::Result<Option<Length>> {
    let read = content.by_ref().take(MAXIMUM_LINE as u64).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(None);
    }
    if read < MAXIMUM_LINE || line.ends_with(b"\n") {
        return Ok(Some(Length::Fine));
    }
    content.skip_until(b'\n')?;
    Ok(Some(Length::Absurd))
}

/// The columns of one line, without their quotes.
#[derive(Default)]
struct Columns {
    text: String,
    ends: Vec<usize>,
}

impl Columns {
    fn split(&mut self, line: &str, separator: char) -> Result<(), &'static str> {
        self.text.clear();
        self.ends.clear();
        let mut rest = line;
        loop {
            if self.ends.len() == MAXIMUM_COLUMNS {
                return Err("it has more columns than any file should");
            }
            // Tables separated by tabs know no quotes.
            let quoted = if separator == '\t' { None } else { rest.strip_prefix('"') };
            let following = match quoted {
                Some(quoted) => self.unquote(quoted, separator)?,
                None => match rest.split_once(separator) {
                    Some((column, following)) => {
                        self.text.push_str(column);
                        Some(following)
                    }
                    None => {
                        self.text.push_str(rest);
                        None
                    }
                },
            };
            self.ends.push(self.text.len());
            match following {
                Some(following) => rest = following,
                None => return Ok(()),
            }
        }
    }

    fn unquote<'a>(&mut self, mut rest: &'a str, separator: char) -> Result<Option<&'a str>, &'static str> {
        loop {
            let (column, behind) = rest.split_once('"').ok_or("a quote is opened and not closed")?;
            self.text.push_str(column);
            if let Some(behind) = behind.strip_prefix('"') {
                self.text.push('"');
                rest = behind;
            } else if behind.trim().is_empty() {
                return Ok(None);
            } else {
                let following = behind.strip_prefix(separator);
                return following.map(Some).ok_or("something stands between a quote and the next column");
            }
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> Option<&str> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.text.get(start..*self.ends.get(index)?)
    }
}

/// A range as a line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    V4(u32, u32),
    V6(u128, u128),
}

impl Span {
    fn new(first: &str, last: &str) -> Result<Self, &'static str> {
        let span = match (address(first)?, address(last)?) {
            (Address::V4(first), Address::V4(last)) => Self::V4(first, last),
            (Address::V6(first), Address::V6(last)) => Self::V6(first, last),
            (Address::Number(first), Address::Number(last)) => {
                match (u32::try_from(first), u32::try_from(last)) {
                    (Ok(first), Ok(last)) => Self::V4(first, last),
                    _ => Self::V6(first, last),
                }
            }
            _ => return Err("its two addresses are of different versions"),
        };
        span.checked()
    }

    /// `192.0.2.0/24`, `192.0.2.1` or `192.0.2.0-192.0.2.255`.
    fn of_network(network: &str) -> Result<Self, &'static str> {
        if let Some((first, last)) = network.split_once('-') {
            return Self::new(first, last);
        }
        let Some((base, length)) = network.split_once('/') else { return Self::new(network, network) };
        let length: u32 = length.trim().parse().map_err(|_| "its network has no length of prefix")?;
        let span = match address(base)? {
            Address::V4(base) if length <= 32 => {
                let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
                Self::V4(base & !hosts, base | hosts)
            }
            Address::V6(base) if length <= 128 => {
                let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
                Self::V6(base & !hosts, base | hosts)
            }
            _ => return Err("its network has an impossible length of prefix"),
        };
        span.checked()
    }

    fn checked(self) -> Result<Self, &'static str> {
        const MAPPED_FIRST: u128 = 0xffff_0000_0000;
        const MAPPED_LAST: u128 = 0xffff_ffff_ffff;
        match self {
            Self::V4(first, last) if first <= last => Ok(self),
            // Some files of IPv6 have IPv4 in them, as mapped addresses.
            #[expect(clippy::cast_possible_truncation, reason = "the lower half is the address of IPv4")]
            Self::V6(first, last) if first >= MAPPED_FIRST && last <= MAPPED_LAST && first <= last => {
                Ok(Self::V4(first as u32, last as u32))
            }
            Self::V6(first, last) if first <= last => Ok(self),
            _ => Err("its last address comes before its first"),
        }
    }
}

enum Address {
    V4(u32),
    V6(u128),
    /// A number, of either version.
    Number(u128),
}

fn address(text: &str) -> Result<Address, &'static str> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Address::Number).map_err(|_| "its number is too large for an address");
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Address::V4(address.into()));
    }
    text.parse::<Ipv6Addr>()
        .map(|address| Address::V6(address.into()))
        .map_err(|_| "it has no address where one should be")
}

/// Where a line has its range.
#[derive(Clone, Copy)]
enum Place {
    Ends(usize, usize),
    Network(usize),
}

impl Place {
    fn span(self, columns: &Columns) -> Result<Span, &'static str> {
        const SHORT: &str = "it has too few columns";
        match self {
            Self::Ends(first, last) => {
                Span::new(columns.get(first).ok_or(SHORT)?, columns.get(last).ok_or(SHORT)?)
            }
            Self::Network(network) => Span::of_network(columns.get(network).ok_or(SHORT)?),
        }
    }
}

/// Which column is what.
struct Layout {
    separator: char,
    has_header: bool,
    place: Place,
    /// By column.
    fields: Vec<Option<(Field, u8)>>,
    /// The names to tell if nothing of the wanted kind is among them.
    names: Vec<String>,
    schema: Schema,
}

impl Layout {
    fn tell(sample: &[(u64, Option<String>)], file_name: &str, kind: Kind) -> Result<Self, Fault> {
        let Some((line, first)) = sample.iter().find_map(|(line, text)| Some((*line, text.as_deref()?)))
        else {
            return Err(Fault::Columns { line: 1, why: "no line holds anything".to_owned() });
        };
        let separator =
            ['\t', ',', ';'].into_iter().find(|separator| first.contains(*separator)).unwrap_or(',');
        let mut columns = Columns::default();
        let split = columns.split(first, separator);
        split.map_err(|why| Fault::Columns { line, why: why.to_owned() })?;
        let place = if Span::of_network(columns.get(0).unwrap_or_default()).is_err() {
            None
        } else if Span::new(columns.get(0).unwrap_or_default(), columns.get(1).unwrap_or_default()).is_ok() {
            Some(Place::Ends(0, 1))
        } else {
            Some(Place::Network(0))
        };
        match place {
            Some(place) => {
                let rows: Vec<Vec<String>> = sample
                    .iter()
                    .filter_map(|(_, text)| {
                        columns.split(text.as_deref()?, separator).ok()?;
                        place.span(&columns).ok()?;
                        Some(
                            (0..columns.len())
                                .filter_map(|index| columns.get(index))
                                .map(str::to_owned)
                                .collect(),
                        )
                    })
                    .collect();
                Self::of_rows(&rows, place, separator, file_name, line)
            }
            None => Self::of_header(&columns, separator, file_name, kind, line),
        }
    }

    fn of_header(
        columns: &Columns,
        separator: char,
        file_name: &str,
        kind: Kind,
        line: u64,
    ) -> Result<Self, Fault> {
        let names: Vec<String> = (0..columns.len())
            .filter_map(|index| columns.get(index))
            .map(|name| name.trim().to_ascii_lowercase().replace([' ', '-'], "_"))
            .collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        let first = find(&[
            "start_ip",
            "ip_start",
            "ip_range_start",
            "range_start",
            "start",
            "ip_from",
            "first_ip",
            "first",
        ]);
        let last =
            find(&["end_ip", "ip_end", "ip_range_end", "range_end", "end", "ip_to", "last_ip", "last"]);
        let network = find(&["network", "cidr", "prefix", "ip_range", "range", "ip_network", "ip"]);
        let told = || {
            names.iter().take(TOLD_FIELDS).filter_map(|name| clean::text(name)).map(String::from).collect()
        };
        let place = match (first.zip(last), network) {
            (Some((first, last)), _) => Place::Ends(first, last),
            (None, Some(network)) => Place::Network(network),
            (None, None) => {
                let told: Vec<String> = told();
                let told = told.join(", ");
                let why = format!(
                    "it has neither addresses nor a column for them (network, or start_ip and end_ip), but {told:?}"
                );
                return Err(Fault::Columns { line, why });
            }
        };
        let fields: Vec<_> = names.iter().map(|name| field::named(name)).collect();
        let has = |wanted| fields.iter().flatten().any(|(field, _)| *field == wanted);
        if find(&["geoname_id"]).is_some()
            && matches!(kind, Kind::City | Kind::Country)
            && !has(Field::City)
            && !has(Field::Country)
        {
            let why =
                "MaxMind's CSV has the names of places in another file; give its MMDB instead".to_owned();
            return Err(Fault::Columns { line, why });
        }
        let file = file_name.to_ascii_lowercase();
        let schema = if let Some(schema) = vendor::named(file_name, "", "") {
            schema
        } else if file.starts_with("ipinfo") || find(&["as_domain", "join_key"]).is_some() {
            Schema::IpInfo
        } else if file.starts_with("dbip") {
            Schema::DbIp
        } else if file.starts_with("geolite2-") || file.starts_with("geoip2-") {
            Schema::MaxMind
        } else {
            Schema::Other
        };
        let names = told();
        Ok(Self { separator, has_header: true, place, fields, names, schema })
    }

    /// Tells the columns by what stands in them.
    fn of_rows(
        rows: &[Vec<String>],
        place: Place,
        separator: char,
        file_name: &str,
        line: u64,
    ) -> Result<Self, Fault> {
        let offset = match place {
            Place::Ends(..) => 2,
            Place::Network(_) => 1,
        };
        let guess = Guess { rows, offset };
        let (schema, columns) = guess.columns(separator, file_name).ok_or_else(|| Fault::Columns {
            line,
            why: "there is no header, and no vendor's columns look like these".to_owned(),
        })?;
        let mut fields = vec![None; offset];
        fields.extend(columns.iter().map(|field| field.map(|field| (field, 0))));
        let names = columns.iter().flatten().map(|field| format!("{field:?}").to_ascii_lowercase()).collect();
        Ok(Self { separator, has_header: false, place, fields, names, schema })
    }
}

/// Rows without a header, looked at behind their range.
struct Guess<'a> {
    rows: &'a [Vec<String>],
    offset: usize,
}

impl Guess<'_> {
    fn columns(&self, separator: char, file_name: &str) -> Option<(Schema, Vec<Option<Field>>)> {
        use Field::{
            Asn, City, Country, Latitude, Longitude, Org, PostalCode, ProxyType, Region, RegionCode, Zone,
        };
        const SKIP: Option<Field> = None;
        let file = file_name.to_ascii_lowercase();
        let named = vendor::named(file_name, "", "");
        // DB-IP and ip-location-db write small tables alike; only the name of the file tells.
        let small = || {
            named.unwrap_or(if separator == '\t' {
                Schema::IpToAsn
            } else if file.starts_with("dbip") && file.contains("lite") {
                Schema::DbIp
            } else {
                Schema::IpLocationDb
            })
        };
        let width = self.width();
        let code = |column| {
            self.all(column, |text| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()))
        };
        let number = |column| self.all(column, |text| clean::asn(text).is_some());
        let decimal =
            |column| self.all(column, |text| text.parse::<f64>().is_ok_and(|number| number.abs() <= 180.0));
        let proxy = |column| {
            self.all(column, |text| {
                ["VPN", "TOR", "DCH", "PUB", "WEB", "SES", "RES", "CPN", "EPN"].contains(&text)
            })
        };
        let network = |column| self.all(column, |text| text.contains('/') && Span::of_network(text).is_ok());
        let some = |fields: &[Field]| fields.iter().map(|field| Some(*field)).collect::<Vec<_>>();
        let (schema, columns) = if width >= 3 && network(0) && number(1) {
            (Schema::Ip2Location, vec![SKIP, Some(Asn), Some(Org)])
        } else if width == 3 && number(0) && code(1) {
            (Schema::IpToAsn, some(&[Asn, Country, Org]))
        } else if width <= 2 && number(0) {
            (small(), some(&[Asn, Org]))
        } else if width == 1 && code(0) {
            (small(), some(&[Country]))
        } else if proxy(0) && width >= 3 && code(1) {
            let mut columns = vec![Some(ProxyType), Some(Country), SKIP, Some(Region), Some(City)];
            if width >= 10 {
                columns.extend([SKIP, SKIP, SKIP, Some(Asn), Some(Org)]);
            }
            (Schema::Ip2Location, columns)
        } else if code(0) && code(1) {
            let place = some(&[Region]);
            let columns = match width {
                2 => vec![],
                6 => some(&[Region, City, Latitude, Longitude]),
                12 | 16 => [place, vec![SKIP], some(&[City, PostalCode, Latitude, Longitude])].concat(),
                13 | 17 => {
                    [some(&[RegionCode]), place, vec![SKIP], some(&[City, PostalCode, Latitude, Longitude])]
                        .concat()
                }
                _ => return None,
            };
            let mut columns = [vec![SKIP, Some(Country)], columns].concat();
            if width >= 12 {
                columns.extend([SKIP, SKIP, Some(Zone)]);
            }
            if width >= 16 {
                columns.extend([SKIP, Some(Org), Some(Asn)]);
            }
            (Schema::DbIp, columns)
        } else if width == 8
            && code(0)
            && decimal(5)
            && decimal(6)
            && !self.all(7, |text| text.starts_with(['+', '-']))
        {
            let columns = vec![
                Some(Country),
                Some(Region),
                SKIP,
                Some(City),
                Some(PostalCode),
                Some(Latitude),
                Some(Longitude),
                Some(Zone),
            ];
            (Schema::IpLocationDb, columns)
        } else if code(0) && (width == 2 || width == 4 || (width >= 6 && decimal(4) && decimal(5))) {
            let mut columns = vec![Some(Country), SKIP];
            columns.extend(some(&[Region, City, Latitude, Longitude, PostalCode]));
            (Schema::Ip2Location, columns)
        } else {
            return None;
        };
        Some((schema, columns.into_iter().take(width).collect()))
    }

    /// How many columns most rows have behind their range.
    fn width(&self) -> usize {
        let widths = self.rows.iter().map(|row| row.len().saturating_sub(self.offset));
        let mut counts = [0_usize; MAXIMUM_COLUMNS + 1];
        for width in widths {
            counts[width.min(MAXIMUM_COLUMNS)] += 1;
        }
        counts.iter().enumerate().max_by_key(|(_, count)| **count).map_or(0, |(width, _)| width)
    }

    /// Whether a column has something, and all it has is like that. One row in ten may be odd.
    fn all(&self, column: usize, like: impl Fn(&str) -> bool) -> bool {
        let mut said = 0_usize;
        let mut odd = 0_usize;
        for row in self.rows {
            let text = row.get(self.offset + column).map(|text| text.trim()).unwrap_or_default();
            if matches!(text, "" | "-" | "0" | "None" | "ZZ") {
                continue;
            }
            said += 1;
            odd += usize::from(!like(text));
        }
        said > 0 && odd * 10 <= said
    }
}

/// The rows of a file as they are added.
struct Rows<'a> {
    layout: &'a Layout,
    kind: Kind,
    /// The file's size as it lies there.
    bytes: u64,
    /// The bytes of all lines so far.
    text_bytes: u64,
    columns: Columns,
    interner: Interner,
    v4: Vec<Range<u32>>,
    v6: Vec<Range<u128>>,
    lines: u64,
    bad: u64,
    first_bad: Vec<BadLine>,
}

impl<'a> Rows<'a> {
    fn new(layout: &'a Layout, kind: Kind, bytes: u64) -> Self {
        Self {
            layout,
            kind,
            bytes,
            text_bytes: 0,
            columns: Columns::default(),
            interner: Interner::default(),
            v4: Vec::new(),
            v6: Vec::new(),
            lines: 0,
            bad: 0,
            first_bad: Vec::new(),
        }
    }

    fn add(&mut self, number: u64, line: Option<&str>) -> Result<(), Fault> {
        self.lines += 1;
        self.text_bytes += line.map_or(0, str::len) as u64;
        if let Err(why) = self.row(line) {
            self.bad += 1;
            if self.first_bad.len() < TOLD_LINES {
                self.first_bad.push(BadLine { line: number, why: why.to_owned() });
            }
            // A file that is no table at all need not be read to its end.
            if self.bad >= 1000 && self.bad > self.lines / 2 {
                return self.judge();
            }
        }
        if self.lines.is_multiple_of(MEMORY_LINES) { self.weigh() } else { Ok(()) }
    }

    /// Refuses a file that was packed to swell.
    fn weigh(&self) -> Result<(), Fault> {
        let ranges = size_of_val(self.v4.as_slice()) + size_of_val(self.v6.as_slice());
        let limit =
            self.bytes.saturating_mul(MEMORY_RATIO).min(self.text_bytes.saturating_mul(MEMORY_PER_TEXT));
        let limit = limit.saturating_add(MEMORY_FLOOR).min(MEMORY_LIMIT);
        if self.interner.bytes() + ranges as u64 > limit {
            return Err(Fault::Swells { bytes: self.bytes, limit });
        }
        Ok(())
    }

    fn row(&mut self, line: Option<&str>) -> Result<(), &'static str> {
        let line = line.ok_or("it is longer than any line should be")?;
        self.columns.split(line, self.layout.separator)?;
        let span = self.layout.place.span(&self.columns)?;
        let mut gather = Gather::default();
        let mut known = 0;
        for (index, field) in self.layout.fields.iter().enumerate() {
            let Some((field, rank)) = field else { continue };
            let Some(text) = self.columns.get(index) else { continue };
            known += 1;
            gather.take(*field, *rank, Scalar::Text(text));
        }
        if known == 0 {
            return Err("it has too few columns");
        }
        if let Some(facts) = self.interner.index(gather.facts(self.kind)) {
            match span {
                Span::V4(first, last) => self.v4.push(Range { first, last, facts }),
                Span::V6(first, last) => self.v6.push(Range { first, last, facts }),
            }
        }
        Ok(())
    }

    /// Refuses a file of which more than one line in a hundred cannot be read.
    fn judge(&self) -> Result<(), Fault> {
        match self.first_bad.first() {
            Some(first) if self.bad * 100 > self.lines => Err(Fault::BadLines {
                bad: self.bad,
                lines: self.lines,
                line: first.line,
                why: first.why.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Found, Fault> {
        self.judge()?;
        if self.interner.is_empty() {
            return Err(Fault::NothingOfKind { kind: self.kind, fields: self.layout.names.clone() });
        }
        let (v4, v4_overlaps) = build::settle(self.v4);
        let (v6, v6_overlaps) = build::settle(self.v6);
        Ok(Found {
            table: self.interner.into_table(v4, v6),
            database_type: None,
            schema: self.layout.schema,
            built: None,
            networks: self.lines - self.bad,
            overlaps: v4_overlaps + v6_overlaps,
            bad_lines: self.bad,
            first_bad_lines: self.first_bad,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_split(line: &str, separator: char, expected: Result<&[&str], &str>) {
        let mut columns = Columns::default();
        let split = columns.split(line, separator);
        let found: Vec<&str> = (0..columns.len()).filter_map(|index| columns.get(index)).collect();
        assert_eq!(split.map(|()| found.as_slice()), expected);
        assert_eq!(columns.get(columns.len()), None);
    }

    #[test]
    fn lines_are_split() {
        check_split("a,b,,c", ',', Ok(&["a", "b", "", "c"]));
        check_split("", ',', Ok(&[""]));
        check_split("a,", ',', Ok(&["a", ""]));
        check_split("\"a, b\",\"say \"\"c\"\"\",\"\"", ',', Ok(&["a, b", "say \"c\"", ""]));
        check_split("a\t\"b\t", '\t', Ok(&["a", "\"b", ""]));
        check_split("a b\"c,d", ',', Ok(&["a b\"c", "d"]));
        check_split("a,\"b", ',', Err("a quote is opened and not closed"));
        check_split("\"a\"b,c", ',', Err("something stands between a quote and the next column"));
    }

    #[track_caller]
    fn check_network(text: &str, expected: Option<Span>) {
        assert_eq!(Span::of_network(text).ok(), expected, "{text}");
    }

    #[test]
    fn networks_are_ranges() {
        check_network("1.0.0.0/24", Some(Span::V4(0x0100_0000, 0x0100_00ff)));
        check_network("1.0.0.7/24", Some(Span::V4(0x0100_0000, 0x0100_00ff)));
        check_network("0.0.0.0/0", Some(Span::V4(0, u32::MAX)));
        check_network("1.0.0.1", Some(Span::V4(0x0100_0001, 0x0100_0001)));
        check_network("1.0.0.1-1.0.0.2", Some(Span::V4(0x0100_0001, 0x0100_0002)));
        check_network("::/0", Some(Span::V6(0, u128::MAX)));
        check_network("::ffff:1.0.0.0/120", Some(Span::V4(0x0100_0000, 0x0100_00ff)));
        check_network("::1/128", Some(Span::V6(1, 1)));
        for wrong in
            ["", "/", "1.0.0.0/", "1.0.0.0/33", "::/129", "1.0.0/24", "a", "1.0.0.0/-1", "1.0.0.2-1.0.0.1"]
        {
            check_network(wrong, None);
        }
    }

    #[test]
    fn numbers_are_of_the_version_that_holds_them() {
        assert_eq!(Span::new("16777216", "16777471"), Ok(Span::V4(0x0100_0000, 0x0100_00ff)));
        assert_eq!(Span::new("0", "4294967296"), Ok(Span::V6(0, 1 << 32)));
        assert!(Span::new("1", &"9".repeat(40)).is_err());
        assert!(Span::new("1.0.0.0", "::").is_err());
    }

    #[test]
    fn a_table_may_not_swell() {
        let fields = Vec::new();
        let place = Place::Ends(0, 1);
        let schema = Schema::Other;
        let layout = Layout { separator: ',', has_header: false, place, fields, names: Vec::new(), schema };
        let mut rows = Rows::new(&layout, Kind::Country, 1000);
        rows.text_bytes = 1 << 20;
        rows.v6 = vec![Range { first: 0, last: 0, facts: 0 }; 400_000];
        let fault = rows.weigh().unwrap_err();
        assert_eq!(
            fault.to_string(),
            "its lines would take more than 16789216 bytes of memory, too many for a file of 1000 bytes"
        );
        rows.bytes = 1 << 20;
        assert!(rows.weigh().is_ok());
        rows.text_bytes = 1000;
        assert!(rows.weigh().is_err());
    }
}
