//! Reads a job of ranks that exchange messages.

use policy::layout::{Request, Shape};

use super::setting::require_one;
use super::table::Table;
use super::value;
use crate::keys::job;
use crate::message::{Message, Pattern};

pub(super) fn message(table: &Table<'_, '_>) -> Option<Message> {
    let request = request(table);
    let pattern = table.read(&job::PATTERN, value::named(&Pattern::ALL, Pattern::name));
    let bytes = table.read(&job::BYTES, value::count);
    let rounds = table.read(&job::EXCHANGES, value::count);
    let (compute, sleep) = (table.distribution(&job::BEFORE_SENDING), table.distribution(&job::SLEEP));
    let waiting = table.read(&job::RECEIVING, value::waiting);
    let weight = table.read(&job::WEIGHT, value::count).unwrap_or(1);
    let (request, pattern, bytes, rounds, waiting) = (request?, pattern?, bytes?, rounds?, waiting?);
    Some(Message { request, pattern, bytes, rounds, compute, sleep, waiting, weight })
}

fn request(table: &Table<'_, '_>) -> Option<Request> {
    if require_one(table, &job::RANKS, &job::MESH, "both say how many ranks there are: keep one")? {
        return table.read(&job::RANKS, value::count).map(Request::Ranks);
    }
    let shape: Shape = table.read(&job::MESH, value::shape)?;
    if shape.cells() < 2 {
        let message = "one rank has no other to exchange messages with";
        return table.report.reject(table.place(&job::MESH), message, value::example(&job::MESH));
    }
    Some(Request::Rectangle(shape))
}
