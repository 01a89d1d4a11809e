//! A way between two programs that can be cut: what stands between them is a thread for each direction of each connection.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What becomes of what is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// It arrives.
    #[default]
    Open,
    /// It is held until the way is open again: nobody hears anything, and no connection ends.
    Held,
    /// What is asked arrives, and what is replied is held.
    RepliesHeld,
    /// Every connection ends, and no new one stays.
    Closed,
}

/// A door that leads to another one. Connections end with this value.
pub struct Link {
    /// Where it is entered.
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    way: Mutex<Way>,
    changed: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Opens one.
    pub fn to(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::<State>::default();
        let theirs = Arc::downgrade(&state);
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                // Whoever drops the link knocks once more, so that this is seen.
                let Some(state) = theirs.upgrade() else { return };
                // A target that is not there is told to the caller by an end.
                let _ = state.join(caller, target);
            }
        });
        Ok(Self { address, state })
    }

    /// Cuts the way, or opens it.
    pub fn set(&self, way: Way) {
        *self.state.way() = way;
        self.state.changed.notify_all();
        if way == Way::Closed {
            self.state.end_all();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.set(Way::Closed);
        self.state = Arc::default();
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_all(&self) {
        for stream in self.open().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn join(self: &Arc<Self>, caller: TcpStream, target: SocketAddr) -> Result<()> {
        if *self.way() == Way::Closed {
            return Ok(());
        }
        let called = TcpStream::connect(target)?;
        caller.set_nodelay(true)?;
        called.set_nodelay(true)?;
        let mut open = self.open();
        open.retain(|stream| stream.peer_addr().is_ok());
        open.extend([caller.try_clone()?, called.try_clone()?]);
        drop(open);
        let (asked, replied) = ((caller.try_clone()?, called.try_clone()?), (called, caller));
        for ((from, to), is_reply) in [(asked, false), (replied, true)] {
            let state = Arc::clone(self);
            thread::spawn(move || state.carry(from, to, is_reply));
        }
        Ok(())
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, is_reply: bool) {
        let mut part = [0; 16_384];
        loop {
            let length = from.read(&mut part).unwrap_or(0);
            let holds = |way: &mut Way| *way == Way::Held || (*way == Way::RepliesHeld && is_reply);
            drop(self.changed.wait_while(self.way(), holds).unwrap_or_else(PoisonError::into_inner));
            if length == 0 || to.write_all(&part[..length]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
