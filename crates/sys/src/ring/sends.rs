//! What is being sent: the bytes belong to the kernel until the operation has completed. So they are moved
//! in here, and come back with the completion, whatever becomes of the connection meanwhile.

#[cfg(feature = "quarantine")]
use super::quarantine::Region;

/// Sends in flight, each in a numbered place.
#[derive(Debug, Default)]
pub(super) struct Sends {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
enum Place {
    Free,
    /// The caller's name for the send, and its bytes. Their vector isn't touched before the completion, so
    /// that they stay where they are.
    Taken {
        token: u64,
        bytes: Vec<u8>,
        #[cfg(feature = "quarantine")]
        _sent: Region,
    },
}

impl Sends {
    /// Takes bytes in. Returns the number of their place, where they are, and how many.
    pub(super) fn insert(&mut self, token: u64, bytes: Vec<u8>) -> (u32, *const u8, u32) {
        let length = bytes.len() as u32;
        #[cfg(not(feature = "quarantine"))]
        let start = bytes.as_ptr();
        #[cfg(feature = "quarantine")]
        let (sent, start) = Region::with(&bytes);
        let place = Place::Taken {
            token,
            bytes,
            #[cfg(feature = "quarantine")]
            _sent: sent,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        };
        (number, start, length)
    }

    /// Gives the bytes back: the operation has completed. `None`: there was none.
    pub(super) fn remove(&mut self, number: u32) -> Option<(u64, Vec<u8>)> {
        match std::mem::replace(self.places.get_mut(number as usize)?, Place::Free) {
            Place::Free => None,
            Place::Taken { token, bytes, .. } => {
                self.free.push(number);
                Some((token, bytes))
            }
        }
    }

    /// The place of what is sent under this name.
    pub(super) fn find(&self, of: u64) -> Option<u32> {
        let is_it = |place: &Place| matches!(place, Place::Taken { token, .. } if *token == of);
        self.places.iter().position(is_it).map(|number| number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_once_and_places_are_used_again() {
        let mut sends = Sends::default();
        let (first, start, length) = sends.insert(7, b"one".to_vec());
        let (second, ..) = sends.insert(8, b"second".to_vec());
        assert_eq!(
            (sends.find(7), sends.find(8), sends.find(9), length),
            (Some(first), Some(second), None, 3)
        );
        let (token, bytes) = sends.remove(first).unwrap();
        assert_eq!((token, bytes.as_slice()), (7, &b"one"[..]));
        assert!(cfg!(feature = "quarantine") || bytes.as_ptr() == start);
        assert!(sends.remove(first).is_none() && sends.remove(99).is_none());
        assert_eq!(sends.insert(9, b"third".to_vec()).0, first);
        assert_eq!(sends.find(7), None);
    }
}
