//! A whole program in each language, ready to be copied. The tests take them from the page and run them.

/// A program, and what is said about it.
pub(crate) struct Example {
    /// What its tab is called in the page.
    pub(crate) id: &'static str,
    pub(crate) language: &'static str,
    /// What it needs, and what is worth knowing. Between backticks stands code.
    pub(crate) note: &'static str,
    text: &'static str,
}

impl Example {
    /// The program as it calls the server at `base_url`. `YOUR_KEY` stays for the reader to replace.
    pub(crate) fn program(&self, base_url: &str) -> String {
        self.text.trim_end().replace("BASE_URL", base_url)
    }
}

/// From the shortest on.
pub(crate) const EXAMPLES: [Example; 7] = [
    Example {
        id: "curl",
        language: "curl",
        note: "`-i` shows the status and the rate headers above the answer.",
        text: include_str!("../examples/example.sh"),
    },
    Example {
        id: "browser",
        language: "Browser",
        note: "A whole page, which may stand on any origin. Everybody who opens it can read the key: make one of its own \
               for it, of a scope as narrow as it can be.",
        text: include_str!("../examples/example.html"),
    },
    Example {
        id: "node",
        language: "Node.js",
        note: "Node.js 18 or newer, nothing to install. Save it as `example.mjs`.",
        text: include_str!("../examples/example.mjs"),
    },
    Example {
        id: "python",
        language: "Python",
        note: "Python 3.6 or newer, nothing to install.",
        text: include_str!("../examples/example.py"),
    },
    Example {
        id: "go",
        language: "Go",
        note: "The standard library alone.",
        text: include_str!("../examples/example.go"),
    },
    Example {
        id: "rust",
        language: "Rust",
        note: "The standard library has no HTTP client, so it uses `ureq` and `serde_json`: \
               `cargo add ureq --features json` and `cargo add serde_json`.",
        text: include_str!("../examples/example.rs"),
    },
    Example {
        id: "php",
        language: "PHP",
        note: "PHP 8 or newer, nothing to install.",
        text: include_str!("../examples/example.php"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_names_the_server_and_the_key_once() {
        for example in EXAMPLES {
            let program = example.program("https://ip.example");
            let count = |part: &str| program.matches(part).count();
            assert_eq!(
                (count("https://ip.example/api/v1/ip"), count("YOUR_KEY"), count("BASE_URL")),
                (1, 1, 0),
                "{}",
                example.id
            );
        }
    }
}
