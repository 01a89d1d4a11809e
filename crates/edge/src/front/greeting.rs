//! Handshakes of TLS with callers who come in here.

use super::turn::ROOM;
use super::{Beginning, Front, Resting, Socket};
use crate::prompt::Prompt;
use crate::reply::Reply;
use crate::serve::Visit;
use crate::tls::was_a_proof;
use crate::traffic::Way;
use rustix::event::epoll::{self, EventFlags};
use std::sync::Arc;

/// As many handshakes go on in one turn: each takes as long as a dozen answers, which wait for it.
const HANDSHAKES_AT_ONCE: usize = 8;

impl Resting {
    /// Whether a handshake has begun, and is not over.
    pub(super) fn is_shaking_hands(&self) -> bool {
        self.guest.greeting.is_some() && matches!(self.guest.socket, Socket::Tls(_))
    }
}

/// How far a handshake has come.
enum Shaken {
    /// More must come, or there must be room for more.
    NotYet,
    /// It is over, and so much was said behind it already.
    Over(usize),
}

impl<S, F, P> Front<S, P>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    /// Something came of a caller with whom hands are to be shaken.
    pub(super) fn greet(&mut self, connection: usize) {
        if self.turn.handshakes == HANDSHAKES_AT_ONCE {
            // It is told again.
            return;
        }
        self.turn.handshakes += 1;
        let is_first =
            self.connections[connection].as_ref().is_some_and(|resting| !resting.is_shaking_hands());
        if is_first && !self.begin_handshake(connection) {
            return;
        }
        match self.shake(connection) {
            Some(Shaken::NotYet) => {}
            Some(Shaken::Over(behind)) => self.welcome(connection, behind),
            None => self.let_go(connection),
        }
    }

    /// Begins a handshake if that is what the caller wants.
    fn begin_handshake(&mut self, connection: usize) -> bool {
        let Some(resting) = self.connections[connection].as_mut() else { return false };
        match resting.guest.socket.begins_handshake() {
            Ok(Some(true)) => {}
            Ok(Some(false)) => {
                resting.guest.greeting = None;
                self.hand_over(connection, Beginning::default());
                return false;
            }
            Ok(None) => return false,
            Err(_) => {
                self.close(connection);
                return false;
            }
        }
        let active_ms = self.house.clock.now().boot_ms;
        let begun = self.connections[connection].take().and_then(|resting| {
            let guest = resting.guest.begin_handshake().ok()?;
            Some(Resting { guest, active_ms, ..resting })
        });
        if begun.is_none() {
            self.free.push(connection);
        }
        let has_begun = begun.is_some();
        self.connections[connection] = begun;
        has_begun
    }

    /// Goes on with a handshake; `None` if it has failed.
    fn shake(&mut self, connection: usize) -> Option<Shaken> {
        let what = self.mark_of(connection);
        let resting = self.connections[connection].as_mut()?;
        let Socket::Tls(channel) = &mut resting.guest.socket else { return None };
        let waits_for_room = !channel.shake().ok()?;
        if std::mem::replace(&mut resting.waits_for_room, waits_for_room) != waits_for_room {
            let waits_for = if waits_for_room { ROOM } else { resting.guest.something_comes() };
            epoll::modify(&self.epoll, &resting.guest.socket, what, waits_for).ok()?;
        }
        let Socket::Tls(channel) = &mut resting.guest.socket else { return None };
        if waits_for_room || channel.session.is_handshaking() {
            return Some(Shaken::NotYet);
        }
        let behind = channel.session.process_new_packets().ok()?.plaintext_bytes_to_read();
        Some(Shaken::Over(behind))
    }

    /// Hands were shaken. Who is answered at once stays here.
    fn welcome(&mut self, connection: usize, behind: usize) {
        let Some(resting) = self.connections[connection].as_mut() else { return };
        let Socket::Tls(channel) = &resting.guest.socket else { return };
        if was_a_proof(&channel.session) {
            return self.close(connection);
        }
        self.house.shaken(Arc::make_mut(&mut resting.guest.line), &channel.session);
        (resting.guest.greeting, resting.active_ms) = (None, self.house.clock.now().boot_ms);
        if channel.is_http2() && !self.turn.prompt.answers_at_once() {
            return self.hand_over(connection, Beginning::default());
        }
        resting.http2 = channel.is_http2().then(Box::default);
        if behind > 0 {
            // It is in the session, and the socket does not tell of it.
            self.look_at(connection, EventFlags::empty());
        }
    }

    /// Ends a connection that was not well.
    pub(super) fn let_go(&mut self, connection: usize) {
        if self.connections[connection].as_ref().is_some_and(Resting::is_shaking_hands) {
            self.house.traffic.failed_handshake(Way::Tls);
        }
        self.close(connection);
    }
}
