//! What a server's log says about the geo data, line by line as it is written.

use anyhow::{Result, anyhow, bail};
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What is seen of a file that is just being written or replaced.
const ON_THE_WAY: [&str; 3] = ["it was cut off", "it is no snapshot of ipse", "No such file"];

pub(crate) struct Log {
    lines: Receiver<String>,
    /// How often a file could not be used.
    pub(crate) warnings: u64,
}

impl Log {
    /// Reads in a thread of its own, so that the server never waits for its log.
    pub(crate) fn read(log: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { lines, warnings: 0 }
    }

    /// Waits for the line that says `expected`. The server may look at one file twice, and so say once more what it
    /// said `before`; it may see a file on its way; anything else is wrong.
    pub(crate) fn wait_for(&mut self, expected: &str, before: &str, patience: Duration) -> Result<()> {
        loop {
            let line = self.lines.recv_timeout(patience);
            let line = line.map_err(|_| anyhow!("the log does not say {expected:?}"))?;
            let refused = line.contains("the geo data cannot be used; the old is served on");
            self.warnings += u64::from(refused);
            if !refused && !line.contains("new geo data is served") {
                if line.contains("ERROR") {
                    bail!("the log says {line:?}");
                }
                continue;
            }
            if line.contains(expected) {
                return Ok(());
            }
            let again = !before.is_empty() && line.contains(before);
            let on_the_way = refused && ON_THE_WAY.iter().any(|part| line.contains(part));
            if !(again || on_the_way) {
                bail!("the log does not say {expected:?} but {line:?}");
            }
        }
    }
}
