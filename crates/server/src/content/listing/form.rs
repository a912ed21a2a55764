//! The forms of a listing: for people or for programs, and the sort order. Each form has its own page in
//! the open-file table. There are twelve for a directory, whatever clients ask for.

use std::cmp::Ordering;

use http1::{Field, Head, media};

use super::Row;

/// The media types, without parameters.
const HTML: &str = "text/html";
const JSON: &str = "application/json";

/// The form of a listing.
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

/// What entries are sorted by. Directories always come first.
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
    /// The form for clients that ask for no other.
    pub(in crate::content) const USUAL: Self =
        Self { format: Format::Html, sort: Sort::Name, order: Order::Ascending };

    /// The form that a request asks for, by its query and its Accept. Anything else in them is ignored.
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

    /// The name of this listing of a directory in the table. The usual form has the directory's name. The
    /// other forms add a NUL, which no path contains.
    pub(in crate::content) fn name(self, directory: &[u8]) -> Vec<u8> {
        let mut name = directory.to_vec();
        if self != Self::USUAL {
            name.extend([0, self.format as u8 | (self.order as u8) << 1 | (self.sort as u8) << 2]);
        }
        name
    }

    /// The path of a name in the table, and the form if it is a directory's.
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

    /// The order of entries. Entries that are equal in the sort key are ordered by name.
    pub(super) fn compare(self, a: &Row, b: &Row) -> Ordering {
        let by = match self.sort {
            Sort::Name => a.name.cmp(&b.name),
            // A directory's own size means nothing.
            Sort::Size if a.is_directory() && b.is_directory() => Ordering::Equal,
            Sort::Size => a.stat.size.cmp(&b.stat.size),
            Sort::Time => a.stat.mtime.cmp(&b.stat.mtime),
        };
        let by = if self.order == Order::Ascending { by } else { by.reverse() };
        b.is_directory().cmp(&a.is_directory()).then(by).then_with(|| a.name.cmp(&b.name))
    }

    /// Whether to select the last names if there are more than are shown. Only for sorting by name can
    /// names be selected without a check of each file.
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
