//! Whoever can answer plain requests at once, or has many of them decided together.

use crate::clock::Stopwatch;
use crate::reply::Reply;
use http::Version;
use ipse_model::{Client, Now};

/// What somebody asks for: `GET`, and nothing unusual.
pub struct Ask<'a> {
    /// How it was asked.
    pub version: Version,
    /// Path and query, of characters that may stand there.
    pub target: &'a [u8],
    /// The value of `Authorization`, if there is one.
    pub authorization: Option<&'a [u8]>,
    /// The caller.
    pub client: &'a Client,
    /// The moment by which everything about this request is judged.
    pub now: Now,
    /// How long ago that was, for whoever counts.
    pub stopwatch: &'a Stopwatch,
    /// Which of those it is that were [foreseen](Prompt::foresee) last, if it was.
    pub foreseen: Option<usize>,
}

/// An answer, in buffers that are used again and again.
#[derive(Debug, Default)]
pub struct Draft {
    /// The line of the status and fields, each with its line's end. What is said of every answer is added by the edge.
    pub head: Vec<u8>,
    /// The body. By HTTP/2 it is answered as long as it fits into one frame, 16 KiB.
    pub body: Vec<u8>,
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The answer is written.
    Answer,
    /// Its body is written. Whether it may be told is [decided](Prompt::decide) with the others of this turn.
    Body,
    /// Nothing, and nothing was done: the request takes the way of all others.
    Nothing,
}

/// Answers plain requests. Several of them make a turn. What was decided in it is kept in one step, before the first of their
/// answers leaves; what somebody else must decide is asked in one step, and answered when that has come.
pub trait Prompt: Send + Sync + 'static {
    /// What was decided in one turn, and what is still to be.
    type Turn: Default + Send;
    /// What somebody else has decided about a request.
    type Verdict: Send + 'static;

    /// Whether it never says [`Said::Body`].
    fn answers_at_once(&self) -> bool;

    /// Looks at what the first requests of a turn will need, and decides nothing. What is far away in memory comes for all of
    /// them in the time of one.
    fn foresee<'a>(&self, asks: impl Iterator<Item = Ask<'a>>, turn: &mut Self::Turn);

    /// Answers a request, as far as that can be done now.
    fn answer(&self, ask: &Ask<'_>, turn: &mut Self::Turn, draft: &mut Draft) -> Said;

    /// Keeps what was decided. If that fails, each who asked is told this instead of their answer.
    fn keep(&self, turn: &mut Self::Turn, now: Now) -> Result<(), Box<Reply>>;

    /// Has the requests of this turn decided of which only a body is written. Verdicts come in their order.
    fn decide(&self, turn: &mut Self::Turn) -> impl Future<Output = Vec<Self::Verdict>> + Send + 'static;

    /// Writes the head that belongs to a body, or says what is told instead.
    fn conclude(&self, verdict: Self::Verdict, head: &mut Vec<u8>) -> Result<(), Box<Reply>>;
}

/// Somebody who answers nothing at once.
#[derive(Debug)]
pub enum Nobody {}

impl Prompt for Nobody {
    type Turn = ();
    type Verdict = ();

    fn answers_at_once(&self) -> bool {
        match *self {}
    }

    fn foresee<'a>(&self, _: impl Iterator<Item = Ask<'a>>, (): &mut ()) {
        match *self {}
    }

    fn answer(&self, _: &Ask<'_>, (): &mut (), _: &mut Draft) -> Said {
        match *self {}
    }

    fn keep(&self, (): &mut (), _: Now) -> Result<(), Box<Reply>> {
        match *self {}
    }

    #[expect(unreachable_code, reason = "a future has to be named, though there is nobody to make it")]
    fn decide(&self, (): &mut ()) -> impl Future<Output = Vec<()>> + Send + 'static {
        std::future::ready(match *self {})
    }

    fn conclude(&self, (): (), _: &mut Vec<u8>) -> Result<(), Box<Reply>> {
        match *self {}
    }
}
