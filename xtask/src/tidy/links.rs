//! Links between our own documents: each leads to a file that is there.

use super::Problem;
use super::files::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in text.lines().enumerate() {
            for target in targets(line) {
                if !tree.holds(&resolved(folder, target)) {
                    let what = format!("the link to `{target}` leads nowhere");
                    problems.push(Problem::new(
                        path,
                        number + 1,
                        what,
                        "write that file, or correct the link",
                    ));
                }
            }
        }
    }
    problems
}

/// The files that a line of Markdown links to: `[text](target)`, but for other hosts and places on the same page.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0;
        let file = target.split_once('#').map_or(target, |(file, _)| file);
        (!file.is_empty() && !file.contains(':')).then_some(file)
    })
}

fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_link(path: &str, line: &str, expected: &[&str]) {
        let tree = Tree::of(&[(path, line), ("docs/there.md", ""), ("README.md.txt", "")]);
        let found: Vec<String> = check(&tree).into_iter().map(|problem| problem.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_found() {
        let nowhere = ["the link to `docs/gone.md` leads nowhere"];
        check_link("README.md", "see [this](docs/gone.md) and [that](docs/there.md)", &nowhere);
        check_link("docs/a.md", "[up](../docs/there.md#part), [beside](there.md)", &[]);
        check_link("docs/a.md", "[up](gone.md)", &["the link to `gone.md` leads nowhere"]);
        check_link("README.md", "[web](https://example.com/x.md), [here](#part), [mail](mailto:a@b.c)", &[]);
    }
}
