//! Rust source as far as tidy must understand it: which bytes are code, which are comment, which are text in quotes.
//!
//! It is no parser. It keeps every byte at its place, so that an offset in one view is the same offset in the others.

use std::ops::Range;

pub(super) struct RustText {
    /// The source with comments and the insides of literals blanked.
    pub(super) code: String,
    /// The source with everything but comments blanked.
    pub(super) comments: String,
}

impl RustText {
    pub(super) fn new(source: &str) -> Self {
        let mut code = String::with_capacity(source.len());
        let mut comments = String::with_capacity(source.len());
        let mut rest = source;
        let mut in_word = false;
        while let Some(first) = rest.chars().next() {
            let (kind, length) = token(rest, first, in_word);
            let (taken, after) = rest.split_at(length);
            match kind {
                Kind::Code => {
                    code.push_str(taken);
                    blank(&mut comments, taken);
                }
                Kind::Comment => {
                    blank(&mut code, taken);
                    comments.push_str(taken);
                }
                Kind::Literal => {
                    blank(&mut code, taken);
                    blank(&mut comments, taken);
                }
            }
            in_word = kind == Kind::Code && is_word(first);
            rest = after;
        }
        Self { code, comments }
    }

    /// The block in braces, braces included, of each item whose head goes on from one of these offsets. An item that
    /// ends in a semicolon has none.
    fn blocks_after(&self, heads: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
        heads
            .into_iter()
            .filter_map(|head| {
                let open = head + self.code.get(head..)?.find(['{', ';'])?;
                let close = closing(self.code.get(open..)?, '{', '}')?;
                Some(open..open + close + 1)
            })
            .collect()
    }

    /// Every attribute: where it begins, and what stands between its brackets.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.match_indices('#').filter_map(|(at, _)| {
            let after = self.code.get(at + 1..)?;
            let open = after.strip_prefix('!').unwrap_or(after);
            let inside = open.get(1..closing(open, '[', ']')?)?;
            Some((at, inside))
        })
    }

    /// Code that is compiled for tests only.
    pub(super) fn test_blocks(&self) -> Vec<Range<usize>> {
        let heads = self.attributes().filter_map(|(at, inside)| {
            let condition = inside.trim_start().strip_prefix("cfg(")?;
            let only_tests = words(condition).any(|(_, word)| word == "test")
                && !words(condition).any(|(_, word)| word == "not" || word == "any");
            only_tests.then_some(at + 1 + inside.len())
        });
        self.blocks_after(heads.collect::<Vec<_>>())
    }
}

/// The words of a text, each with its offset.
pub(super) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(is_word)?;
        let tail = rest.get(start..)?;
        let length = tail.find(|character| !is_word(character)).unwrap_or(tail.len());
        let (word, after) = tail.split_at(length);
        let offset = text.len() - tail.len();
        rest = after;
        Some((offset, word))
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// The next piece and its length in bytes. `in_word` says that a letter would continue a word, not start a literal.
fn token(rest: &str, first: char, in_word: bool) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if first == '"' {
        return (Kind::Literal, quoted(rest, '"'));
    }
    if first == '\'' {
        let mut after = rest.chars().skip(1);
        let is_character = after.next() == Some('\\') || after.next() == Some('\'');
        return if is_character { (Kind::Literal, quoted(rest, '\'')) } else { (Kind::Code, 1) };
    }
    if !in_word && let Some(length) = raw_string(rest) {
        return (Kind::Literal, length);
    }
    (Kind::Code, first.len_utf8())
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let after_prefix = ["r", "br", "cr"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix).filter(|after| after.starts_with(['#', '"'])))?;
    let body = after_prefix.trim_start_matches('#');
    let hashes = after_prefix.len() - body.len();
    let body = body.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let before = rest.len() - body.len();
    Some(body.find(&end).map_or(rest.len(), |at| before + at + end.len()))
}

/// The offset of the bracket that closes the one at the start of `text`.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        if character == open {
            depth += 1;
        } else if character == close {
            depth = depth.checked_sub(1)?;
        }
        if depth == 0 {
            return (at > 0).then_some(at);
        }
    }
    None
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn blank(view: &mut String, taken: &str) {
    for character in taken.chars() {
        match character {
            '\n' => view.push('\n'),
            _ => view.extend(std::iter::repeat_n(' ', character.len_utf8())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, code: &str) {
        let text = RustText::new(source);
        assert_eq!(text.code.split_whitespace().collect::<Vec<_>>().join(" "), code, "{source}");
        assert_eq!(text.code.len(), source.len());
        assert_eq!(text.comments.len(), source.len());
    }

    #[test]
    fn comments_are_not_code() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check("a /* ü", "a");
        assert_eq!(RustText::new("a // b\nc").comments, "  // b\n ");
    }

    #[test]
    fn the_insides_of_literals_are_not_code() {
        check(r#"a("b\"c", d)"#, "a( , d)");
        check(r##"a(r#"b"c"#, d)"##, "a( , d)");
        check(r#"a(br"b\", d)"#, "a( , d)");
        check(r#"a(b"b", 'c', '\'', '"', d)"#, "a(b , , , , d)");
        check(r#"a("// b", d)"#, "a( , d)");
    }

    #[test]
    fn lifetimes_and_raw_words_are_code() {
        check("fn a<'b>(c: &'b str) {}", "fn a<'b>(c: &'b str) {}");
        check("for \"x\" r#type", "for r#type");
    }

    #[test]
    fn words_have_their_offsets() {
        assert_eq!(words("a.bc(ü_1)").collect::<Vec<_>>(), [(0, "a"), (2, "bc"), (5, "ü_1")]);
    }

    #[test]
    fn blocks_for_tests_are_found() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { \"}\" } }\n#[cfg(not(test))]\nmod c { }";
        let text = RustText::new(source);
        let blocks: Vec<&str> = text.test_blocks().into_iter().map(|range| &source[range]).collect();
        assert_eq!(blocks, ["{ fn b() { \"}\" } }"]);
        assert_eq!(RustText::new("#[cfg(test)]\nmod tests;\nfn a() {}").test_blocks(), []);
    }
}
