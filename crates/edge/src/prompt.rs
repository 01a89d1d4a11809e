//! Whoever can answer plain requests without waiting for anything.

use crate::clock::Stopwatch;
use crate::reply::Reply;
use ipse_model::{Client, Now};

/// What somebody asks for: `GET`, and nothing unusual.
pub struct Ask<'a> {
    /// Path and query.
    pub target: &'a str,
    /// The value of `Authorization`, if there is one.
    pub authorization: Option<&'a [u8]>,
    /// The caller.
    pub client: &'a Client,
    /// The moment by which everything about this request is judged.
    pub now: Now,
    /// How long ago that was, for whoever counts.
    pub stopwatch: &'a Stopwatch,
}

/// An answer, in buffers that are used again and again.
#[derive(Debug, Default)]
pub struct Draft {
    /// The line of the status and fields, each with its line's end. What is said of every answer is added by the edge.
    pub head: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// Answers what can be answered at once. Several requests make a turn, and what was decided in it is kept in one step, before
/// the first of their answers leaves.
pub trait Prompt: Send + Sync + 'static {
    /// What was decided in one turn.
    type Turn: Default + Send;

    /// Writes the answer, or nothing: then nothing was done, and the request takes the way of all others.
    fn answer(&self, ask: &Ask<'_>, turn: &mut Self::Turn, draft: &mut Draft) -> bool;

    /// Keeps what was decided. If that fails, each who asked is told this instead of their answer.
    fn keep(&self, turn: &mut Self::Turn, now: Now) -> Result<(), Box<Reply>>;
}

/// Somebody who answers nothing at once.
#[derive(Debug)]
pub enum Nobody {}

impl Prompt for Nobody {
    type Turn = ();

    fn answer(&self, _: &Ask<'_>, (): &mut (), _: &mut Draft) -> bool {
        match *self {}
    }

    fn keep(&self, (): &mut (), _: Now) -> Result<(), Box<Reply>> {
        match *self {}
    }
}
