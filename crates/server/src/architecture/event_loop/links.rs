//! The connections to applications' servers that an event loop watches. Each has a place for as long as it
//! lives, and is registered once, under the name of that place. The place says which client's request uses
//! the connection now. So it passes from one request to the next without a call.

use super::Name;
use crate::architecture::common::token::{Kind, Token};
use crate::slab::Slab;

/// The places.
pub(super) struct Links {
    places: Slab<Place>,
    /// The generation of the last place that was taken.
    generation: u16,
}

struct Place {
    generation: u16,
    /// The connection whose request uses it. `None`: it is kept for another request.
    user: Option<Name>,
}

impl Links {
    pub(super) fn new() -> Self {
        Self { places: Slab::new(), generation: 0 }
    }

    /// Gives the connection of that name, or a new one, to a user. Returns its name.
    pub(super) fn give(&mut self, name: u64, user: Name) -> u64 {
        if let Some(place) = self.place(name) {
            place.user = Some(user);
            return name;
        }
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = self.places.insert(Place { generation, user: Some(user) });
        Token { kind: Kind::Application, generation, index }.number()
    }

    /// The user of the connection. `None`: it is kept, or closed.
    pub(super) fn user(&mut self, name: u64) -> Option<Name> {
        self.place(name)?.user
    }

    /// The connection is kept for another request.
    pub(super) fn keep(&mut self, name: u64) {
        if let Some(place) = self.place(name) {
            place.user = None;
        }
    }

    /// The connection is closed.
    pub(super) fn forget(&mut self, name: u64) {
        if let Some(token) = Token::from_number(name)
            && self.place(name).is_some()
        {
            self.places.remove(token.index);
        }
    }

    fn place(&mut self, name: u64) -> Option<&mut Place> {
        let token = Token::from_number(name).filter(|token| token.kind == Kind::Application)?;
        self.places.get_mut(token.index).filter(|place| place.generation == token.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_somebodys_until_it_is_forgotten() {
        let (mut links, [one, other]) = (Links::new(), [1, 2].map(|index| Name { index, generation: 7 }));
        let name = links.give(0, one);
        assert_eq!(links.user(name), Some(one));
        links.keep(name);
        assert_eq!(links.user(name), None);
        assert_eq!(links.give(name, other), name);
        assert_eq!(links.user(name), Some(other));
        links.forget(name);
        let next = links.give(0, one);
        assert_eq!((links.user(name), links.user(next)), (None, Some(one)));
        assert_ne!(name, next);
    }
}
