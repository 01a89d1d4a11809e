//! The rules for every Rust file.

use super::files::Tree;
use super::rust_text::{RustText, words};
use super::{Problem, line_of};

/// The one file that may hold unsafe code.
const UNSAFE_FILE: &str = "crates/edge/src/rtt.rs";

/// The comment that lets a test wait: it names the event that nothing else announces.
const WAITS_FOR: &str = "// waits for:";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    tree.texts
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .flat_map(|(path, source)| check_file(path, source))
        .collect()
}

fn check_file(path: &str, source: &str) -> Vec<Problem> {
    let text = RustText::new(source);
    let mut problems = Vec::new();
    let mut add = |offset: usize, what: &str, to_do: &str| {
        problems.push(Problem::new(path, line_of(source, offset), what, to_do));
    };
    if !source.starts_with("//!") {
        add(0, "the file does not begin with `//!`", "say first what it owns and what it must never do");
    }
    for (offset, word) in words(&text.code) {
        let after = text.code.get(offset + word.len()..).unwrap_or_default();
        let is_macro = after.starts_with('!') && !after.starts_with("!=");
        match word {
            "todo" | "unimplemented" if is_macro => {
                add(offset, &format!("`{word}!` is unfinished work"), "finish it or leave it out");
            }
            "dbg" if is_macro => add(offset, "`dbg!` is a leftover", "remove it"),
            "unsafe" if path != UNSAFE_FILE => {
                let to_do = format!("find a safe wrapper; only {UNSAFE_FILE} may do without");
                add(offset, "unsafe code", &to_do);
            }
            _ => {}
        }
    }
    for (offset, word) in words(&text.code).chain(words(&text.comments)) {
        if ["TODO", "FIXME", "XXX"].contains(&word) {
            add(offset, &format!("`{word}` is unfinished work"), "do it now or open an issue");
        }
    }
    for (offset, inside) in text.attributes() {
        let mut inside = words(inside).map(|(_, word)| word);
        let first = inside.next();
        if first == Some("ignore") || (first == Some("cfg_attr") && inside.any(|word| word == "ignore")) {
            add(offset, "an ignored test", "make it pass everywhere, or remove it");
        }
    }
    for offset in sleeps_in_tests(path, &text) {
        if !is_excused(source, line_of(source, offset)) {
            add(
                offset,
                "a test sleeps",
                &format!(
                    "wait for the event itself; if nothing announces it, say what in a `{WAITS_FOR}` above"
                ),
            );
        }
    }
    problems
}

fn sleeps_in_tests(path: &str, text: &RustText) -> Vec<usize> {
    let whole_file = path.split('/').any(|part| part == "tests" || part == "tests.rs");
    let blocks = text.test_blocks();
    words(&text.code)
        .filter(|(_, word)| ["sleep", "sleep_until", "sleep_ms"].contains(word))
        .filter(|(offset, word)| {
            let before = text.code.get(..*offset).unwrap_or_default().trim_end();
            let after = text.code.get(offset + word.len()..).unwrap_or_default();
            let is_defined =
                words(before).last().is_some_and(|(at, word)| word == "fn" && at + 2 == before.len());
            after.starts_with('(') && !before.ends_with('.') && !is_defined
        })
        .map(|(offset, _)| offset)
        .filter(|offset| whole_file || blocks.iter().any(|block| block.contains(offset)))
        .collect()
}

/// Whether the comment that stands directly above a line says what the line waits for.
fn is_excused(source: &str, line: usize) -> bool {
    let above: Vec<&str> = source.lines().take(line - 1).collect();
    above
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("//"))
        .any(|line| line.starts_with(WAITS_FOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_body(path: &str, body: &str, expected: &[(usize, &str)]) {
        let found = check_file(path, &format!("//! It.\n{body}"));
        let found: Vec<(usize, &str)> =
            found.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn a_file_begins_by_saying_what_it_is() {
        assert_eq!(check_file("build.rs", "fn main() {}").len(), 1);
        assert_eq!(check_file("build.rs", "// It.\nfn main() {}").len(), 1);
        assert_eq!(check_file("build.rs", "//! It.\nfn main() {}"), []);
    }

    #[test]
    fn only_rust_files_are_rust() {
        let tree = Tree::of(&[("a.md", "todo!()"), ("a.rs", "fn main() {}")]);
        assert_eq!(check(&tree).iter().map(|problem| problem.file.as_str()).collect::<Vec<_>>(), ["a.rs"]);
    }

    #[test]
    fn unfinished_work_is_found() {
        check_body("a.rs", "fn a() { todo!() }", &[(2, "`todo!` is unfinished work")]);
        check_body("a.rs", "fn a() {\n unimplemented!() }", &[(3, "`unimplemented!` is unfinished work")]);
        check_body("a.rs", "fn a() { dbg!(1); }", &[(2, "`dbg!` is a leftover")]);
        check_body(
            "a.rs",
            "// TODO: b\n// FIXME\n/* XXX */",
            &[
                (2, "`TODO` is unfinished work"),
                (3, "`FIXME` is unfinished work"),
                (4, "`XXX` is unfinished work"),
            ],
        );
        check_body("a.rs", "fn a(todo: u8) -> bool { todo != 1 && b(\"todo!() TODO\") }", &[]);
    }

    #[test]
    fn unsafe_code_has_one_file() {
        let body = "fn a() { unsafe { b() } }";
        check_body("crates/edge/src/wire.rs", body, &[(2, "unsafe code")]);
        check_body(UNSAFE_FILE, body, &[]);
        check_body("a.rs", "#![forbid(unsafe_code)]\n// unsafe", &[]);
    }

    #[test]
    fn no_test_is_ignored() {
        check_body("a.rs", "#[test]\n#[ignore]\nfn a() {}", &[(3, "an ignored test")]);
        check_body("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}", &[(3, "an ignored test")]);
        check_body("a.rs", "#[cfg_attr(miri, ignore)]\nfn a() {}", &[(2, "an ignored test")]);
        check_body("a.rs", "#[serde(ignore)]\nfn ignore() {}", &[]);
    }

    #[test]
    fn tests_do_not_sleep() {
        let call = "fn a() { std::thread::sleep(b); }";
        check_body("crates/a/tests/b.rs", call, &[(2, "a test sleeps")]);
        check_body("crates/a/src/b.rs", call, &[]);
        check_body(
            "crates/a/src/b.rs",
            &format!("#[cfg(test)]\nmod tests {{\n{call} }}"),
            &[(4, "a test sleeps")],
        );
        check_body("a/tests/b.rs", "async fn a() { tokio::time::sleep(b).await; }", &[(2, "a test sleeps")]);
        check_body("a/tests/b.rs", "fn a() { sleep(b); }", &[(2, "a test sleeps")]);
        check_body("a/tests/b.rs", "fn sleep() {}", &[]);
    }

    #[test]
    fn a_test_that_must_wait_says_for_what() {
        check_body("a/tests/b.rs", "fn a() {\n// waits for: the kernel\nsleep(b);\n}", &[]);
        check_body(
            "a/tests/b.rs",
            "fn a() {\n// waits for: the kernel,\n// which is slow\nsleep(b);\n}",
            &[],
        );
        check_body(
            "a/tests/b.rs",
            "fn a() {\n// waits for: the kernel\n\nsleep(b);\n}",
            &[(5, "a test sleeps")],
        );
        check_body("a/tests/b.rs", "fn a() {\n// waits a little\nsleep(b);\n}", &[(4, "a test sleeps")]);
    }
}
