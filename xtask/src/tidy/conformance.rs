//! `docs/conformance.md`: every rule of the specification names the tests that hold it, and they exist.

use super::Problem;
use super::files::Tree;
use super::rust_text::{RustText, words};
use std::collections::BTreeMap;

const DOCUMENT: &str = "docs/conformance.md";

const FORM: &str = "write `| ID | rule | `path/to/file.rs` `test_function` |`";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(document) = tree.texts.get(DOCUMENT) else {
        return vec![Problem::new(
            DOCUMENT,
            1,
            "the file is missing",
            "restore it: it ties every rule to its tests",
        )];
    };
    let rows = rows(document);
    let mut problems = Vec::new();
    if rows.is_empty() {
        problems.push(Problem::new(DOCUMENT, 1, "there is no rule in any table", FORM));
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, cells) in &rows {
        let mut add = |what: String, to_do: &str| problems.push(Problem::new(DOCUMENT, *line, what, to_do));
        let [id, rule, tests] = cells.as_slice() else {
            add(format!("the row has {} cells instead of three", cells.len()), FORM);
            continue;
        };
        if id.is_empty() || rule.is_empty() {
            add("the row has no ID or no rule".to_owned(), FORM);
        } else if let Some(first) = seen.insert(id, *line) {
            add(format!("the ID {id} is already that of line {first}"), "give this row one of its own");
        }
        match named_tests(tests) {
            Err(what) => add(format!("{id}: {what}"), FORM),
            Ok(named) => {
                for (file, test) in named {
                    match tree.texts.get(file) {
                        None => {
                            add(format!("{id}: {file} does not exist"), "name the file that holds the test");
                        }
                        Some(source) if !is_test(&RustText::new(source), test) => add(
                            format!("{id}: {file} has no test `{test}`"),
                            "name a function with #[test] or #[tokio::test], or write it",
                        ),
                        Some(_) => {}
                    }
                }
            }
        }
    }
    problems
}

/// The rows of all tables without their heads: each with its line and its cells.
fn rows(document: &str) -> Vec<(usize, Vec<&str>)> {
    let mut rows = Vec::new();
    let mut in_body = false;
    for (number, line) in document.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            in_body = false;
            continue;
        };
        if row.chars().all(|character| "|-: ".contains(character)) {
            in_body = true;
        } else if in_body {
            rows.push((number + 1, cells(row.strip_suffix('|').unwrap_or(row))));
        }
    }
    rows
}

/// A bar after a backslash is text, as Markdown has it.
fn cells(row: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in
        row.match_indices('|').filter(|(at, _)| !row.get(..*at).is_some_and(|row| row.ends_with('\\')))
    {
        cells.push(row.get(start..at).unwrap_or_default().trim());
        start = at + 1;
    }
    cells.push(row.get(start..).unwrap_or_default().trim());
    cells
}

/// Pairs of a file and a test. A file that is named once may be followed by several tests.
fn named_tests(cell: &str) -> Result<Vec<(&str, &str)>, &'static str> {
    // Between backticks is every second part.
    let parts: Vec<&str> = cell.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return Err("a backtick is not closed");
    }
    let mut tests = Vec::new();
    let mut file = None;
    let mut file_has_test = true;
    for name in parts.into_iter().skip(1).step_by(2) {
        if name.ends_with(".rs") {
            if !file_has_test {
                return Err("a file is named without a test");
            }
            (file, file_has_test) = (Some(name), false);
        } else {
            tests.push((file.ok_or("a test is named before its file")?, name));
            file_has_test = true;
        }
    }
    match (tests.is_empty(), file_has_test) {
        (false, true) => Ok(tests),
        (true, true) => Err("no test holds it"),
        (_, false) => Err("a file is named without a test"),
    }
}

/// Whether the function exists and cargo runs it. A property inside `proptest!` carries `#[test]` too: the macro only
/// passes it on, and without it nothing runs. What stands in a list of [`MAKES_TESTS`] is made a test by it.
fn is_test(text: &RustText, name: &str) -> bool {
    let code = text.code.as_str();
    let listed = code.split(MAKES_TESTS).skip(1).filter_map(|rest| rest.split(')').next());
    if listed.flat_map(words).any(|(_, word)| word == name) {
        return true;
    }
    words(code).any(|(offset, word)| {
        let before = code.get(..offset).unwrap_or_default();
        let Some(head) = before.trim_end().strip_suffix("fn") else { return false };
        // The attributes of a function stand behind the end of whatever comes before it.
        let head = head.rsplit(['{', '}', ';']).next().unwrap_or_default();
        let attributed =
            ["#[test]", "#[tokio::test]", "#[tokio::test("].iter().any(|attribute| head.contains(attribute));
        word == name && before.ends_with(char::is_whitespace) && attributed
    })
}

/// A macro that makes a test of each function in its list, over each engine of counters.
const MAKES_TESTS: &str = "over_every_engine!(";

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
//! It.
#[test]
fn one() {}
#[tokio::test(flavor = \"multi_thread\")]
#[cfg(target_os = \"linux\")]
async fn two() {}
fn helper() {}
proptest! {
    #![proptest_config(few())]
    #[test]
    fn three(a in 0..1) {}
    fn never_run(a in 0..1) {}
}
// #[test]
// fn four() {}
over_every_engine!(five, six);
async fn five() {}
";

    #[track_caller]
    fn check_rows(rows: &str, expected: &[&str]) {
        let document = format!("# Rules\n\n| ID | Rule | Tests |\n|---|---|---|\n{rows}\n");
        let found = check(&Tree::of(&[(DOCUMENT, &document), ("a/b.rs", CODE)]));
        let whats: Vec<&str> = found.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(whats, expected, "{rows}");
    }

    #[test]
    fn rules_with_real_tests_pass() {
        check_rows("| A1 | It is so. | `a/b.rs` `one` |", &[]);
        check_rows("| A1 | It is so. | `a/b.rs` `one`, `two` |", &[]);
        check_rows("| A1 | It is so. | `a/b.rs` `five` |", &[]);
        check_rows(
            "| A1 | `a \\| b` | `a/b.rs` `one`, `a/b.rs` `three` |\n| A2 | So. | `a/b.rs` `two` |",
            &[],
        );
    }

    #[test]
    fn a_rule_without_a_test_is_a_problem() {
        check_rows("| A1 | It is so. | |", &["A1: no test holds it"]);
        check_rows("| A1 | It is so. | by hand |", &["A1: no test holds it"]);
        check_rows("| A1 | It is so. | `a/b.rs` |", &["A1: a file is named without a test"]);
        check_rows("| A1 | It is so. | `a/b.rs` `a/b.rs` `one` |", &["A1: a file is named without a test"]);
        check_rows("| A1 | It is so. | `one` |", &["A1: a test is named before its file"]);
        check_rows("| A1 | It is so. | `a/b.rs` `one |", &["A1: a backtick is not closed"]);
    }

    #[test]
    fn a_test_that_does_not_run_is_a_problem() {
        check_rows("| A1 | It is so. | `a/c.rs` `one` |", &["A1: a/c.rs does not exist"]);
        check_rows("| A1 | It is so. | `a/b.rs` `on` |", &["A1: a/b.rs has no test `on`"]);
        check_rows("| A1 | It is so. | `a/b.rs` `helper` |", &["A1: a/b.rs has no test `helper`"]);
        check_rows("| A1 | It is so. | `a/b.rs` `never_run` |", &["A1: a/b.rs has no test `never_run`"]);
        check_rows("| A1 | It is so. | `a/b.rs` `four` |", &["A1: a/b.rs has no test `four`"]);
    }

    #[test]
    fn ids_are_unique() {
        let row = "| A1 | It is so. | `a/b.rs` `one` |";
        check_rows(&format!("{row}\n{row}"), &["the ID A1 is already that of line 5"]);
    }

    #[test]
    fn rows_have_their_form() {
        check_rows("| A1 | `a/b.rs` `one` |", &["the row has 2 cells instead of three"]);
        check_rows("| | It is so. | `a/b.rs` `one` |", &["the row has no ID or no rule"]);
        check_rows("| A1 | | `a/b.rs` `one` |", &["the row has no ID or no rule"]);
        check_rows("", &["there is no rule in any table"]);
    }

    #[test]
    fn the_document_must_be_there() {
        assert_eq!(
            check(&Tree::of(&[])).first().map(|problem| problem.what.as_str()),
            Some("the file is missing")
        );
    }
}
