//! Fibers that communicate over sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rowlock_fiber as fiber;
use rowlock_fiber::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of descriptors to the maximum: the initial limit is too low on many machines.
fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Sends everything back to its sender, for every connection.
fn echo(listener: TcpListener) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
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
        assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() >= Duration::from_millis(2));
        other.write_all(b"a").unwrap();
        assert_eq!(one.read(&mut byte).unwrap(), 1);
        assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::TimedOut);
        one.set_read_timeout(None).unwrap();
        let reader = fiber::spawn(move || one.read(&mut [0]).unwrap());
        fiber::yield_now();
        drop(other);
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn a_zero_timeout_is_refused() {
    let (one, _other) = UnixStream::pair().unwrap();
    assert_eq!(one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_writer_waits_until_there_is_room_and_times_out_otherwise() {
    fiber::run(|| {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.set_write_timeout(Some(Duration::from_millis(2))).unwrap();
        let full = std::io::copy(&mut std::io::repeat(0), &mut one).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::TimedOut);
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
        assert_eq!(there.recv(&mut buffer).unwrap_err().kind(), ErrorKind::TimedOut);
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
fn sockets_simply_block_outside_a_runtime() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        stream.write_all(b"go on").unwrap();
    });
    let (mut stream, _) = listener.accept().unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "go on");
    client.join().unwrap();
    // And back to the standard library's, whose read waits again.
    let (one, other) = UnixStream::pair().unwrap();
    let (mut one, other) = (one.into_inner().unwrap(), other.into_inner().unwrap());
    let reader = std::thread::spawn(move || (&other).read(&mut [0]).unwrap());
    one.write_all(b"x").unwrap();
    assert_eq!(reader.join().unwrap(), 1);
}

#[test]
fn fibers_that_wait_for_sockets_end_with_their_runtime() {
    let (one, other) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let both = Arc::new((one, listener));
    fiber::run(|| {
        for _ in 0..10 {
            let both = Arc::clone(&both);
            fiber::spawn(move || (&both.0).read(&mut [0])).detach();
        }
        let both = Arc::clone(&both);
        fiber::spawn(move || both.1.accept().map(drop)).detach();
        fiber::yield_now();
    });
    // Their stacks are gone, with everything on them.
    let (one, _) = Arc::into_inner(both).unwrap();
    // And another runtime works.
    fiber::run(|| {
        let reader = fiber::spawn(move || (&one).read(&mut [0]).unwrap());
        fiber::yield_now();
        (&other).write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn a_fiber_that_unwinds_with_its_runtime_waits_for_nothing_from_outside() {
    struct Says(UnixStream, Arc<AtomicUsize>);
    impl Drop for Says {
        fn drop(&mut self) {
            // No answer ever comes, and the test does not have all this time.
            assert!(self.0.read(&mut [0]).is_err());
            fiber::sleep(Duration::from_secs(1000));
            assert_eq!(fiber::blocking(|| 5), 5);
            self.1.fetch_add(1, Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let sees = Arc::clone(&dropped);
    fiber::run(move || {
        for waits in [true, false] {
            let (one, other) = UnixStream::pair().unwrap();
            let says = Says(one, Arc::clone(&sees));
            fiber::spawn(move || {
                let _both = (says, other);
                match waits {
                    true => fiber::sleep(Duration::from_secs(1000)),
                    false => loop {
                        fiber::yield_now();
                    },
                }
            })
            .detach();
        }
        fiber::yield_now();
    });
    assert_eq!(dropped.load(Relaxed), 2);
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
