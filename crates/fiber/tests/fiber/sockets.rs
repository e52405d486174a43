//! Fibers that communicate over sockets of the standard library. If a call stopped the worker,
//! nearly all of these tests would wait forever.

use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowlock_fiber as fiber;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of descriptors to the maximum: the initial limit is too low on many machines.
fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Sends everything back to its sender, for every connection, until the runtime ends.
fn echo(listener: TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        fiber::spawn(move || std::io::copy(&mut &stream, &mut &stream)).detach();
    }
}

#[test]
fn a_thousand_connections_are_served_by_one_kernel_thread() {
    allow_many_descriptors();
    fiber::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        fiber::spawn(move || echo(listener)).detach();
        // All of them exist at once: none sends before all are connected.
        let streams: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
        let clients = streams.into_iter().enumerate().map(|(i, mut stream)| {
            fiber::spawn(move || {
                for round in 0..3 {
                    let said = format!("client {i}, round {round}");
                    stream.write_all(said.as_bytes()).unwrap();
                    let mut heard = vec![0; said.len()];
                    stream.read_exact(&mut heard).unwrap();
                    assert_eq!(heard, said.as_bytes());
                }
                stream.shutdown(Shutdown::Write).unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!(rest.is_empty());
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn megabytes_go_both_ways_through_one_socket_at_once() {
    const LENGTH: usize = 4 << 20;
    fn talk(stream: TcpStream, byte: u8) {
        let stream = Arc::new(stream);
        let other = Arc::clone(&stream);
        let writer = fiber::spawn(move || {
            (&*other).write_all(&vec![byte; LENGTH]).unwrap();
            other.shutdown(Shutdown::Write).unwrap();
        });
        let mut heard = Vec::new();
        (&*stream).read_to_end(&mut heard).unwrap();
        writer.join().unwrap();
        assert_eq!(heard.len(), LENGTH);
        assert!(heard.iter().all(|heard| *heard != byte));
    }
    fiber::run(|| {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = fiber::spawn(move || talk(listener.accept().unwrap().0, b's'));
        talk(TcpStream::connect(address).unwrap(), b'c');
        server.join().unwrap();
    });
}

#[test]
fn a_read_times_out_and_the_socket_remains_usable() {
    fiber::run(|| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let began = Instant::now();
        let mut byte = [0];
        assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(began.elapsed() >= Duration::from_millis(2));
        other.write_all(b"a").unwrap();
        assert_eq!(one.read(&mut byte).unwrap(), 1);
        assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.set_read_timeout(None).unwrap();
        let reader = fiber::spawn(move || one.read(&mut [0]).unwrap());
        fiber::yield_now();
        drop(other);
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn a_writer_waits_until_there_is_room_and_times_out_otherwise() {
    fiber::run(|| {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.set_write_timeout(Some(Duration::from_millis(2))).unwrap();
        let full = std::io::copy(&mut std::io::repeat(0), &mut one).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        one.set_write_timeout(None).unwrap();
        let writer = fiber::spawn(move || one.write_all(&[1; 1 << 20]).unwrap());
        fiber::yield_now();
        let read = std::io::copy(&mut &other, &mut std::io::sink()).unwrap();
        assert!(read > 1 << 20);
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_gets_the_end_when_another_fiber_shuts_the_socket_down() {
    fiber::run(|| {
        let (one, _other) = UnixStream::pair().unwrap();
        let again = one.try_clone().unwrap();
        let reader = fiber::spawn(move || (&one).read(&mut [0]).unwrap());
        fiber::yield_now();
        again.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn several_fibers_may_wait_at_one_listener_and_each_connection_goes_to_one() {
    fiber::run(|| {
        let listener = Arc::new(TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let servers: Vec<_> = (0..5)
            .map(|_| {
                let listener = Arc::clone(&listener);
                fiber::spawn(move || listener.accept().unwrap().0.write_all(b"!").unwrap())
            })
            .collect();
        fiber::yield_now();
        for _ in 0..5 {
            let mut heard = String::new();
            TcpStream::connect(address).unwrap().read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "!");
        }
        servers.into_iter().for_each(|server| server.join().unwrap());
    });
}

#[test]
fn connecting_without_a_listener_is_refused() {
    // The port is bound, so no other program listens there, and no socket that connects gets it.
    let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&bound, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
    fiber::run(|| {
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let error = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(TcpStream::connect("no port").is_err());
    });
}

#[test]
fn datagrams_arrive_whole_and_with_their_sender() {
    fiber::run(|| {
        let here = UdpSocket::bind("127.0.0.1:0").unwrap();
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = there.local_addr().unwrap();
        let to = here.local_addr().unwrap();
        let receiver = fiber::spawn(move || {
            let mut buffer = [0; 100];
            let (length, sender) = here.recv_from(&mut buffer).unwrap();
            here.connect(sender).unwrap();
            here.send(&buffer[..length]).unwrap();
            (buffer[..length].to_vec(), sender)
        });
        fiber::yield_now();
        assert_eq!(there.send_to(b"datagram", to).unwrap(), 8);
        let mut buffer = [0; 100];
        assert_eq!(there.recv(&mut buffer).unwrap(), 8);
        assert_eq!(receiver.join().unwrap(), (b"datagram".to_vec(), from));
        there.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(there.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_unix_listener_whose_queue_is_full_makes_others_wait_and_refuses_none() {
    allow_many_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    fiber::run(|| {
        let listener = UnixListener::bind(&path).unwrap();
        let clients: Vec<_> = (0..400)
            .map(|_| {
                let path = path.clone();
                fiber::spawn(move || {
                    let mut heard = String::new();
                    UnixStream::connect(path).unwrap().read_to_string(&mut heard).unwrap();
                    heard
                })
            })
            .collect();
        fiber::yield_now();
        for stream in listener.incoming().take(400) {
            stream.unwrap().write_all(b"come in").unwrap();
        }
        assert!(clients.into_iter().all(|client| client.join().unwrap() == "come in"));
    });
}

#[test]
fn fibers_of_several_workers_may_use_one_socket() {
    let runtime = fiber::Runtime::new(fiber::Config { workers: 2, ..Default::default() });
    let served = runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = fiber::spawn(move || echo(listener));
        let clients: Vec<_> = (0..100u32)
            .map(|i| {
                fiber::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    for round in 0..10 {
                        stream.write_all(&[i as u8, round]).unwrap();
                        let mut heard = [0; 2];
                        stream.read_exact(&mut heard).unwrap();
                        assert_eq!(heard, [i as u8, round]);
                        if round == 5 {
                            assert_eq!(fiber::blocking(move || i + 1), i + 1);
                        }
                    }
                    1
                })
            })
            .collect();
        server.detach();
        clients.into_iter().map(|client| client.join().unwrap()).sum::<u32>()
    });
    assert_eq!(served.unwrap(), 100);
}

#[test]
fn a_fiber_that_connects_to_a_listener_whose_queue_is_full_lets_others_run() {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    fiber::run(|| {
        let first = TcpStream::connect(address).unwrap();
        // The kernel tries again when it has room, after a second.
        let waits = fiber::spawn(move || TcpStream::connect(address).unwrap());
        fiber::yield_now();
        assert!(!waits.is_finished());
        assert_eq!(listener.accept().unwrap().1, first.local_addr().unwrap());
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), waits.join().unwrap().local_addr().unwrap());
    });
}

#[test]
fn connecting_and_accepting_time_out_as_in_a_thread() {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&socket, 0).unwrap();
    let timeout = Some(Duration::from_millis(1));
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, timeout).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    fiber::run(|| {
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let _first = TcpStream::connect(address).unwrap();
        let error = TcpStream::connect_timeout(&address, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn names_are_looked_up_and_sockets_bound_to_them() {
    fiber::run(|| {
        let mut addresses = ("localhost", 80).to_socket_addrs().unwrap();
        assert!(addresses.all(|address| address.ip().is_loopback() && address.port() == 80));
        let listener = TcpListener::bind("localhost:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = fiber::spawn(move || drop(listener.accept().unwrap()));
        TcpStream::connect(("localhost", port)).unwrap();
        server.join().unwrap();
        assert!("no such name".to_socket_addrs().is_err());
    });
}

#[test]
fn while_a_name_is_looked_up_other_fibers_run() {
    let start = |mut command: std::process::Command| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("aliases");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        testing::expect_pass(command.env("HOSTALIASES", &path));
    };
    testing::isolated_by(start, || {
        fiber::run(|| {
            // If it is configured so, the C library reads aliases from this pipe until its end.
            let path = std::env::var_os("HOSTALIASES").unwrap();
            let aliases = std::fs::File::options().read(true).write(true).open(&path).unwrap();
            // It is too long to ask a server.
            let lookup = fiber::spawn(|| ("x".repeat(70).as_str(), 80).to_socket_addrs().map(drop));
            fiber::yield_now();
            std::fs::remove_file(path).unwrap();
            drop(aliases);
            lookup.join().unwrap().unwrap_err();
        });
    });
}

#[test]
fn while_threads_and_fibers_accept_at_one_listener_other_fibers_run() {
    const MANY: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Arc::new(UnixListener::bind(&path).unwrap());
    // A connection without a byte ends a server.
    let serve =
        |listener: Arc<UnixListener>| move || while listener.accept().unwrap().0.read(&mut [0]).unwrap() == 1 {};
    let threads = [(); 2].map(|()| std::thread::spawn(serve(Arc::clone(&listener))));
    fiber::run(|| {
        let fibers = [(); 2].map(|()| fiber::spawn(serve(Arc::clone(&listener))));
        for _ in 0..MANY {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"x").unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        (0..4).for_each(|_| drop(UnixStream::connect(&path).unwrap()));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn what_is_copied_between_pipes_and_sockets_waits_for_other_fibers() {
    fn copy(mut from: PipeReader, to: &UnixStream) -> u64 {
        std::io::copy(&mut from, &mut &*to).unwrap()
    }
    fiber::run(|| {
        let (reader, mut writer) = pipe().unwrap();
        let (one, mut other) = UnixStream::pair().unwrap();
        let copies = fiber::spawn(move || copy(reader, &one));
        fiber::yield_now();
        let writes = fiber::spawn(move || writer.write_all(&vec![7; 4 << 20]).unwrap());
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        writes.join().unwrap();
        assert_eq!(copies.join().unwrap(), 4 << 20);
        assert_eq!(all, vec![7; 4 << 20]);
    });
}

#[test]
#[allow(unsafe_code)]
fn a_call_that_never_waits_does_not_wait_in_a_fiber() {
    fiber::run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // SAFETY: no bytes are received.
        let received = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_ERRQUEUE) };
        assert_eq!((received, std::io::Error::last_os_error().kind()), (-1, ErrorKind::WouldBlock));
    });
}
