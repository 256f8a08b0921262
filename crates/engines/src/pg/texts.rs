//! The texts that a connection knows, and whether arguments fit them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::types::Type;

use super::failure::Failure;
use super::text;
use super::value::{is_portable, type_of};
use store::{Args, Sql, Val};

/// What is known of a text. `S` is what the server remembers it by.
pub(super) struct Known<S> {
    pub(super) text: Cow<'static, str>,
    pub(super) parameters: usize,
    /// `None`: it is sent as text with each use.
    pub(super) statement: Option<S>,
}

/// Texts that are not known yet, or what is wrong with one that can never be used.
pub(super) type News<S> = Result<Vec<(Sql, Known<S>)>, (Sql, Failure)>;

/// The texts that are known. A constant may stand in several places of the program, so its place
/// only saves reading it again.
pub(super) struct Texts<S> {
    by_place: HashMap<(usize, usize), Arc<Known<S>>>,
    by_text: HashMap<&'static str, Arc<Known<S>>>,
}

impl<S> Default for Texts<S> {
    fn default() -> Self {
        Self { by_place: HashMap::new(), by_text: HashMap::new() }
    }
}

impl<S> Texts<S> {
    pub(super) fn get(&mut self, sql: Sql) -> Option<Arc<Known<S>>> {
        let place = place(sql);
        if let Some(known) = self.by_place.get(&place) {
            return Some(Arc::clone(known));
        }
        let known = self.by_text.get(sql.0)?;
        self.by_place.insert(place, Arc::clone(known));
        Some(Arc::clone(known))
    }

    /// Those of them that are not known yet, each once; or what is wrong with the first that can
    /// never be used.
    pub(super) fn news(&mut self, texts: impl Iterator<Item = Sql>) -> News<S> {
        let mut news: Vec<(Sql, Known<S>)> = Vec::new();
        for sql in texts {
            if self.get(sql).is_some() || news.iter().any(|(known, _)| *known == sql) {
                continue;
            }
            let parameters = text::parameters(sql.0).map_err(|why| (sql, misuse(&why, sql)))?;
            let text = text::of_statement(sql.0);
            news.push((sql, Known { text, parameters, statement: None }));
        }
        Ok(news)
    }

    pub(super) fn learn(&mut self, news: impl IntoIterator<Item = (Sql, Known<S>)>) {
        self.by_text.extend(news.into_iter().map(|(sql, known)| (sql.0, Arc::new(known))));
    }
}

impl<S> Known<S> {
    /// Whether these arguments fit; `types` are those that the server says.
    pub(super) fn check(
        &self,
        sql: Sql,
        args: &Args,
        types: impl FnOnce(&S) -> &[Type],
    ) -> Result<(), Failure> {
        if self.parameters != args.len() {
            let why = format!("{} arguments for {} parameters", args.len(), self.parameters);
            return Err(misuse(&why, sql));
        }
        let Some(statement) = &self.statement else { return Ok(()) };
        for (index, (value, kind)) in args.iter().zip(types(statement)).enumerate() {
            let given = type_of(value);
            if *value != Val::Null && given != *kind {
                let why = format!("argument {} is {given} for a {kind}", index + 1);
                return Err(misuse(&why, sql));
            }
        }
        Ok(())
    }

    /// A prepared statement must take the types that exist on every engine.
    pub(super) fn check_types(&self, sql: Sql, types: &[Type]) -> Result<(), Failure> {
        if types.len() != self.parameters {
            return Err(misuse("the server counts other parameters", sql));
        }
        match types.iter().enumerate().find(|(_, kind)| !is_portable(kind)) {
            None => Ok(()),
            Some((index, kind)) => {
                let why = format!("parameter {} is {kind}: CAST it to BIGINT or TEXT", index + 1);
                Err(misuse(&why, sql))
            }
        }
    }
}

/// What a text is told from others by, quickly: constants stay where they are.
pub(super) fn place(sql: Sql) -> (usize, usize) {
    (sql.0.as_ptr().addr(), sql.0.len())
}

pub(super) fn misuse(why: &str, sql: Sql) -> Failure {
    Failure::Own(format!("{why}, in: {}", sql.0))
}
