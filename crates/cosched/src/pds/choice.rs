//! Which table the jobs of a process enter: that of pds, or that of its user.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::SOCKET;
use super::client::{Client, PdsError};
use crate::table;

/// The variable that names another socket, or `none`.
const VARIABLE: &str = "ROWLOCK_PDS";

/// The table that jobs of this process enter.
#[derive(Debug)]
pub enum JobTable {
    /// That of all users.
    OfAll(Client),
    /// That of this user.
    OfUser(OwnTable),
}

/// Why jobs of this process enter the table of its user. The words are a sentence.
#[derive(Debug, thiserror::Error)]
pub enum OwnTable {
    /// The environment asks for it.
    #[error("{VARIABLE} asks for the table of this user")]
    Asked,
    /// The environment names its folder.
    #[error("{} names the folder of a table of this user", table::VARIABLE)]
    Named,
    /// There is no socket.
    #[error("`rowlock pds` does not run")]
    NoPds,
    /// There is one at the usual path, and no process behind it.
    #[error("{0}")]
    Unreachable(PdsError),
}

impl JobTable {
    /// Finds it by the environment. Blocks for at most some seconds.
    ///
    /// # Errors
    /// If pds must be used, and cannot be.
    pub fn find() -> Result<JobTable, PdsError> {
        JobTable::choose(env::var_os(VARIABLE), env::var_os(table::VARIABLE), Client::connect)
    }

    fn choose(
        pds: Option<OsString>,
        table: Option<OsString>,
        connect: impl Fn(&Path) -> Result<Client, PdsError>,
    ) -> Result<JobTable, PdsError> {
        let [pds, table] = [pds, table].map(|named| named.filter(|named| !named.is_empty()));
        let own = match &pds {
            Some(named) if named == "none" => OwnTable::Asked,
            None if table.is_some() => OwnTable::Named,
            _ => match connect(Path::new(pds.as_deref().unwrap_or(OsStr::new(SOCKET)))) {
                Ok(client) => return Ok(JobTable::OfAll(client)),
                // Nothing needs it.
                Err(why @ PdsError::Connect { .. }) if pds.is_none() => match &why {
                    PdsError::Connect { why, .. } if why.kind() == io::ErrorKind::NotFound => OwnTable::NoPds,
                    _ => OwnTable::Unreachable(why),
                },
                Err(why) => return Err(why),
            },
        };
        Ok(JobTable::OfUser(own))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The table with these variables, if connections fail so.
    fn chosen(pds: &str, table: &str, fails: Option<io::ErrorKind>) -> String {
        let connect = |path: &Path| match fails {
            None => Ok(Client::of(UnixStream::pair().unwrap().0)),
            Some(why) => Err(PdsError::Connect { path: path.to_owned(), why: why.into() }),
        };
        match JobTable::choose(Some(pds.into()), Some(table.into()), connect) {
            Ok(JobTable::OfAll(_)) => "pds".to_owned(),
            Ok(JobTable::OfUser(why)) => why.to_string(),
            Err(why) => format!("error: {why}"),
        }
    }

    #[test]
    fn the_environment_and_the_socket_choose_the_table() {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        assert_eq!(chosen("", "", None), "pds");
        assert_eq!(chosen("/socket", "/folder", None), "pds");
        assert_eq!(chosen("none", "", None), "ROWLOCK_PDS asks for the table of this user");
        assert_eq!(chosen("", "/folder", None), "ROWLOCK_TABLE names the folder of a table of this user");
        assert_eq!(chosen("", "", Some(NotFound)), "`rowlock pds` does not run");
        let refused = "cannot ask `rowlock pds` at /run/rowlock/pds.socket: connection refused";
        assert_eq!(chosen("", "", Some(ConnectionRefused)), refused);
        let missing = "error: cannot ask `rowlock pds` at /socket: entity not found";
        assert_eq!(chosen("/socket", "", Some(NotFound)), missing);
    }
}
