//! Makes the reply to one request from an entry: by preconditions (RFC 9110 section 13), ranges (section
//! 14), or with the whole file.

use std::ops::Range;

use http1::conditional::{self, Outcome};
use http1::range::{self, ByteRange, Ranges};
use http1::{Field, Fields, Plan, Sheet, Status};

use super::entry::{Facts, Lines, Marks};
use super::request::Request;
use super::table::{Pin, Place};
use super::tables::Tables;

/// Digits of a multipart boundary.
const BOUNDARY_LEN: usize = 32;

/// The fields that may make the reply something other than the whole file.
const JUDGED: &[Field] =
    &[Field::IfNoneMatch, Field::IfModifiedSince, Field::Range, Field::IfMatch, Field::IfUnmodifiedSince];

/// The kind of reply to a request.
pub(super) enum Verdict {
    Whole,
    NotModified,
    PreconditionFailed,
    Part(ByteRange),
    Parts(Vec<ByteRange>),
    /// No requested range exists. Holds the file's size.
    Unsatisfiable(u64),
}

/// Evaluates preconditions and ranges. `max_ranges` is the most ranges that are answered one by one.
#[inline]
pub(super) fn judge(request: &Request<'_>, table: &mut Tables, place: Place, max_ranges: usize) -> Verdict {
    let fields = &request.head.fields;
    if fields.any_of(JUDGED) {
        let (entry, head) = table.entry_and_head(place);
        judge_fields(fields, request.head.terms.body, entry, head, max_ranges)
    } else {
        Verdict::Whole
    }
}

/// Like [`judge`], for an entry that may be bare. `made` has the lines of a bare entry.
pub(super) fn judge_with(
    request: &Request<'_>,
    table: &mut Tables,
    (place, made): (Place, Option<&Lines>),
    max_ranges: usize,
) -> Verdict {
    let fields = &request.head.fields;
    match made {
        Some(lines) if fields.any_of(JUDGED) => {
            let entry = lines.complete(table.entry(place));
            judge_fields(fields, request.head.terms.body, &entry, &lines.bytes, max_ranges)
        }
        Some(_) => Verdict::Whole,
        None => judge(request, table, place, max_ranges),
    }
}

/// Adds those header lines of an entry that `of` selects: kept lines, or lines made for this reply.
#[inline]
pub(super) fn lines(
    plan: &mut Plan<Pin>,
    entry: &Facts,
    made: Option<&Lines>,
    of: impl Fn(&Marks) -> Range<u32>,
) {
    match made {
        None => plan.memory(of(&entry.marks)),
        Some(Lines { bytes, marks }) => {
            let range = of(marks);
            plan.bytes(&bytes[range.start as usize..range.end as usize]);
        }
    }
}

fn judge_fields(fields: &Fields<'_>, is_get: bool, entry: &Facts, head: &[u8], max_ranges: usize) -> Verdict {
    if entry.is_listing() {
        // A listing has no validators, and a part of one listing would not fit another.
        return Verdict::Whole;
    }
    let validators = entry.validators(head);
    match conditional::evaluate(fields, true, &validators) {
        Outcome::NotModified => return Verdict::NotModified,
        Outcome::PreconditionFailed => return Verdict::PreconditionFailed,
        Outcome::Proceed => {}
    }
    // Ranges are defined for GET only (section 14.2).
    let Some(value) =
        fields.sole(Field::Range).filter(|_| is_get && conditional::range_applies(fields, &validators))
    else {
        return Verdict::Whole;
    };
    match range::parse(value, entry.size(), max_ranges) {
        Ranges::Whole => Verdict::Whole,
        Ranges::Unsatisfiable => Verdict::Unsatisfiable(entry.size()),
        Ranges::Satisfiable(ranges) => match ranges[..] {
            [range] => Verdict::Part(range),
            // Several parts of a coded file: the standard does not settle whether Content-Encoding refers
            // to the parts or to the multipart around them. Ignoring the Range field is always allowed
            // (section 14.2).
            _ if !entry.coding_line(head).is_empty() => Verdict::Whole,
            _ => Verdict::Parts(ranges.to_vec()),
        },
    }
}

/// 200: header lines and body as the entry has them.
#[inline]
pub(super) fn whole(
    table: &mut Tables,
    (place, made): (Place, Option<&Lines>),
    request: &Request<'_>,
    sheet: Sheet<Pin>,
) -> Plan<Pin> {
    let mut plan = Plan::new(sheet, Status::OK, request.head.terms, request.stamp);
    plan.pin(table.pin(place));
    let entry = table.entry(place);
    let body = entry.marks.body;
    lines(&mut plan, entry, made, |marks| 0..marks.body);
    plan.end_of_head();
    if entry.is_in_memory() {
        plan.memory(body..entry.memory_len);
    } else {
        plan.file(0, entry.size());
    }
    plan
}

/// 304: the client's copy is still right.
pub(super) fn not_modified(
    table: &mut Tables,
    (place, made): (Place, Option<&Lines>),
    request: &Request<'_>,
    sheet: Sheet<Pin>,
) -> Plan<Pin> {
    let mut plan = Plan::new(sheet, Status::NOT_MODIFIED, request.head.terms, request.stamp);
    plan.pin(table.pin(place));
    lines(&mut plan, table.entry(place), made, |marks| marks.validators..marks.body);
    plan.end_of_head();
    plan
}

/// 206 with one range.
pub(super) fn part(
    table: &mut Tables,
    (place, made): (Place, Option<&Lines>),
    range: ByteRange,
    request: &Request<'_>,
    sheet: Sheet<Pin>,
) -> Plan<Pin> {
    let mut plan = Plan::new(sheet, Status::PARTIAL_CONTENT, request.head.terms, request.stamp);
    plan.pin(table.pin(place));
    let entry = table.entry(place);
    content_range(&mut plan, range, entry.size());
    plan.field("Content-Length", itoa::Buffer::new().format(range.len).as_bytes());
    lines(&mut plan, entry, made, |marks| marks.media_type..marks.body);
    plan.end_of_head();
    piece(&mut plan, entry, range);
    plan
}

/// 206 with several ranges, as multipart/byteranges (section 14.6).
pub(super) fn parts(
    table: &mut Tables,
    (place, made): (Place, Option<&Lines>),
    ranges: &[ByteRange],
    request: &Request<'_>,
    sheet: Sheet<Pin>,
) -> Plan<Pin> {
    let boundary = boundary(table, request.asking.now.ms);
    let mut plan = Plan::new(sheet, Status::PARTIAL_CONTENT, request.head.terms, request.stamp);
    plan.pin(table.pin(place));
    let (entry, head) = table.entry_and_head(place);
    let (marks, head) = made.map_or((&entry.marks, head), |lines| (&lines.marks, &lines.bytes));
    let media_type = &head[marks.media_type as usize..marks.coding as usize];
    let size_len = decimals(entry.size());
    let len: u64 = ranges
        .iter()
        .map(|range| {
            let head = PART.len() + BOUNDARY_LEN + media_type.len() + CONTENT_RANGE.len();
            (head + decimals(range.first) + decimals(range.last()) + size_len) as u64 + range.len
        })
        .sum();
    let len = len + (END.len() + BOUNDARY_LEN) as u64;
    plan.field("Content-Length", itoa::Buffer::new().format(len).as_bytes());
    plan.bytes(b"Content-Type: multipart/byteranges; boundary=");
    plan.bytes(&boundary);
    plan.bytes(b"\r\n");
    lines(&mut plan, entry, made, |marks| marks.coding..marks.body);
    plan.end_of_head();
    for &range in ranges {
        plan.bytes(b"\r\n--");
        plan.bytes(&boundary);
        plan.bytes(b"\r\n");
        plan.bytes(media_type);
        content_range(&mut plan, range, entry.size());
        plan.bytes(b"\r\n");
        piece(&mut plan, entry, range);
    }
    plan.bytes(b"\r\n--");
    plan.bytes(&boundary);
    plan.bytes(b"--\r\n");
    plan
}

/// The text around the boundary of a part, around the numbers of its Content-Range, and around the last
/// boundary.
const PART: &str = "\r\n--\r\n";
const CONTENT_RANGE: &str = "Content-Range: bytes -/\r\n\r\n";
const END: &str = "\r\n----\r\n";

pub(super) fn content_range(plan: &mut Plan<Pin>, range: ByteRange, size: u64) {
    let mut digits = itoa::Buffer::new();
    plan.bytes(b"Content-Range: bytes ");
    plan.bytes(digits.format(range.first).as_bytes());
    plan.bytes(b"-");
    plan.bytes(digits.format(range.last()).as_bytes());
    plan.bytes(b"/");
    plan.bytes(digits.format(size).as_bytes());
    plan.bytes(b"\r\n");
}

/// A range of the body, from memory or from the file.
pub(super) fn piece(plan: &mut Plan<Pin>, entry: &Facts, range: ByteRange) {
    if entry.is_in_memory() {
        let from = entry.marks.body + range.first as u32;
        plan.memory(from..from + range.len as u32);
    } else {
        plan.file(range.first, range.len);
    }
}

/// A boundary that the author of a file could not predict and put into the file.
fn boundary(table: &mut Tables, now_ms: u64) -> [u8; BOUNDARY_LEN] {
    let (high, low) = (table.random(now_ms), table.random(!now_ms));
    let bits = u128::from(high) << 64 | u128::from(low);
    std::array::from_fn(|i| b"0123456789abcdef"[(bits >> (4 * i)) as usize & 15])
}

fn decimals(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
