//! `tiny_http`, with its own threads for connections: strands answer requests, and strands send
//! them. All wait in the kernel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use tiny_http::{Method, Response, Server};
use ways::{switch, together};

const SERVERS: usize = 2;
const CLIENTS: usize = 3;
const REQUESTS: usize = 4;

fn serve(server: &Server) -> Vec<String> {
    while let Ok(mut request) = server.recv() {
        let mut body = String::new();
        request.as_reader().read_to_string(&mut body).unwrap();
        switch();
        let (status, text) = match (request.method(), request.url()) {
            (Method::Get, "/missing") => (404, "there is none\n".to_owned()),
            (Method::Get, url) => (200, format!("{url} ").repeat(300)),
            (method, url) => (200, format!("{method} {url}: {}\n", body.to_uppercase())),
        };
        request.respond(Response::from_string(text).with_status_code(status)).unwrap();
    }
    Vec::new()
}

/// Sends a request, and returns the answer without its date.
fn ask(stream: &mut BufReader<TcpStream>, method: &str, url: &str, body: &str) -> String {
    let length = body.len();
    write!(stream.get_mut(), "{method} {url} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let (mut answer, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if !line.starts_with("Date: ") {
            answer.push_str(&line);
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    answer + &String::from_utf8(body).unwrap()
}

fn answers_reach_the_strands_that_asked() -> Vec<Vec<String>> {
    let server = Server::http("127.0.0.1:0").unwrap();
    let (address, left) = (server.server_addr().to_ip().unwrap(), AtomicUsize::new(CLIENTS));
    let results = together(SERVERS + CLIENTS, |who| {
        if who < SERVERS {
            return serve(&server);
        }
        let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
        let answers = (0..REQUESTS).map(|round| {
            switch();
            match round % 3 {
                0 => ask(&mut stream, "GET", &format!("/page/{who}/{round}"), ""),
                1 => ask(&mut stream, "POST", "/form", &format!("strand {who}, round {round}")),
                _ => ask(&mut stream, "GET", "/missing", ""),
            }
        });
        let answers = answers.collect();
        if left.fetch_sub(1, SeqCst) == 1 {
            (0..SERVERS).for_each(|_| server.unblock());
        }
        answers
    });
    results[SERVERS..].to_vec()
}

ways::in_every_way! {
    answers_reach_the_strands_that_asked
}
