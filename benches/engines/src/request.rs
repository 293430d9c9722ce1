//! The input of an engine for one request: names by their section, and values that are not yet
//! converted for any engine.

use spoolgate_wire::amount::Amount;

/// A decimal number, exactly and as the others hold it.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// The number.
    pub amount: Amount,
    /// The double that is nearest to it.
    pub double: f64,
    /// Ten-thousandths, cut.
    pub ten_thousandths: i64,
}

impl Exact {
    /// Reads a number as requests write it.
    ///
    /// # Panics
    /// On a text that is none: they are written here.
    pub fn read(text: &str) -> Exact {
        let amount = Amount::parse_wire(text).expect("a number");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction:0<4.4}");
        Exact {
            amount,
            double: text.parse().expect("a number"),
            ten_thousandths: digits.parse().expect("a short number"),
        }
    }

    /// A number of ten-thousandths.
    pub fn ten_thousandths(count: i64) -> Exact {
        let sign = if count < 0 { "-" } else { "" };
        let count = count.unsigned_abs();
        Exact::read(&format!("{sign}{}.{:04}", count / 10_000, count % 10_000))
    }
}

/// A value, or that there is none.
#[derive(Clone, Copy, Debug)]
pub enum Plain<'a> {
    /// A decimal number.
    Decimal(Exact),
    /// A whole number, or minutes since midnight.
    Whole(i64),
    /// A name.
    Text(&'a str),
    /// The request leaves it out.
    Absent,
    /// Nobody knows it. Engines other than ours have no word for that: it is left out.
    Unknown,
}

/// Names by their room: `order.size` is `size` in `order`. With each the place of its value.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Rooms, each with its names.
    pub rooms: Vec<(String, Vec<(String, usize)>)>,
}

impl Layout {
    /// Of names with one point in each.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Layout {
        let mut rooms: Vec<(String, Vec<(String, usize)>)> = Vec::new();
        for (place, name) in names.into_iter().enumerate() {
            let (room, name) = name.split_once('.').unwrap_or(("request", name));
            let entry = (name.to_owned(), place);
            match rooms.iter_mut().find(|(known, _)| known == room) {
                Some((_, entries)) => entries.push(entry),
                None => rooms.push((room.to_owned(), vec![entry])),
            }
        }
        Layout { rooms }
    }
}
