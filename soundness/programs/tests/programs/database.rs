//! SQLite through `rusqlite`: each strand has a connection to one file, in write-ahead mode.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use ways::{switch, together};

const STRANDS: usize = 3;
const ROUNDS: usize = 4;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE accounts (number INTEGER PRIMARY KEY, amount INTEGER NOT NULL);
    CREATE TABLE moves (strand INTEGER, round INTEGER, amount INTEGER, PRIMARY KEY (strand, round));
    INSERT INTO accounts VALUES (0, 1000), (1, 1000), (2, 1000);
";

/// Whether a connection waits for a lock in the kernel or switches.
type Waits = fn(&mut Connection);

fn sleeps(connection: &mut Connection) {
    connection.busy_timeout(Duration::from_secs(100)).unwrap();
}

fn switches(connection: &mut Connection) {
    fn again(_: i32) -> bool {
        switch();
        true
    }
    connection.busy_handler(Some(again)).unwrap();
    let go_on = || {
        switch();
        false
    };
    connection.progress_handler(20, Some(go_on)).unwrap();
}

fn open(file: &Path, waits: Waits) -> Connection {
    let mut connection = Connection::open(file).unwrap();
    waits(&mut connection);
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    connection
}

/// Moves amounts between accounts, and undoes every third move.
fn works(file: &Path, waits: Waits, who: usize) -> i64 {
    let mut connection = open(file, waits);
    for round in 0..ROUNDS {
        let amount = (who * 7 + round * 3) as i64;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let change = "UPDATE accounts SET amount = amount + ?2 WHERE number = ?1";
        transaction.execute(change, (who as i64, -amount)).unwrap();
        switch();
        transaction.execute(change, (((who + 1) % STRANDS) as i64, amount)).unwrap();
        let note = "INSERT INTO moves VALUES (?1, ?2, ?3)";
        transaction.execute(note, (who as i64, round as i64, amount)).unwrap();
        switch();
        if (who + round).is_multiple_of(3) { transaction.rollback() } else { transaction.commit() }.unwrap();
        // Others never see a part of a move.
        let sum: i64 = connection.query_row("SELECT sum(amount) FROM accounts", (), |row| row.get(0)).unwrap();
        assert_eq!(sum, 3000);
        switch();
    }
    connection.query_row("SELECT count(*) FROM moves WHERE strand = ?1", [who as i64], |row| row.get(0)).unwrap()
}

fn dump(connection: &Connection) -> String {
    let mut text = String::new();
    for query in ["SELECT number, amount, 0 FROM accounts ORDER BY 1", "SELECT * FROM moves ORDER BY 1, 2"] {
        let mut statement = connection.prepare(query).unwrap();
        let mut rows = statement.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let [one, two, three] = [0, 1, 2].map(|column| row.get::<_, i64>(column).unwrap());
            writeln!(text, "{one} {two} {three}").unwrap();
        }
    }
    text
}

fn moves(waits: Waits) -> (Vec<i64>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.db");
    Connection::open(&file).unwrap().execute_batch(SCHEMA).unwrap();
    let counts = together(STRANDS, |who| works(&file, waits, who));
    let texts = together(1, |_| {
        let connection = open(&file, waits);
        let sound: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        dump(&connection)
    });
    (counts, texts.concat())
}

fn connections_that_switch_share_a_file() -> (Vec<i64>, String) {
    moves(switches)
}

fn connections_that_sleep_share_a_file() -> (Vec<i64>, String) {
    moves(sleeps)
}

mod switching {
    use super::*;
    ways::in_every_way! {
        connections_that_switch_share_a_file
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        connections_that_sleep_share_a_file
    }
}
