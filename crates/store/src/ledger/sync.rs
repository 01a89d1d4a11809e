//! One thread that makes segments durable for all who wait, many at a time.

use super::ground::DiskFile;
use super::journal::Segment;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Called by the thread when the sync that was asked for is done or has failed.
pub type Done = Box<dyn FnOnce(&io::Result<()>) + Send>;

/// Asks for syncs. Those asked for while one runs are done together by the next.
pub(super) struct Syncer<F> {
    queue: Arc<Queue<F>>,
    thread: Option<JoinHandle<()>>,
}

struct Queue<F> {
    waiting: Mutex<Waiting<F>>,
    changed: Condvar,
}

struct Waiting<F> {
    jobs: Vec<(Arc<Segment<F>>, Done)>,
    stopped: bool,
}

impl<F: DiskFile> Syncer<F> {
    pub(super) fn start() -> io::Result<Self> {
        let waiting = Mutex::new(Waiting { jobs: Vec::new(), stopped: false });
        let queue = Arc::new(Queue { waiting, changed: Condvar::new() });
        let theirs = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("journal-sync".into()).spawn(move || work(&theirs))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Syncs the segment soon, then calls `done`.
    pub(super) fn request(&self, segment: Arc<Segment<F>>, done: Done) {
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.push((segment, done));
        self.queue.changed.notify_one();
    }
}

impl<F> Drop for Syncer<F> {
    fn drop(&mut self) {
        self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work<F: DiskFile>(queue: &Queue<F>) {
    loop {
        let jobs = {
            let mut waiting = queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if !waiting.jobs.is_empty() {
                    break std::mem::take(&mut waiting.jobs);
                }
                if waiting.stopped {
                    return;
                }
                waiting = queue.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // Jobs come in the order of their segments, of which there are rarely two.
        let mut synced: Option<(Arc<Segment<F>>, io::Result<()>)> = None;
        for (segment, done) in jobs {
            let outcome = match &synced {
                Some((last, _)) if Arc::ptr_eq(last, &segment) => synced.as_ref(),
                _ => {
                    let outcome = segment.sync();
                    synced = Some((segment, outcome));
                    synced.as_ref()
                }
            };
            if let Some((_, outcome)) = outcome {
                done(outcome);
            }
        }
    }
}
