//! `cargo xtask tidy`: the rules of the repository that no compiler checks.
//!
//! Every problem is found before the first is a failure, and each says where it is and what to do.

mod conformance;
mod files;
mod links;
mod manifest;
mod rust_text;
mod sources;
mod structure;

use anyhow::bail;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn report(root: &Path) -> anyhow::Result<ExitCode> {
    check(root)?;
    println!("The repository is tidy.");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let tree = files::Tree::read(root)?;
    let mut problems = structure::check(&tree);
    problems.extend(sources::check(&tree));
    problems.extend(conformance::check(&tree));
    problems.extend(files::check(&tree));
    problems.extend(links::check(&tree));
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => bail!("One problem, named above with what to do."),
        many => bail!("{many} problems, each named above with what to do."),
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    file: String,
    line: usize,
    what: String,
    to_do: String,
}

impl Problem {
    fn new(file: &str, line: usize, what: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), to_do: to_do.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.what, self.to_do)
    }
}

/// The line, counted from one, that holds the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_where_what_and_what_to_do() {
        let problem = Problem::new("a/b.rs", 3, "it is wrong", "make it right");
        assert_eq!(problem.to_string(), "a/b.rs:3: it is wrong; make it right");
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!([0, 1, 2, 3].map(|offset| line_of("a\n\nb", offset)), [1, 1, 2, 3]);
    }
}
