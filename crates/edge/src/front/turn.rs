//! One turn: what came is read and decided, what was decided is kept, and then the answers leave.

use super::guest::Sent;
use super::pending::{Questions, Reading};
use super::request::{Came, leave};
use super::session;
use super::{Beginning, Front, Resting};
use crate::fault::HttpFault;
use crate::fields::Field;
use crate::http1::Next;
use crate::http2::hpack::Block;
use crate::prompt::{Draft, Prompt, Said};
use crate::reply::{MARK, Reply, date, mark};
use crate::serve::{House, Line, Visit, tell};
use crate::wire::http1_bytes;
use http::Method;
use ipse_model::{Now, write_number};
use rustix::event::epoll::{self, EventFlags};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// As much is read of a connection at once. A head that does not fit is not plain.
const READ_BYTES: usize = 8 * 1024;
/// What is waited for on a connection whose peer is slow to read.
pub(super) const ROOM: EventFlags = EventFlags::OUT.union(EventFlags::ET);
/// As much of a connection may wait for its turn; a frame fits.
const MOST_UNREAD: usize = 32 * 1024;
/// As many requests of one connection are answered in one turn: others wait for theirs.
const REQUESTS_AT_ONCE: usize = 16;

/// What a loop keeps from turn to turn, so that it need not be made anew.
pub(super) struct Turn<P: Prompt> {
    pub(super) prompt: Arc<P>,
    pub(super) decided: P::Turn,
    /// Room for what is read of one connection.
    read: Vec<u8>,
    /// What was read of all of them, one behind the other.
    pub(super) input: Vec<u8>,
    came: Vec<Came>,
    pub(super) fields: Vec<Field>,
    /// The fields that were read last by HTTP/2, and those of all requests of the turn, one behind the other.
    pub(super) block: Block,
    pub(super) heads: Vec<u8>,
    pub(super) draft: Draft,
    /// The answers of this turn, one behind the other.
    pub(super) output: Vec<u8>,
    due: Vec<Due>,
    pub(super) questions: Questions,
    /// How many handshakes have gone on.
    pub(super) handshakes: usize,
    /// Buffers of answers that have left.
    pub(super) spare_bodies: Vec<Vec<u8>>,
    /// The second that `date` tells.
    second: i64,
    date: String,
}

/// What is due to a connection at the end of the turn.
struct Due {
    connection: usize,
    /// How many requests are answered, and where the answers stand among all.
    requests: usize,
    answers: Range<usize>,
    /// Behind them hyper takes over.
    leaves: Option<Beginning>,
    /// The peer has closed its side.
    is_last: bool,
}

/// How far the requests of a connection were answered.
#[derive(Default)]
struct Answered {
    requests: usize,
    /// When somebody who goes on from there may give the connection back.
    next: Next,
    /// Behind them one is to be decided elsewhere, whose bytes are among theirs. Its body is the last that was drafted.
    asks: bool,
}

impl<P: Prompt> Turn<P> {
    pub(super) fn new(prompt: Arc<P>) -> Self {
        Self {
            prompt,
            decided: P::Turn::default(),
            read: Vec::with_capacity(READ_BYTES),
            input: Vec::new(),
            came: Vec::new(),
            fields: Vec::new(),
            block: Block::default(),
            heads: Vec::new(),
            draft: Draft::default(),
            output: Vec::new(),
            due: Vec::new(),
            questions: Questions::default(),
            handshakes: 0,
            spare_bodies: Vec::new(),
            second: i64::MIN,
            date: String::new(),
        }
    }

    /// Answers the requests that were read, as far as they are plain and can be answered at once.
    fn answer_all<S>(&mut self, house: &House<S>, resting: &mut Resting, came: &mut Came) -> Answered {
        let mut answered = Answered::default();
        while answered.requests < REQUESTS_AT_ONCE && came.leaves.is_none() {
            if came.request.is_none() && came.at < came.bytes.len() {
                came.request = self.read(house, resting, came, house.clock.begin());
            }
            let Some(request) = &came.request else { break };
            let Self { prompt, decided, input, heads, draft, .. } = self;
            let said = catch_unwind(AssertUnwindSafe(|| {
                draft.head.clear();
                draft.body.clear();
                prompt.answer(&request.ask(input, heads), decided, draft)
            }));
            self.tell_time(request.now);
            let is_answered = !matches!(said, Ok(Said::Nothing));
            if let Some(session) = resting.http2.as_deref_mut().filter(|_| is_answered) {
                // Who waits to hear that its settings are heard does not wait for answers.
                session.say(&mut came.said, &mut self.output);
            }
            match (said, request.stream) {
                (Ok(Said::Answer), None) => self.write(&resting.guest.line.told),
                (Ok(Said::Answer), Some(stream)) if self.draft.body.len() <= session::LONGEST_BODY => {
                    self.write_http2(resting, stream);
                }
                (Ok(Said::Body), None) => {
                    came.at += request.outline.length;
                    return Answered { asks: true, ..answered };
                }
                (Ok(Said::Nothing), None) => return Answered { next: Next::Later, ..answered },
                (Ok(Said::Nothing), Some(stream)) => {
                    let head = &self.heads[request.head.clone()];
                    came.leaves = leave(resting, &self.input, came, Some((stream, Some(head))));
                    break;
                }
                // By HTTP/2 nothing else is ever said.
                (Ok(_) | Err(_), stream) => {
                    self.write_reply(house, resting, stream, (house.faults)(HttpFault::Panicked));
                }
            }
            answered.requests += 1;
            if request.stream.is_none() {
                came.at += request.outline.length;
            }
            came.request = None;
        }
        answered
    }

    /// Writes what nobody has drafted.
    pub(super) fn write_reply<S>(
        &mut self,
        house: &House<S>,
        resting: &mut Resting,
        stream: Option<session::Stream>,
        reply: Reply,
    ) {
        let reply = reply_bytes(house, &resting.guest.line, self.date.as_bytes(), reply);
        match (stream, &mut resting.http2) {
            (Some(stream), Some(session)) => session.write_whole(stream, &reply, &mut self.output),
            _ => self.output.extend_from_slice(&reply),
        }
    }

    pub(super) fn tell_time(&mut self, now: Now) {
        if self.second != now.unix_seconds() {
            (self.second, self.date) = (now.unix_seconds(), date(now).unwrap_or_default());
        }
    }

    /// Writes the answer that was drafted, with what is told to all on such a line, and what hyper and the edge add to every
    /// one.
    pub(super) fn write(&mut self, told: &[u8]) {
        let Self { draft: Draft { head, body }, output, date, .. } = self;
        for lines in [head, told, MARK] {
            output.extend_from_slice(lines);
        }
        write_length(output, body.len());
        write_date(output, date.as_bytes());
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(body);
    }

    /// The same by HTTP/2.
    fn write_http2(&mut self, resting: &mut Resting, stream: session::Stream) {
        let Self { draft: Draft { head, body }, output, date, .. } = self;
        complete(head, &resting.guest.line.told, date.as_bytes(), body.len());
        if let Some(session) = &mut resting.http2 {
            session.write(stream, head, body, output);
        }
    }
}

/// Notes a connection, unless it is noted already: in one turn each is looked at once.
fn note_once(noted: &mut Vec<usize>, connection: usize) {
    if !noted.contains(&connection) {
        noted.push(connection);
    }
}

fn write_length(head: &mut Vec<u8>, length: usize) {
    head.extend_from_slice(b"content-length: ");
    write_number(head, u32::try_from(length).unwrap_or(u32::MAX));
    head.extend_from_slice(b"\r\n");
}

fn write_date(head: &mut Vec<u8>, date: &[u8]) {
    head.extend_from_slice(b"date: ");
    head.extend_from_slice(date);
    head.extend_from_slice(b"\r\n");
}

/// Adds to the lines of a drafted head what is told to all on such a line, and what the edge adds to every answer, in the order
/// in which it does that for later versions of HTTP.
pub(crate) fn complete(head: &mut Vec<u8>, told: &[u8], date: &[u8], length: usize) {
    head.extend_from_slice(told);
    write_date(head, date);
    head.extend_from_slice(MARK);
    write_length(head, length);
}

/// What nobody has drafted, as HTTP/1 has it.
pub(crate) fn reply_bytes<S>(house: &House<S>, line: &Line, date: &[u8], mut reply: Reply) -> Vec<u8> {
    tell(house, line, line.tls.is_some(), &mut reply);
    http1_bytes(mark(reply, &Method::GET), Some(date), false)
}

impl<S, F, P> Front<S, P>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    /// Something happened on a connection.
    pub(super) fn look_at(&mut self, connection: usize, flags: EventFlags) {
        let Some(resting) = self.connections.get_mut(connection).and_then(Option::as_mut) else { return };
        if resting.guest.greeting.is_some() {
            return self.greet(connection);
        }
        if resting.waits_for_room {
            return self.send_rest(connection);
        }
        if resting.pending.is_some() {
            return self.stir(connection);
        }
        let turn = &mut self.turn;
        turn.read.clear();
        if let Some(session) = &mut resting.http2 {
            turn.read.append(&mut session.rest);
        }
        // Who asks for more than one turn has time for is not listened to before that is answered.
        let is_open = match turn.read.len() < MOST_UNREAD {
            true => resting.guest.socket.read(&mut turn.read),
            false => Ok(true),
        };
        if turn.read.is_empty() {
            if !matches!(is_open, Ok(true)) {
                self.close(connection);
            }
            return;
        }
        let is_last = !matches!(is_open, Ok(true))
            || flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        // What did not fit is still in the socket, of which nobody tells again.
        let is_full = turn.read.len() >= READ_BYTES;
        let begin = turn.input.len();
        turn.input.extend_from_slice(&turn.read);
        let (bytes, reading) = (begin..turn.input.len(), Reading { is_full, is_last });
        turn.came.push(Came::new(connection, bytes, reading));
    }

    /// Answers all that came in this turn. The first requests of all connections are read before the first of them is answered.
    fn answer_all(&mut self) {
        if self.turn.came.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.turn.came);
        if !self.house.is_closing() {
            self.foresee(&mut all);
        }
        for came in &mut all {
            let begin = self.turn.output.len();
            self.go_on(came, begin, 0);
        }
        all.clear();
        self.turn.came = all;
    }

    fn foresee(&mut self, all: &mut [Came]) {
        let (now, stopwatch) = self.house.clock.begin();
        for came in &mut *all {
            let Some(resting) = self.connections[came.connection].as_mut() else { continue };
            came.request = self.turn.read(&self.house, resting, came, (now, stopwatch.clone()));
        }
        if all.len() < 2 {
            // Nobody else would wait meanwhile.
            return;
        }
        let Turn { prompt, decided, input, heads, .. } = &mut self.turn;
        let asks = all.iter().filter_map(|came| Some(came.request.as_ref()?.ask(input, heads)));
        // Who has to be told of a panic is found out one by one.
        if catch_unwind(AssertUnwindSafe(|| prompt.foresee(asks, decided))).is_ok() {
            let requests = all.iter_mut().filter_map(|came| came.request.as_mut());
            requests.enumerate().for_each(|(number, request)| request.foreseen = Some(number));
        }
    }

    /// Answers what came on a connection, behind so many answers that stand in the output.
    pub(super) fn go_on(&mut self, came: &mut Came, begin: usize, requests: usize) {
        let Some(resting) = self.connections[came.connection].as_mut() else { return };
        let turn = &mut self.turn;
        // What was read before is answered as before.
        let is_closing = came.request.is_none() && self.house.is_closing();
        let answered = match is_closing {
            true => Answered::default(),
            false => turn.answer_all(&self.house, resting, came),
        };
        let requests = requests + answered.requests;
        let (Range { start, end }, connection, at, reading) =
            (came.bytes.clone(), came.connection, came.at, came.reading);
        let mut leaves = came.leaves.take();
        let rest = &turn.input[start + at..end];
        if answered.asks {
            let answers = begin..turn.output.len();
            let body = std::mem::replace(&mut turn.draft.body, turn.spare_bodies.pop().unwrap_or_default());
            let rest = rest.to_vec();
            resting.pending = Some(turn.questions.add(connection, body, rest, reading));
            resting.active_ms = self.house.clock.now().boot_ms;
            if requests > 0 {
                turn.due.push(Due { connection, requests, answers, leaves: None, is_last: false });
            }
            return;
        }
        let is_begun = match &mut resting.http2 {
            Some(session) => {
                if is_closing {
                    leaves = Some(Beginning::default());
                } else if session.begins(at) {
                    session.say(&mut came.said, &mut turn.output);
                }
                if answered.requests == REQUESTS_AT_ONCE && !rest.is_empty() {
                    note_once(&mut self.unread, connection);
                }
                // As long as nothing was said it may yet begin anew.
                session.rest = if session.is_begun { rest } else { &turn.input[start..end] }.to_vec();
                session.is_begun
            }
            None => leaves.as_ref().is_some_and(|leaves| leaves.passage.is_some()),
        };
        if is_begun {
            turn.output.append(&mut came.said);
        } else if leaves.is_none() && resting.http2.is_none() && (!rest.is_empty() || reading.is_full) {
            leaves = Some(Beginning { bytes: rest.to_vec(), next: answered.next, ..Beginning::default() });
        }
        let answers = begin..turn.output.len();
        turn.due.push(Due { connection, requests, answers, leaves, is_last: reading.is_last });
    }

    /// Has what was decided kept, and then sends the answers; and has the rest decided.
    pub(super) fn end_turn(&mut self) {
        self.turn.handshakes = 0;
        self.answer_all();
        self.turn.input.clear();
        self.turn.heads.clear();
        self.ask_elsewhere();
        if self.turn.due.is_empty() {
            return;
        }
        let now = self.house.clock.now();
        self.turn.tell_time(now);
        let failed = self.turn.prompt.keep(&mut self.turn.decided, now).err();
        let mut due = std::mem::take(&mut self.turn.due);
        let mut output = std::mem::take(&mut self.turn.output);
        for Due { connection, requests, answers, leaves, is_last } in due.drain(..) {
            let is_there = match &failed {
                _ if answers.is_empty() => true,
                // Nobody is told what may be forgotten.
                Some(failed) if requests > 0 => {
                    self.send_failure(connection, requests, failed, &output[answers], now)
                }
                _ => self.send(connection, &output[answers], (requests > 0).then_some(now)),
            };
            if !is_there {
                self.close(connection);
                continue;
            }
            let Some(resting) = self.connections[connection].as_mut() else { continue };
            if resting.waits_for_room {
                resting.leaves = leaves;
                continue;
            }
            match leaves {
                _ if resting.pending.is_some() => {}
                Some(beginning) => self.hand_over(connection, beginning),
                // Of those who have asked for more than one turn has time for, the rest is answered in the next.
                None if is_last && !self.unread.contains(&connection) => self.close(connection),
                None => {}
            }
        }
        output.clear();
        (self.turn.due, self.turn.output) = (due, output);
    }

    /// Sends this instead of answers.
    fn send_failure(
        &mut self,
        connection: usize,
        requests: usize,
        failed: &Reply,
        answers: &[u8],
        now: Now,
    ) -> bool {
        let Some(resting) = self.connections[connection].as_mut() else { return false };
        let date = self.turn.date.as_bytes();
        let failure = reply_bytes(&self.house, &resting.guest.line, date, failed.clone());
        if !resting.guest.is_http2() {
            return self.send(connection, &failure.repeat(requests), Some(now));
        }
        let (answers, more) = session::replace_answers(answers, &failure);
        // Whoever takes over reckons with answers that were shorter, so nobody does.
        let Some(session) = &mut resting.http2 else { return false };
        session.spend(more);
        self.send(connection, &answers, Some(now))
    }

    /// Sends as much as there is room for, and has the rest wait. Says whether the connection still stands. Who is not answered
    /// anything with it has not asked.
    fn send(&mut self, connection: usize, bytes: &[u8], answered: Option<Now>) -> bool {
        let what = self.mark_of(connection);
        let Some(resting) = self.connections[connection].as_mut() else { return false };
        if resting.guest.was_asked && !resting.is_hasty {
            // Of those who ask again, some do not wait for the answer before.
            resting.is_hasty = true;
            resting.guest.socket.hurry();
        }
        if let Some(now) = answered {
            (resting.guest.was_asked, resting.active_ms) = (true, now.boot_ms);
        }
        if !resting.unsent.is_empty() {
            // It still waits for room, with a verdict that has come meanwhile.
            resting.unsent.extend_from_slice(bytes);
            return true;
        }
        let waits_for_room = match resting.guest.socket.send(bytes) {
            Ok(Sent::All) => false,
            Ok(Sent::Some(sent)) => {
                resting.unsent = bytes[sent..].to_vec();
                true
            }
            Ok(Sent::Kept) => true,
            Err(_) => return false,
        };
        let had_to_wait = std::mem::replace(&mut resting.waits_for_room, waits_for_room);
        if resting.waits_for_room == had_to_wait {
            return true;
        }
        // Registering anew tells of what came meanwhile.
        let waits_for = if had_to_wait { resting.guest.something_comes() } else { ROOM };
        epoll::modify(&self.epoll, &resting.guest.socket, what, waits_for).is_ok()
    }

    /// There is room for more of what could not be sent, or the peer is gone.
    fn send_rest(&mut self, connection: usize) {
        let now = self.house.clock.now();
        let Some(resting) = self.connections[connection].as_mut() else { return };
        let unsent = std::mem::take(&mut resting.unsent);
        if !self.send(connection, &unsent, Some(now)) {
            return self.close(connection);
        }
        let Some(resting) = self.connections[connection].as_mut() else { return };
        if resting.waits_for_room {
            return;
        }
        if let Some(beginning) = resting.leaves.take() {
            self.hand_over(connection, beginning);
        } else if resting.http2.as_ref().is_some_and(|session| !session.rest.is_empty()) {
            note_once(&mut self.unread, connection);
        }
    }
}
