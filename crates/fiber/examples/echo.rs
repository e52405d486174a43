//! An echo server with a fiber for each connection, and one kernel thread for all.
//!
//! ```text
//! cargo run --release -p rowlock-fiber --example echo                 # listens at 127.0.0.1:7007
//! cargo run --release -p rowlock-fiber --example echo -- 0.0.0.0:80   # at another address
//! cargo run --release -p rowlock-fiber --example echo -- self 1000    # 1000 connections to itself
//! ```

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rowlock_fiber as fiber;

/// How often each connection is used when the server talks to itself.
const ROUNDS: usize = 100;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7007".into());
    fiber::run(|| match address.as_str() {
        "self" => talk(arguments.next().and_then(|many| many.parse().ok()).unwrap_or(100)),
        address => {
            let listener = TcpListener::bind(address)?;
            writeln!(io::stderr(), "listening at {}", listener.local_addr()?)?;
            serve(&listener, usize::MAX)
        }
    })
}

/// Sends everything back to its sender, for so many connections.
fn serve(listener: &TcpListener, many: usize) -> io::Result<()> {
    let mut accepted = 0;
    while accepted < many {
        match listener.accept() {
            Ok((stream, _)) => {
                accepted += 1;
                fiber::spawn(move || io::copy(&mut &stream, &mut &stream)).detach();
            }
            // Without descriptors left, new connections wait until others are closed.
            Err(why) => {
                writeln!(io::stderr(), "cannot accept: {why}")?;
                fiber::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
    Ok(())
}

/// Serves this many connections of its own, and prints how long that took.
fn talk(many: usize) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    fiber::spawn(move || serve(&listener, many)).detach();
    let streams = (0..many).map(|_| TcpStream::connect(address)).collect::<io::Result<Vec<_>>>()?;
    let began = Instant::now();
    fiber::scope(|scope| {
        let talks = streams.into_iter().map(|mut stream| {
            scope.spawn(move || {
                let mut heard = [0; 16];
                (0..ROUNDS).try_for_each(|_| {
                    stream.write_all(b"is anybody there")?;
                    stream.read_exact(&mut heard)
                })
            })
        });
        let talks: Vec<_> = talks.collect();
        talks.into_iter().try_for_each(|talk| talk.join().map_err(|why| io::Error::other(why.to_string()))?)
    })?;
    let each = began.elapsed() / (many * ROUNDS) as u32;
    writeln!(io::stdout(), "{many} connections: {each:?} for a message there and back")
}
