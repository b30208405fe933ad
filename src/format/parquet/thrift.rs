//! As much of the Thrift compact protocol as it takes to look into a struct before its decoder does. `None` everywhere: bytes that are
//! no such struct.

/// Type of 32-bit integers.
pub(super) const I32: u8 = 5;
/// Type of 64-bit integers.
pub(super) const I64: u8 = 6;
/// Type of binaries and texts.
pub(super) const BINARY: u8 = 8;
/// Type of lists.
pub(super) const LIST: u8 = 9;
/// Type of structs.
pub(super) const STRUCT: u8 = 12;

/// A position in Thrift structs.
pub(super) struct Thrift<'a> {
    /// What is still to be read.
    pub(super) bytes: &'a [u8],
}

/// Structs within structs: page headers have three levels.
const DEEPEST: usize = 16;

impl<'a> Thrift<'a> {
    /// Calls `visit` with number and type of every field of a struct. It has to read or skip the field's value.
    pub(super) fn fields(&mut self, visit: &mut dyn FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut last = 0i64;
        while let Some((kind, number)) = self.field(last)? {
            last = number;
            visit(self, number, kind)?;
        }
        Some(())
    }

    /// Calls `visit` for every element of a list. It has to read or skip the element, whose type it is given.
    pub(super) fn elements(&mut self, visit: &mut dyn FnMut(&mut Self, u8) -> Option<()>) -> Option<()> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        (0..count).try_for_each(|_| visit(self, head & 0x0f))
    }

    /// The bytes of a binary or a text.
    pub(super) fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (value, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(value)
    }

    /// Passes over a value of type `kind` that is a field.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        self.pass(kind, DEEPEST)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed integer.
    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Type and number of the next field after field `last`; `None` inside at the end of the struct.
    fn field(&mut self, last: i64) -> Option<Option<(u8, i64)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let number = match head >> 4 {
            0 => self.zigzag()?,
            delta => last.checked_add(i64::from(delta))?,
        };
        Some(Some((head & 0x0f, number)))
    }

    fn take(&mut self, length: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(length).ok()?..)?;
        Some(())
    }

    fn pass(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.take(1),
            4..=I64 => self.varint().map(drop),
            7 => self.take(8),
            BINARY => self.binary().map(drop),
            LIST | 10 => self.elements(&mut |list, kind| match kind {
                // Booleans in lists take a byte each.
                1 | 2 => list.take(1),
                kind => list.pass(kind, depth),
            }),
            STRUCT => self.fields(&mut |inner, _, kind| inner.pass(kind, depth)),
            _ => None,
        }
    }
}
