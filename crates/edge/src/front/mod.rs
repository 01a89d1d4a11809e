//! The front: plain lookups, answered by a loop of our own on each core.
//!
//! One turn of the loop (`turn.rs`) reads what came on some connections, has each request decided, has all that was decided
//! kept in one step, and only then sends the answers. So a turn costs one write to the journal, and a request two calls of the
//! kernel. What somebody else must decide (`pending.rs`) is asked for in one step too, and its connections wait while the loop goes
//! on. A connection rests here without any buffer of ours. Those at doors of TCP come in here, and hands are shaken here too
//! (`greeting.rs`); those that were introduced by a proxy are brought by `tcp.rs`.
//!
//! What is not plain, or cannot be answered at once, goes to hyper with its connection and every byte that was read of it
//! (`tcp::take_over`), and the connection comes back when it rests. When the doors are closed all connections go there: how
//! callers are let go in peace is known in one place.
//!
//! HTTP/2 is spoken here as far as it is as plain (`session.rs`). A connection that the library had to take over stays there.

mod greeting;
mod guest;
mod head;
mod mailbox;
mod pending;
mod request;
mod session;
#[cfg(test)]
pub(crate) mod tests;
mod turn;

pub(crate) use guest::{Beginning, Guest, Socket, Stay};
pub(crate) use head::Head;
pub(crate) use mailbox::Mailbox;
pub(crate) use request::client;
pub(crate) use session::{answer_fields, end_of_head};
pub(crate) use turn::{complete, reply_bytes};

use crate::crowd::Crowd;
use crate::idle::LIFETIME;
use crate::listen::BACKLOG;
use crate::prompt::Prompt;
use crate::reply::Reply;
use crate::serve::{HEADER_TIMEOUT, House, IDLE_TIMEOUT, Line, Stage, Visit};
use crate::tcp::{is_of_the_connection, take_over};
use crate::tls::{HANDSHAKE_TIMEOUT, Tls};
use crate::traffic::Way;
use crate::wire::WRITE_TIMEOUT;
use ipse_model::Address;
use pending::{HELD_NS, Pending, Verdicts};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use session::Session;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use turn::Turn;

/// As many connections are looked at in one turn: the first that is read waits for the last.
const EVENTS: usize = 64;
/// How often it is looked who has stayed too long, in milliseconds.
const SWEEP_EVERY_MS: u64 = 1_000;
/// What events of the mailbox are marked with; those of doors follow, and then those of connections.
const MAIL: u64 = 0;
const FIRST_DOOR: u64 = 1;
/// A door that callers come in at.
pub(crate) struct Entrance {
    pub(crate) listener: TcpListener,
    /// How hands are shaken there, if they are.
    pub(crate) tls: Option<Arc<Tls>>,
}

/// A connection that rests here.
struct Resting {
    guest: Guest,
    /// What is known of it if HTTP/2 is spoken here.
    http2: Option<Box<Session>>,
    /// When something was last asked or sent.
    active_ms: u64,
    /// Whether its answers leave at once even if the one before is not acknowledged.
    is_hasty: bool,
    waits_for_room: bool,
    /// What there was no room for, and what comes behind it.
    unsent: Vec<u8>,
    leaves: Option<Beginning>,
    /// The request whose verdict has not come.
    pending: Option<Pending>,
}

/// One loop.
struct Front<S, P: Prompt> {
    epoll: OwnedFd,
    doors: Arc<Vec<Entrance>>,
    /// Whether callers are let in at a door now.
    is_open: Vec<bool>,
    mailbox: Arc<Mailbox>,
    house: Arc<House<S>>,
    crowd: Arc<Crowd>,
    stages: watch::Receiver<Stage>,
    runtime: Handle,
    connections: Vec<Option<Resting>>,
    free: Vec<usize>,
    /// Places that were left since it was last looked what happened: nobody takes them who could be told of what happened before.
    left: Vec<usize>,
    /// Connections of which more has come than one turn has time for.
    unread: Vec<usize>,
    turn: Turn<P>,
    verdicts: Arc<Verdicts<P::Verdict>>,
    swept_ms: u64,
}

/// Starts a loop for each mailbox of the house, all at the same doors. What is returned comes when they have ended.
pub(crate) fn start<S, F, P>(
    doors: Vec<Entrance>,
    house: &Arc<House<S>>,
    crowd: &Arc<Crowd>,
    prompt: &Arc<P>,
    stages: &watch::Receiver<Stage>,
) -> io::Result<Vec<oneshot::Receiver<()>>>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    let doors = Arc::new(doors);
    let mut ends = Vec::new();
    for mailbox in &house.mailboxes {
        let mut front = Front {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            doors: Arc::clone(&doors),
            is_open: vec![false; doors.len()],
            mailbox: Arc::clone(mailbox),
            house: Arc::clone(house),
            crowd: Arc::clone(crowd),
            stages: stages.clone(),
            runtime: Handle::current(),
            connections: Vec::new(),
            free: Vec::new(),
            left: Vec::new(),
            unread: Vec::new(),
            turn: Turn::new(Arc::clone(prompt)),
            verdicts: Arc::default(),
            swept_ms: 0,
        };
        epoll::add(&front.epoll, &**mailbox, EventData::new_u64(MAIL), EventFlags::IN)?;
        for door in 0..doors.len() {
            front.set_open(door, true)?;
        }
        let (ending, end) = oneshot::channel();
        std::thread::Builder::new().name("front".into()).spawn(move || {
            front.run();
            let _ = ending.send(());
        })?;
        ends.push(end);
    }
    Ok(ends)
}

impl<S, F, P> Front<S, P>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let first_connection = FIRST_DOOR + self.doors.len() as u64;
        while !self.house.is_closing() {
            events.clear();
            self.free.append(&mut self.left);
            let timeout = match (self.unread.is_empty(), self.turn.questions.is_empty()) {
                (false, _) => Timespec { tv_sec: 0, tv_nsec: 0 },
                (true, false) => Timespec { tv_sec: 0, tv_nsec: HELD_NS },
                (true, true) => Timespec { tv_sec: 1, tv_nsec: 0 },
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(error = %error, "a loop cannot wait for connections any more");
                    break;
                }
            }
            if events.is_empty() {
                self.turn.questions.wait_for_nobody();
            }
            if !self.unread.is_empty() {
                for connection in std::mem::take(&mut self.unread) {
                    self.look_at(connection, EventFlags::empty());
                }
                // Those that are looked at next may be the same.
                self.end_turn();
            }
            for event in &events {
                let (flags, what) = (event.flags, event.data.u64());
                let place = |first: u64| usize::try_from(what - first).unwrap_or(usize::MAX);
                match what {
                    MAIL => self.receive(),
                    door if door < first_connection => {
                        self.accept(place(FIRST_DOOR));
                    }
                    _ => self.look_at(place(first_connection), flags),
                }
            }
            self.end_turn();
            self.sweep();
        }
        self.leave();
    }

    /// Lets callers in at a door, or leaves them in the kernel's queue.
    fn set_open(&mut self, door: usize, is_open: bool) -> io::Result<()> {
        if std::mem::replace(&mut self.is_open[door], is_open) == is_open {
            return Ok(());
        }
        let listener = &self.doors[door].listener;
        if is_open {
            // Of several loops one is woken for a caller.
            let what = EventData::new_u64(FIRST_DOOR + door as u64);
            epoll::add(&self.epoll, listener, what, EventFlags::IN | EventFlags::EXCLUSIVE)?;
        } else {
            epoll::delete(&self.epoll, listener)?;
        }
        Ok(())
    }

    fn open_all(&mut self) {
        for door in 0..self.doors.len() {
            if let Err(error) = self.set_open(door, true) {
                tracing::warn!(error = %error, "cannot accept connections, trying again");
            }
        }
    }

    /// Lets one caller in, if one waits: for the next one another loop may have more time.
    fn accept(&mut self, door: usize) -> bool {
        let Entrance { listener, tls } = &self.doors[door];
        let accepted = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
        let way = if tls.is_some() { Way::Tls } else { Way::Clear };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Err(error) if is_of_the_connection(&error.into()) => return true,
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept connections, trying again");
                // With the next sweep.
                let _ = self.set_open(door, false);
                return false;
            }
        };
        let Some(address) = address.and_then(|address| SocketAddr::try_from(address).ok()) else {
            return true;
        };
        let peer = Address::new(address.ip());
        let Ok(seat) = self.house.seat(&self.crowd, peer) else {
            self.house.traffic.over_limit(way);
            return true;
        };
        let stay = Stay {
            place: self.crowd.free_place(),
            _seat: seat,
            _introduced: None,
            _presence: self.house.traffic.enter(way),
        };
        let came_ms = self.house.clock.now().boot_ms;
        let line = match tls {
            Some(_) => self.house.line_before_tls(peer, listener.local_addr().map_or(0, |own| own.port())),
            None => Line::from(peer),
        };
        let greeting = tls.clone();
        let mut guest =
            Guest { greeting, ..Guest::new(Socket::Tcp(stream.into()), Arc::new(line), stay, came_ms) };
        if guest.stay.place.is_some() {
            self.seat(guest);
            return true;
        }
        // Beyond the limit one connection for each loop waits here, and the others in the kernel's queue.
        let _ = self.set_open(door, false);
        let (crowd, mailbox) = (Arc::clone(&self.crowd), Arc::clone(&self.mailbox));
        let (house, stages) = (Arc::clone(&self.house), self.stages.clone());
        self.runtime.spawn(async move {
            guest.stay.place = crowd.place().await;
            if let Err(guest) = mailbox.put(guest) {
                take_over(guest, Beginning::default(), house, stages).await;
            }
        });
        true
    }

    /// Takes those who come from elsewhere, and what was decided there. Who waited for a place is among them, so the doors may be
    /// open again.
    fn receive(&mut self) {
        let guests = self.mailbox.take();
        self.conclude_all();
        // Their connections may be among those that are looked at next.
        self.end_turn();
        if !guests.is_empty() {
            guests.into_iter().for_each(|guest| self.seat(guest));
            self.open_all();
        }
    }

    /// Keeps a connection here until something comes.
    fn seat(&mut self, guest: Guest) {
        let connection = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let (what, comes) = (self.mark_of(connection), guest.something_comes());
        // Who cannot be waited for is let go.
        if epoll::add(&self.epoll, &guest.socket, what, comes).is_err() {
            return self.free.push(connection);
        }
        let may_have_more = matches!(guest.socket, Socket::Tls(_));
        let active_ms = self.house.clock.now().boot_ms;
        self.connections[connection] = Some(Resting {
            // Hyper wants it so.
            is_hasty: guest.was_asked,
            guest,
            http2: None,
            active_ms,
            waits_for_room: false,
            unsent: Vec::new(),
            leaves: None,
            pending: None,
        });
        if may_have_more {
            // What came with the end of a handshake is in the session, and the socket does not tell of it.
            self.look_at(connection, EventFlags::empty());
        }
    }

    fn mark_of(&self, connection: usize) -> EventData {
        EventData::new_u64(FIRST_DOOR + (self.doors.len() + connection) as u64)
    }

    /// Takes a connection from its place here.
    fn unseat(&mut self, connection: usize) -> Option<Resting> {
        let resting = self.connections.get_mut(connection)?.take()?;
        self.left.push(connection);
        Some(resting)
    }

    /// Ends a connection.
    fn close(&mut self, connection: usize) {
        if let Some(mut resting) = self.unseat(connection)
            && resting.guest.greeting.is_none()
        {
            let last_word = resting.http2.as_ref().and_then(|session| session.last_word());
            if let Some(last_word) = last_word.filter(|_| !resting.waits_for_room) {
                let _ = resting.guest.socket.send(&last_word);
            }
            resting.guest.socket.farewell();
        }
    }

    /// Gives a connection to hyper.
    fn hand_over(&mut self, connection: usize, mut beginning: Beginning) {
        let Some(Resting { guest, http2, unsent, leaves, .. }) = self.unseat(connection) else { return };
        if let Some(session) = http2 {
            beginning = session.leave_at_rest();
        }
        if let Some(leaves) = leaves {
            beginning = leaves;
        }
        beginning.unsent = unsent;
        if epoll::delete(&self.epoll, &guest.socket).is_ok() {
            let taking = take_over(guest, beginning, Arc::clone(&self.house), self.stages.clone());
            self.runtime.spawn(taking);
        }
    }

    /// Lets go of those who have stayed too long, once a second.
    fn sweep(&mut self) {
        let now_ms = self.house.clock.now().boot_ms;
        if now_ms.saturating_sub(self.swept_ms) < SWEEP_EVERY_MS {
            return;
        }
        self.swept_ms = now_ms;
        let passed =
            |since_ms: u64, limit: Duration| u128::from(now_ms.saturating_sub(since_ms)) >= limit.as_millis();
        let is_over = |resting: &Resting| {
            let is_busy = resting.waits_for_room || resting.pending.is_some();
            let patience = match (is_busy, resting.guest.was_asked) {
                _ if resting.is_shaking_hands() => HANDSHAKE_TIMEOUT,
                (true, _) => WRITE_TIMEOUT,
                (false, true) => IDLE_TIMEOUT,
                (false, false) => HEADER_TIMEOUT,
            };
            let is_old = passed(resting.guest.came_ms, LIFETIME);
            passed(resting.active_ms, patience) || (is_old && !is_busy)
        };
        for connection in 0..self.connections.len() {
            if self.connections[connection].as_ref().is_some_and(is_over) {
                self.let_go(connection);
            }
        }
        self.open_all();
    }

    /// Gives everybody to hyper, who knows how callers are let go; those too who wait in the kernel's queue, and would be sent
    /// away with the door.
    fn leave(&mut self) {
        for door in 0..self.doors.len() {
            // But not for ever.
            for _ in 0..BACKLOG {
                if !self.is_open[door] || !self.accept(door) {
                    break;
                }
            }
        }
        let guests = self.mailbox.close();
        guests.into_iter().for_each(|guest| self.seat(guest));
        self.await_verdicts();
        for connection in 0..self.connections.len() {
            self.hand_over(connection, Beginning::default());
        }
    }
}
