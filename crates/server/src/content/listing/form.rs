//! The forms that a listing comes in: for people or for programs, and its order. Each is a page of its own in
//! the open-file table; there are twelve of a directory, whatever clients ask for.

use std::cmp::Ordering;

use http1::{Field, Head, media};

use super::Row;

/// The media types, without parameters.
const HTML: &str = "text/html";
const JSON: &str = "application/json";

/// What a listing looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::content) struct Form {
    pub(super) format: Format,
    pub(super) sort: Sort,
    pub(super) order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Html,
    Json,
}

/// What entries are sorted by; directories come first in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Size,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

impl Form {
    /// Of those who ask for nothing else.
    pub(in crate::content) const USUAL: Self =
        Self { format: Format::Html, sort: Sort::Name, order: Order::Ascending };

    /// What a request asks for, by its query and its Accept. Whatever else they say is ignored.
    pub(in crate::content) fn asked_for(head: &Head<'_>) -> Self {
        let mut form = Self::USUAL;
        for parameter in head.query().unwrap_or_default().split(|&byte| byte == b'&') {
            match parameter {
                b"sort=name" => form.sort = Sort::Name,
                b"sort=size" => form.sort = Sort::Size,
                b"sort=time" => form.sort = Sort::Time,
                b"order=asc" => form.order = Order::Ascending,
                b"order=desc" => form.order = Order::Descending,
                _ => {}
            }
        }
        let fields = &head.fields;
        if fields.any_of(&[Field::Accept]) && media::prefers(&fields.all(Field::Accept), JSON, HTML) {
            form.format = Format::Json;
        }
        form
    }

    /// The value of Content-Type.
    pub(in crate::content) fn media_type(self) -> &'static str {
        match self.format {
            Format::Html => "text/html; charset=utf-8",
            Format::Json => JSON,
        }
    }

    /// The name that this listing of a directory has in the table. The usual one has that of the directory;
    /// the others go on with a NUL, which no path holds.
    pub(in crate::content) fn name(self, directory: &[u8]) -> Vec<u8> {
        let mut name = directory.to_vec();
        if self != Self::USUAL {
            name.extend([0, self.format as u8 | (self.order as u8) << 1 | (self.sort as u8) << 2]);
        }
        name
    }

    /// The path, and the form if it is a directory's, of a name in the table.
    pub(in crate::content) fn of(name: &[u8]) -> (&[u8], Self) {
        let [path @ .., 0, number] = name else { return (name, Self::USUAL) };
        let format = if number & 1 == 0 { Format::Html } else { Format::Json };
        let order = if number >> 1 & 1 == 0 { Order::Ascending } else { Order::Descending };
        let sort = match number >> 2 {
            1 => Sort::Size,
            2 => Sort::Time,
            _ => Sort::Name,
        };
        (path, Self { format, sort, order })
    }

    /// The order of entries. Those that are alike in what they are sorted by are in the order of their names.
    pub(super) fn compare(self, a: &Row, b: &Row) -> Ordering {
        let by = match self.sort {
            Sort::Name => a.name.cmp(&b.name),
            // A directory's own size says nothing.
            Sort::Size if a.is_directory() && b.is_directory() => Ordering::Equal,
            Sort::Size => a.stat.size.cmp(&b.stat.size),
            Sort::Time => a.stat.mtime.cmp(&b.stat.mtime),
        };
        let by = if self.order == Order::Ascending { by } else { by.reverse() };
        b.is_directory().cmp(&a.is_directory()).then(by).then_with(|| a.name.cmp(&b.name))
    }

    /// The order in which names are taken where there are more than are shown: only by name can that be told
    /// without a look at each.
    pub(super) fn takes_from_the_end(self) -> bool {
        self.sort == Sort::Name && self.order == Order::Descending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Form> {
        let mut all = Vec::new();
        for format in [Format::Html, Format::Json] {
            for sort in [Sort::Name, Sort::Size, Sort::Time] {
                for order in [Order::Ascending, Order::Descending] {
                    all.push(Form { format, sort, order });
                }
            }
        }
        all
    }

    #[test]
    fn each_form_has_a_name_of_its_own() {
        for form in all() {
            let name = form.name(b"/d/");
            assert_eq!(Form::of(&name), (b"/d/".as_slice(), form));
            assert_eq!(all().into_iter().filter(|other| other.name(b"/d/") == name).count(), 1);
        }
        assert_eq!(Form::USUAL.name(b"/d/"), b"/d/");
        assert_eq!(Form::of(b"/"), (b"/".as_slice(), Form::USUAL));
    }
}
