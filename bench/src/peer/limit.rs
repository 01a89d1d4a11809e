//! The least that a server can do: read what came, whatever it is, and write an answer that was ready before.

use super::{fixed_body, tell};
use anyhow::Result;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, getsockname, listen, socket_with, sockopt,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

const WHOLE: usize = 760;
const BACKLOG: i32 = 4096;
const EVENTS: usize = 64;
/// What events of the door are marked with.
const DOOR: u64 = u64::MAX;

pub(super) fn serve() -> Result<()> {
    let door = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    sockopt::set_socket_reuseaddr(&door, true)?;
    bind(&door, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listen(&door, BACKLOG)?;
    tell(SocketAddr::try_from(getsockname(&door)?)?)?;
    let answer = answer();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &door, EventData::new_u64(DOOR), EventFlags::IN)?;
    let mut connections: Vec<Option<OwnedFd>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS);
    let mut room = [0_u8; 4096];
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if event.data.u64() == DOOR {
                while let Ok(connection) = accept_with(&door, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                    let place = free.pop().unwrap_or_else(|| {
                        connections.push(None);
                        connections.len() - 1
                    });
                    epoll::add(&epoll, &connection, EventData::new_u64(place as u64), EventFlags::IN)?;
                    connections[place] = Some(connection);
                }
                continue;
            }
            let place = usize::try_from(event.data.u64())?;
            let Some(connection) = &connections[place] else { continue };
            match rustix::io::read(connection, &mut room) {
                // A request of the generator comes whole, and an answer finds room.
                Ok(read) if read > 0 => {
                    rustix::io::write(connection, &answer)?;
                }
                Err(Errno::AGAIN) => {}
                _ => {
                    connections[place] = None;
                    free.push(place);
                }
            }
        }
    }
}

fn answer() -> Vec<u8> {
    let head = |length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
    };
    let length = WHOLE - head(WHOLE).len();
    [head(length).as_bytes(), &fixed_body(length)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_as_long_as_it_must_be() {
        assert_eq!(answer().len(), WHOLE);
    }
}
