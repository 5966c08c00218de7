// SPDX-License-Identifier: Apache-2.0
//
// A client and a server talk over rsockets, librdmacm's streams: what is sent comes back. Crates that link libibverbs
// or librdmacm need nothing else.

use std::io::Error;
use std::os::raw::{c_int, c_void};
use std::thread;

/// An address of IPv4, as struct sockaddr_in has it.
#[repr(C)]
struct SockaddrIn {
    family: u16,
    port: [u8; 2],
    address: [u8; 4],
    zero: [u8; 8],
}

const AF_INET: c_int = 2;
const SOCK_STREAM: c_int = 1;

#[link(name = "rdmacm")]
extern "C" {
    fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn rbind(socket: c_int, address: *const SockaddrIn, length: u32) -> c_int;
    fn rlisten(socket: c_int, backlog: c_int) -> c_int;
    fn raccept(socket: c_int, address: *mut SockaddrIn, length: *mut u32) -> c_int;
    fn rconnect(socket: c_int, address: *const SockaddrIn, length: u32) -> c_int;
    fn rsend(socket: c_int, data: *const c_void, length: usize, flags: c_int) -> isize;
    fn rrecv(socket: c_int, data: *mut c_void, length: usize, flags: c_int) -> isize;
    fn rgetsockname(socket: c_int, address: *mut SockaddrIn, length: *mut u32) -> c_int;
    fn rclose(socket: c_int) -> c_int;
}

const LENGTH: u32 = std::mem::size_of::<SockaddrIn>() as u32;

fn check(result: isize, what: &str) -> isize {
    assert!(result >= 0, "{}: {}", what, Error::last_os_error());
    result
}

/// An rsocket, which is closed at its end.
struct Stream(c_int);

impl Stream {
    fn new() -> Stream {
        Stream(check(unsafe { rsocket(AF_INET, SOCK_STREAM, 0) } as isize, "rsocket") as c_int)
    }

    fn send(&self, data: &[u8]) {
        let mut sent = 0;
        while sent < data.len() {
            let rest = &data[sent..];
            sent += check(unsafe { rsend(self.0, rest.as_ptr().cast(), rest.len(), 0) }, "rsend") as usize;
        }
    }

    fn receive(&self, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        let mut got = 0;
        while got < length {
            let rest = &mut data[got..];
            let n = check(unsafe { rrecv(self.0, rest.as_mut_ptr().cast(), rest.len(), 0) }, "rrecv");
            assert!(n > 0, "the stream has ended after {} bytes", got);
            got += n as usize;
        }
        data
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        unsafe { rclose(self.0) };
    }
}

#[test]
fn echo() {
    let mut at = SockaddrIn { family: AF_INET as u16, port: [0; 2], address: [127, 0, 0, 11], zero: [0; 8] };
    let listener = Stream::new();
    check(unsafe { rbind(listener.0, &at, LENGTH) } as isize, "rbind");
    check(unsafe { rlisten(listener.0, 1) } as isize, "rlisten");
    let mut length = LENGTH;
    check(unsafe { rgetsockname(listener.0, &mut at, &mut length) } as isize, "rgetsockname"); // the port

    let message: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    let size = message.len();
    let server = thread::spawn(move || {
        let none = std::ptr::null_mut();
        let stream = Stream(check(unsafe { raccept(listener.0, none, std::ptr::null_mut()) } as isize, "raccept") as c_int);
        let data = stream.receive(size);
        stream.send(&data);
    });
    let client = Stream::new();
    check(unsafe { rconnect(client.0, &at, LENGTH) } as isize, "rconnect");
    client.send(&message);
    assert!(client.receive(size) == message);
    server.join().unwrap();
}
