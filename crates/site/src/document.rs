//! Texts that an operator may replace, written in a small and safe part of Markdown: headings, paragraphs, lists,
//! links and strong words. Everything else stays the text that it is; HTML has no meaning here at all.

use thiserror::Error;

/// A text, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The first heading of the first level.
    pub(crate) title: Option<String>,
    pub(crate) blocks: Vec<Block>,
}

/// What a text is made of, from above to below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// A heading below the title.
    Section(Vec<Span>),
    /// A heading below that.
    Subsection(Vec<Span>),
    Paragraph(Vec<Span>),
    Bullets(Vec<Vec<Span>>),
    Numbered(Vec<Vec<Span>>),
}

/// What a line is made of, from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Text(String),
    Strong(String),
    Link { text: String, href: String },
}

/// Why a text cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DocumentFault {
    /// There is nothing in it.
    #[error("is empty")]
    Empty,
    /// Whatever it is, nobody will read it.
    #[error("is longer than {} KiB", Document::MOST_BYTES / 1024)]
    TooLong,
}

impl Document {
    /// How long a text may be.
    pub const MOST_BYTES: usize = 256 * 1024;

    /// Takes a text apart. Only what is empty or far too long cannot be shown.
    pub fn read(text: &str) -> Result<Self, DocumentFault> {
        if text.len() > Self::MOST_BYTES {
            return Err(DocumentFault::TooLong);
        }
        let mut reader = Reader { document: Self { title: None, blocks: Vec::new() }, open: None };
        for line in text.trim_start_matches('\u{feff}').lines() {
            reader.line(line);
        }
        reader.close();
        let document = reader.document;
        let is_empty = document.title.is_none() && document.blocks.is_empty();
        if is_empty { Err(DocumentFault::Empty) } else { Ok(document) }
    }
}

/// The block that the next line may go on with.
struct Open {
    kind: Kind,
    /// The items of a list; of a paragraph the only one.
    items: Vec<String>,
    /// A blank line was seen: another item goes on with the list, and nothing else does.
    is_ending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Paragraph,
    Bullets,
    Numbered,
}

struct Reader {
    document: Document,
    open: Option<Open>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let text = line.trim();
        if text.is_empty() {
            match &mut self.open {
                Some(open) if open.kind != Kind::Paragraph => open.is_ending = true,
                _ => self.close(),
            }
        } else if let Some((level, heading)) = heading(text) {
            self.close();
            self.heading(level, heading);
        } else if let Some((kind, item)) = item(text) {
            match &mut self.open {
                Some(open) if open.kind == kind => {
                    open.items.push(item.to_owned());
                    open.is_ending = false;
                }
                _ => self.begin(kind, item),
            }
        } else {
            match &mut self.open {
                Some(Open { items, is_ending: false, .. }) => {
                    if let Some(last) = items.last_mut() {
                        last.push(' ');
                        last.push_str(text);
                    }
                }
                _ => self.begin(Kind::Paragraph, text),
            }
        }
    }

    fn begin(&mut self, kind: Kind, text: &str) {
        self.close();
        self.open = Some(Open { kind, items: vec![text.to_owned()], is_ending: false });
    }

    fn close(&mut self) {
        let Some(Open { kind, items, .. }) = self.open.take() else { return };
        let mut items = items.iter().map(|item| spans(item));
        self.document.blocks.extend(match kind {
            Kind::Paragraph => items.next().map(Block::Paragraph),
            Kind::Bullets => Some(Block::Bullets(items.collect())),
            Kind::Numbered => Some(Block::Numbered(items.collect())),
        });
    }

    /// A page has one title, and no level is skipped on the way down: whoever listens to a page walks by its headings.
    fn heading(&mut self, level: usize, text: &str) {
        let Document { title, blocks } = &mut self.document;
        if level == 1 && title.is_none() {
            *title = Some(spans(text).into_iter().map(Span::into_text).collect());
            return;
        }
        let has_section = blocks.iter().any(|block| matches!(block, Block::Section(_)));
        blocks.push(if level <= 2 || !has_section {
            Block::Section(spans(text))
        } else {
            Block::Subsection(spans(text))
        });
    }
}

impl Span {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Strong(text) | Self::Link { text, .. } => text,
        }
    }
}

/// `## Heading`: its level and its words.
fn heading(line: &str) -> Option<(usize, &str)> {
    let words = line.trim_start_matches('#');
    let level = line.len() - words.len();
    let is_heading = (1..=6).contains(&level) && words.starts_with([' ', '\t']);
    let words = words.trim_end_matches('#').trim();
    (is_heading && !words.is_empty()).then_some((level, words))
}

/// `- Item`, `* Item` or `1. Item`.
fn item(line: &str) -> Option<(Kind, &str)> {
    let (mark, words) = line.split_once([' ', '\t'])?;
    let number = mark.strip_suffix(['.', ')']);
    let is_number = number.is_some_and(|number| {
        (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let kind = match mark {
        "-" | "*" | "+" => Kind::Bullets,
        _ if is_number => Kind::Numbered,
        _ => return None,
    };
    Some((kind, words.trim()))
}

/// Strong words, links, and what stands between them.
fn spans(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = match first {
            '*' => strong(rest),
            '[' => link(rest),
            '<' => bare_link(rest),
            _ => None,
        };
        if let Some((span, after)) = found {
            if !plain.is_empty() {
                spans.push(Span::Text(std::mem::take(&mut plain)));
            }
            spans.push(span);
            rest = after;
            continue;
        }
        // A backslash makes a mark a letter.
        let escaped = rest.strip_prefix('\\').and_then(|after| after.chars().next());
        let letter = escaped.filter(char::is_ascii_punctuation);
        let taken = letter.map_or(first.len_utf8(), |letter| 1 + letter.len_utf8());
        plain.push(letter.unwrap_or(first));
        rest = &rest[taken..];
    }
    if !plain.is_empty() {
        spans.push(Span::Text(plain));
    }
    spans
}

/// `**strong**`
fn strong(text: &str) -> Option<(Span, &str)> {
    let (words, after) = text.strip_prefix("**")?.split_once("**")?;
    (!words.is_empty() && words.trim() == words).then(|| (Span::Strong(words.to_owned()), after))
}

/// `[text](address)`
fn link(text: &str) -> Option<(Span, &str)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (address, after) = rest.split_once(')')?;
    let is_link = !words.is_empty() && !words.contains(['[', ']']) && is_safe(address);
    is_link.then(|| (Span::Link { text: words.to_owned(), href: address.to_owned() }, after))
}

/// `<https://example.com>` or `<you@example.com>`
fn bare_link(text: &str) -> Option<(Span, &str)> {
    let (address, after) = text.strip_prefix('<')?.split_once('>')?;
    let is_email = !address.contains([':', '/']) && address.contains('@');
    let href = if is_email { format!("mailto:{address}") } else { address.to_owned() };
    let words = address.strip_prefix("mailto:").unwrap_or(address).to_owned();
    (!address.starts_with('/') && is_safe(&href)).then_some((Span::Link { text: words, href }, after))
}

/// Addresses that may be linked: of the web, of mail, and pages of this server. No scheme that runs something.
fn is_safe(address: &str) -> bool {
    let goes_out = ["https://", "http://", "mailto:"].iter().any(|scheme| {
        address.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    });
    // Two slashes, or a backslash that browsers take for one, would lead to another host.
    let stays_here = address.starts_with('/') && !address[1..].starts_with(['/', '\\']);
    let is_plain = !address.contains(|c: char| c.is_whitespace() || c.is_control() || "\"<>\\".contains(c));
    (goes_out || stays_here) && is_plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Span {
        Span::Text(text.to_owned())
    }

    fn linked(text: &str, href: &str) -> Span {
        Span::Link { text: text.to_owned(), href: href.to_owned() }
    }

    #[track_caller]
    fn blocks(source: &str, expected: &[Block]) {
        assert_eq!(Document::read(source).unwrap().blocks, expected, "{source:?}");
    }

    #[test]
    fn lines_become_blocks() {
        let paragraph = |words: &str| Block::Paragraph(vec![text(words)]);
        let items = |words: &[&str]| words.iter().map(|words| vec![text(words)]).collect::<Vec<_>>();
        blocks("one\ntwo\n\nthree", &[paragraph("one two"), paragraph("three")]);
        blocks("\u{feff}one\r\ntwo\r\n\r\n\r\nthree\r\n", &[paragraph("one two"), paragraph("three")]);
        blocks("- a\n- b\n  goes on\n\n* c", &[Block::Bullets(items(&["a", "b goes on", "c"]))]);
        blocks("- a\n\nb", &[Block::Bullets(items(&["a"])), paragraph("b")]);
        blocks("1. a\n2) b\n- c", &[Block::Numbered(items(&["a", "b"])), Block::Bullets(items(&["c"]))]);
        blocks("before\n- a", &[paragraph("before"), Block::Bullets(items(&["a"]))]);
        blocks("2026. was a year", &[Block::Numbered(items(&["was a year"]))]);
        blocks("20260. was none", &[paragraph("20260. was none")]);
        blocks("-5 degrees\n#7\n#", &[paragraph("-5 degrees #7 #")]);
    }

    #[test]
    fn there_is_one_title_and_no_level_is_skipped() {
        let document = Document::read("# A **title**\n### a\n#### b\n# c\n## d ##\n##### e").unwrap();
        assert_eq!(document.title.as_deref(), Some("A title"));
        let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|words| vec![text(words)]);
        let expected = [
            Block::Section(a),
            Block::Subsection(b),
            Block::Section(c),
            Block::Section(d),
            Block::Subsection(e),
        ];
        assert_eq!(document.blocks, expected);
        assert_eq!(Document::read("no title").unwrap().title, None);
        assert_eq!(Document::read("# only a title").unwrap().blocks, []);
    }

    #[test]
    fn words_become_strong_and_links() {
        #[track_caller]
        fn check(source: &str, expected: &[Span]) {
            assert_eq!(spans(source), expected, "{source:?}");
        }
        check("a **b** c", &[text("a "), Span::Strong("b".into()), text(" c")]);
        check("5 * 4 ** 3 **** ** x **", &[text("5 * 4 ** 3 **** ** x **")]);
        check("[a](https://a.example), b", &[linked("a", "https://a.example"), text(", b")]);
        check("[a](/docs#privacy)", &[linked("a", "/docs#privacy")]);
        check("[a](mailto:a@a.example)", &[linked("a", "mailto:a@a.example")]);
        check("<https://a.example/x>", &[linked("https://a.example/x", "https://a.example/x")]);
        check("<a@a.example>", &[linked("a@a.example", "mailto:a@a.example")]);
        check("\\[a](https://a.example) \\** 5\\é", &[text("[a](https://a.example) ** 5\\é")]);
        check("[a] (b) [c", &[text("[a] (b) [c")]);
    }

    #[test]
    fn what_could_run_something_stays_text() {
        for source in [
            "<script>alert(1)</script>",
            "<a href=\"https://a.example\">",
            "[a](javascript:alert`1`)",
            "[a](JavaScript:alert`1`)",
            "[a](data:text/html,x)",
            "[a](//evil.example)",
            "[a](/\\evil.example)",
            "[a](https://)",
            "[a](https:///evil.example)",
            "[a](mailto:)",
            "[a](https://a.example/\" onclick=\"x)",
            "[a]( https://a.example)",
            "<javascript:a@b>",
            "</docs>",
            "![a](x)",
        ] {
            assert_eq!(spans(source), [text(source)], "{source}");
        }
    }

    #[test]
    fn what_is_empty_or_endless_is_no_text() {
        assert_eq!(Document::read(" \n\n\t\n"), Err(DocumentFault::Empty));
        assert_eq!(Document::read(&"a ".repeat(Document::MOST_BYTES)), Err(DocumentFault::TooLong));
        assert_eq!(DocumentFault::TooLong.to_string(), "is longer than 256 KiB");
    }
}
