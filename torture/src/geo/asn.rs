//! The table of networks, read line by line in the most straightforward way.

use super::vendor::tidied;
use anyhow::{Context, Result, bail};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// All lines, by family.
#[derive(Default)]
pub(crate) struct AsnTable {
    v4: Vec<Line>,
    v6: Vec<Line>,
}

/// A line: a range of addresses with both ends, and whose it is.
pub(crate) struct Line {
    pub(crate) first: u128,
    pub(crate) last: u128,
    pub(crate) asn: u32,
    /// As the file has it.
    pub(crate) org: Box<str>,
    /// The highest end of this line and of all before it.
    reach: u128,
}

impl AsnTable {
    pub(crate) fn read(files: &[PathBuf]) -> Result<Self> {
        let mut table = Self::default();
        for path in files {
            table.add(path).with_context(|| path.display().to_string())?;
        }
        for lines in [&mut table.v4, &mut table.v6] {
            // Stable: of the very same range the last one in the file stays last.
            lines.sort_by_key(|line| line.first);
            let mut reach = 0;
            for line in lines {
                reach = line.last.max(reach);
                line.reach = reach;
            }
        }
        Ok(table)
    }

    /// The lines of a family.
    pub(crate) fn of_family(&self, is_v4: bool) -> &[Line] {
        if is_v4 { &self.v4 } else { &self.v6 }
    }

    /// The narrowest line that speaks of an address.
    pub(crate) fn find(&self, ip: IpAddr) -> Option<&Line> {
        let number = number(ip);
        let lines = self.of_family(ip.is_ipv4());
        let behind = lines.partition_point(|line| line.first <= number);
        lines[..behind]
            .iter()
            .rev()
            .take_while(|line| line.reach >= number)
            .filter(|line| line.last >= number)
            .min_by_key(|line| line.last - line.first)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        for line in std::fs::read_to_string(path)?.lines() {
            let columns = columns(line);
            let [first, last, asn, org] = columns.as_slice() else { bail!("no four columns in {line:?}") };
            let asn = asn.parse()?;
            // Nobody announces this range: the line says nothing, and a wider one that says something is heard.
            if asn == 0 {
                continue;
            }
            let (first, last): (IpAddr, IpAddr) = (first.parse()?, last.parse()?);
            let lines = if first.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
            let (first, last) = (number(first), number(last));
            lines.push(Line { first, last, asn, org: org.as_str().into(), reach: 0 });
        }
        Ok(())
    }
}

impl Line {
    /// The name that must be found, and whether it is not as its file has it.
    pub(crate) fn expected_org(&self) -> (Option<String>, bool) {
        let org = tidied(&self.org);
        let cleaned = org.as_deref().unwrap_or_default() != &*self.org;
        (org, cleaned)
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

fn columns(line: &str) -> Vec<String> {
    let (mut columns, mut column, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(std::mem::take(&mut column)),
            _ => column.push(character),
        }
    }
    columns.push(column);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_commas_and_quotes() {
        assert_eq!(columns(r#"1,"a, ""b""",c"#), ["1", "a, \"b\"", "c"]);
    }

    #[test]
    fn the_narrowest_line_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asn.csv");
        let text = "1.0.0.0,1.0.0.255,1,wide\n1.0.0.16,1.0.0.31,2,narrow\n1.0.0.40,1.0.0.41,3,later\n";
        std::fs::write(&path, text).unwrap();
        let table = AsnTable::read(&[path]).unwrap();
        let find = |ip: &str| table.find(ip.parse().unwrap()).map(|line| line.asn);
        assert_eq!([find("1.0.0.20"), find("1.0.0.50"), find("1.0.0.41")], [Some(2), Some(1), Some(3)]);
        assert_eq!([find("1.0.1.0"), find("0.255.255.255"), find("::1")], [None, None, None]);
    }
}
