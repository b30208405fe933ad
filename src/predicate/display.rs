//! Predicates as readable text, close to SQL, for EXPLAIN and messages.

use std::fmt;

use super::{BlockPredicate, CompareOp, Scalar, TextPattern};

/// IN lists longer than this are cut in the text.
const LIST_SHOWN: usize = 10;

impl fmt::Display for CompareOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
            Self::DistinctFrom => "IS DISTINCT FROM",
            Self::NotDistinctFrom => "IS NOT DISTINCT FROM",
        })
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            // `{:?}` keeps the point of whole numbers and is the shortest text that reads back.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Decimal { value, scale } => write_decimal(f, *value, *scale),
            Self::Str(text) => write_quoted(f, text),
            Self::Bytes(bytes) => {
                f.write_str("'")?;
                for byte in bytes {
                    write!(f, "\\x{byte:02X}")?;
                }
                f.write_str("'::BLOB")
            }
            Self::TimestampNs(nanos) => {
                let (days, rest) = (nanos.div_euclid(DAY_NANOS.into()), nanos.rem_euclid(DAY_NANOS.into()));
                match (i64::try_from(days).ok().and_then(civil), i64::try_from(rest)) {
                    (Some(date), Ok(rest)) => {
                        write!(f, "'{date} ")?;
                        write_time(f, rest)?;
                        f.write_str("'")
                    }
                    _ => write!(f, "{nanos}ns"),
                }
            }
            Self::Date(days) => match civil(*days) {
                Some(date) => write!(f, "'{date}'"),
                None => write!(f, "{days}d"),
            },
            Self::TimeNs(nanos) => {
                f.write_str("'")?;
                write_time(f, *nanos)?;
                f.write_str("'")
            }
        }
    }
}

impl fmt::Display for BlockPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(reason) => write!(f, "unknown ({reason})"),
            Self::Constant(Some(value)) => write!(f, "{value}"),
            Self::Constant(None) => f.write_str("NULL"),
            Self::TimeRange { column, start, end } => {
                let column = Name(column);
                match (start.map(Scalar::TimestampNs), end.map(Scalar::TimestampNs)) {
                    (Some(start), Some(end)) => write!(f, "{column} >= {start} AND {column} < {end}"),
                    (Some(start), None) => write!(f, "{column} >= {start}"),
                    (None, Some(end)) => write!(f, "{column} < {end}"),
                    (None, None) => write!(f, "{column} = {column}"),
                }
            }
            Self::Compare { column, op, value } => write!(f, "{} {op} {value}", Name(column)),
            Self::InSet { column, values } => {
                write!(f, "{} IN (", Name(column))?;
                for (i, value) in values.iter().take(LIST_SHOWN).enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                match values.len().checked_sub(LIST_SHOWN) {
                    Some(more) if more > 0 => write!(f, ", … {more} more)"),
                    _ => f.write_str(")"),
                }
            }
            Self::IsNull { column } => write!(f, "{} IS NULL", Name(column)),
            Self::Text { column, pattern } => write!(f, "{} {pattern}", Name(column)),
            Self::HasToken { column, token } => {
                write!(f, "has_token({}, ", Name(column))?;
                write_quoted(f, token)?;
                f.write_str(")")
            }
            Self::DynamicPathExists { column, path } => write!(f, "{} has path {}", Name(column), Path(path)),
            Self::DynamicPathEquals { column, path, value } => {
                write!(f, "{}->>{} = ", Name(column), Path(path))?;
                write_quoted(f, value)
            }
            Self::And(parts) => write_connective(f, parts, " AND ", "true"),
            Self::Or(parts) => write_connective(f, parts, " OR ", "false"),
            Self::Not(part) => match part.as_ref() {
                Self::IsNull { column } => write!(f, "{} IS NOT NULL", Name(column)),
                part => write!(f, "NOT ({part})"),
            },
        }
    }
}

impl fmt::Display for TextPattern {
    /// `LIKE '…'`, with `~` after the pattern when a match of it is necessary but not sufficient.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut like = String::new();
        for (i, piece) in self.pieces.iter().enumerate() {
            if i > 0 || !self.anchored_start {
                like.push('%');
            }
            for c in piece.chars() {
                if matches!(c, '%' | '_' | '\\') {
                    like.push('\\');
                }
                like.push(c);
            }
        }
        if !self.anchored_end || self.pieces.is_empty() {
            like.push('%');
        }
        f.write_str(if self.case_insensitive { "ILIKE " } else { "LIKE " })?;
        write_quoted(f, &like)?;
        f.write_str(if self.exact { "" } else { "~" })
    }
}

fn write_connective(f: &mut fmt::Formatter<'_>, parts: &[BlockPredicate], word: &str, empty: &str) -> fmt::Result {
    if parts.is_empty() {
        return f.write_str(empty);
    }
    for (i, part) in parts.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { word })?;
        match part {
            BlockPredicate::And(_) | BlockPredicate::Or(_) | BlockPredicate::TimeRange { .. } => write!(f, "({part})")?,
            part => write!(f, "{part}")?,
        }
    }
    Ok(())
}

/// A column name, quoted unless it is plain.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self
            .0
            .bytes()
            .enumerate()
            .all(|(i, b)| b == b'_' || b.is_ascii_lowercase() || (i > 0 && b.is_ascii_digit()));
        if plain && !self.0.is_empty() { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

/// A path of member names as JSONPath.
struct Path<'a>(&'a [String]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'$")?;
        for member in self.0 {
            write!(f, ".\"{}\"", member.replace('\'', "''"))?;
        }
        f.write_str("'")
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: i128, scale: u8) -> fmt::Result {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let (sign, point) = (if value < 0 { "-" } else { "" }, if scale == 0 { "" } else { "." });
    write!(f, "{sign}{whole}{point}{fraction}")
}

const DAY_NANOS: i64 = 86_400_000_000_000;

fn write_time(f: &mut fmt::Formatter<'_>, nanos: i64) -> fmt::Result {
    let (seconds, fraction) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    match fraction {
        0 => Ok(()),
        fraction if fraction % 1_000_000 == 0 => write!(f, ".{:03}", fraction / 1_000_000),
        fraction if fraction % 1_000 == 0 => write!(f, ".{:06}", fraction / 1_000),
        fraction => write!(f, ".{fraction:09}"),
    }
}

/// Days since the Unix epoch as a date of the proleptic Gregorian calendar, for years that have four digits. The arithmetic
/// counts from 1 March of year 0, so that leap days end a year, in eras of 400 years (146,097 days).
fn civil(days: i64) -> Option<String> {
    let from_march = days.checked_add(719_468)?;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era.checked_mul(400)? + year_of_era + i64::from(month <= 2);
    (1..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: Scalar) -> String {
        value.to_string()
    }

    #[test]
    fn scalars() {
        assert_eq!(shown(Scalar::Str("it's".into())), "'it''s'");
        assert_eq!(shown(Scalar::Float(1.0)), "1.0");
        assert_eq!(shown(Scalar::Decimal { value: -5, scale: 2 }), "-0.05");
        assert_eq!(shown(Scalar::Decimal { value: 1234, scale: 2 }), "12.34");
        assert_eq!(shown(Scalar::Decimal { value: 7, scale: 0 }), "7");
        assert_eq!(shown(Scalar::Bytes(vec![0, 255])), "'\\x00\\xFF'::BLOB");
        assert_eq!(shown(Scalar::TimestampNs(1_767_225_600_000_000_001)), "'2026-01-01 00:00:00.000000001'");
        assert_eq!(shown(Scalar::TimestampNs(-1_000)), "'1969-12-31 23:59:59.999999'");
        assert_eq!(shown(Scalar::TimestampNs(i128::MAX)), format!("{}ns", i128::MAX));
        assert_eq!(shown(Scalar::Date(11_016)), "'2000-02-29'");
        assert_eq!(shown(Scalar::Date(-719_162)), "'0001-01-01'");
        assert_eq!(shown(Scalar::Date(i64::MAX)), format!("{}d", i64::MAX));
        assert_eq!(shown(Scalar::TimeNs(3_661_500_000_000)), "'01:01:01.500'");
    }

    #[test]
    fn predicates() {
        let a = || BlockPredicate::Compare { column: "a".into(), op: CompareOp::GtEq, value: Scalar::Int(5) };
        let null = BlockPredicate::IsNull { column: "My \"col\"".into() };
        let tree =
            BlockPredicate::And(vec![a(), BlockPredicate::Or(vec![null.clone(), BlockPredicate::Constant(None)])]);
        assert_eq!(tree.to_string(), "a >= 5 AND (\"My \"\"col\"\"\" IS NULL OR NULL)");
        assert_eq!(BlockPredicate::Not(Box::new(null)).to_string(), "\"My \"\"col\"\"\" IS NOT NULL");
        assert_eq!(BlockPredicate::Not(Box::new(a())).to_string(), "NOT (a >= 5)");
        let values = (0..12).map(Scalar::Int).collect();
        let list = BlockPredicate::InSet { column: "a".into(), values };
        assert_eq!(list.to_string(), "a IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 2 more)");
        let range = BlockPredicate::TimeRange { column: "ts".into(), start: Some(0), end: None };
        assert_eq!(range.to_string(), "ts >= '1970-01-01 00:00:00'");
        let text = |pattern| BlockPredicate::Text { column: "m".into(), pattern }.to_string();
        assert_eq!(text(TextPattern::prefix("50%")), "m LIKE '50\\%%'");
        assert_eq!(text(TextPattern::contains("")), "m LIKE '%'");
        let pieces = vec!["a".into(), "b".into()];
        let pattern =
            TextPattern { pieces, anchored_start: false, anchored_end: true, case_insensitive: true, exact: false };
        assert_eq!(text(pattern), "m ILIKE '%a%b'~");
        let path = vec!["http.method".to_owned()];
        let equals = BlockPredicate::DynamicPathEquals { column: "attributes".into(), path, value: "GET".into() };
        assert_eq!(equals.to_string(), "attributes->>'$.\"http.method\"' = 'GET'");
    }
}
