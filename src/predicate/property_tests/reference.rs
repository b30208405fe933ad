//! SQL conditions with DuckDB's semantics written down a second time, value by value, and their JSON as the shim sends it.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::data::*;
use crate::predicate::{CompareOp, Outcomes, fold};

/// The row makes the query fail: nothing is claimed about it.
#[derive(Debug)]
pub struct Raised;

/// A column by number, possibly converted.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    pub column: usize,
    pub cast: Option<(Ty, bool)>,
}

impl Operand {
    pub fn random(random: &mut Random) -> Self {
        let column = random.below(COLUMNS.len());
        let targets = cast_targets(COLUMNS[column].1);
        let cast = (!targets.is_empty() && random.one_in(2)).then(|| (*random.pick(&targets), random.one_in(5)));
        Self { column, cast }
    }

    pub fn ty(self) -> Ty {
        self.cast.map_or(COLUMNS[self.column].1, |(ty, _)| ty)
    }

    fn json(self) -> Value {
        let (name, ty) = COLUMNS[self.column];
        let column = json!({"k": "col", "name": name, "type": ty.name()});
        match self.cast {
            None => column,
            Some((target, is_try)) => json!({"k": "cast", "arg": column, "type": target.name(), "try": is_try}),
        }
    }

    fn value(self, data: &Data, row: usize) -> Result<Val, Raised> {
        let value = data.columns[self.column][row].clone();
        match self.cast {
            None => Ok(value),
            Some((target, is_try)) => match (convert(&value, COLUMNS[self.column].1, target), is_try) {
                (Some(value), _) => Ok(value),
                (None, true) => Ok(Val::Null),
                (None, false) => Err(Raised),
            },
        }
    }
}

fn cast_targets(ty: Ty) -> Vec<Ty> {
    match ty {
        Ty::Int(..) => vec![
            TINYINT,
            INTEGER,
            BIGINT,
            UBIGINT,
            HUGEINT,
            Ty::Float,
            Ty::Double,
            Ty::Dec(1, "DECIMAL(25,1)"),
            Ty::Dec(3, "DECIMAL(7,3)"),
        ],
        Ty::Float => vec![Ty::Double],
        Ty::Dec(..) => vec![Ty::Dec(4, "DECIMAL(20,4)"), Ty::Dec(2, "DECIMAL(12,2)")],
        Ty::Time(_, "TIMESTAMP WITH TIME ZONE") => vec![],
        Ty::Time(..) => vec![TIMESTAMP_S, TIMESTAMP_MS, TIMESTAMP, TIMESTAMP_NS, Ty::Date],
        Ty::Date => vec![TIMESTAMP, TIMESTAMP_NS, TIMESTAMP_S],
        _ => vec![],
    }
}

const INFINITE: i64 = i64::MAX;

/// DuckDB's conversions, `None` for an error. After `cast_operators.cpp` of 2.0.0.
fn convert(value: &Val, from: Ty, to: Ty) -> Option<Val> {
    let timestamp = |micros_or_ticks: i128| i64::try_from(micros_or_ticks).ok();
    match (value, to) {
        (Val::Null, _) => Some(Val::Null),
        (Val::Int(v), Ty::Int(min, max, _)) => (min..=max).contains(v).then_some(Val::Int(*v)),
        #[expect(clippy::cast_precision_loss, reason = "the conversion under test")]
        (Val::Int(v), Ty::Double) => Some(Val::Float(*v as f64)),
        #[expect(clippy::cast_precision_loss, reason = "the conversion under test")]
        (Val::Int(v), Ty::Float) => Some(Val::Float(f64::from(*v as f32))),
        (Val::Int(v), Ty::Dec(scale, name)) => decimal(v * 10i128.pow(u32::from(scale)), scale, name),
        (Val::Float(v), Ty::Double) => Some(Val::Float(*v)),
        (Val::Dec(v, old), Ty::Dec(scale, name)) => decimal(v * 10i128.pow(u32::from(scale - old)), scale, name),
        (Val::Ticks(v), Ty::Time(to_nanos, _)) => {
            let Ty::Time(from_nanos, _) = from else { return None };
            ticks_to(*v, from_nanos, to_nanos).map(Val::Ticks)
        }
        (Val::Ticks(v), Ty::Date) => {
            let Ty::Time(from_nanos, _) = from else { return None };
            let micros = ticks_to(*v, from_nanos, 1_000)?;
            Some(Val::Date(match micros {
                INFINITE => i32::MAX,
                v if v == -INFINITE => -i32::MAX,
                v => i32::try_from(v.div_euclid(86_400_000_000)).ok()?,
            }))
        }
        (Val::Date(days), Ty::Time(nanos, _)) => {
            let micros = match *days {
                i32::MAX => INFINITE,
                v if v == -i32::MAX => -INFINITE,
                v => timestamp(i128::from(v) * 86_400_000_000).filter(|v| *v != INFINITE && *v > -INFINITE)?,
            };
            ticks_to(micros, 1_000, nanos).map(Val::Ticks)
        }
        _ => None,
    }
}

fn decimal(value: i128, scale: u8, name: &str) -> Option<Val> {
    let width: u32 = name.trim_start_matches("DECIMAL(").split(',').next().unwrap().parse().unwrap();
    (value.abs() < 10i128.pow(width)).then_some(Val::Dec(value, scale))
}

fn ticks_to(value: i64, from: i64, to: i64) -> Option<i64> {
    if from == to || value == INFINITE || value == -INFINITE {
        return Some(value);
    }
    if from > to {
        return value.checked_mul(from / to);
    }
    let power = to / from;
    let mut result = value / (power / 2);
    result += if result < 0 { -1 } else { 1 };
    result /= 2;
    if to > 1_000 {
        let micros = result.checked_mul(to / 1_000)?;
        if micros == INFINITE || micros == -INFINITE {
            return None;
        }
    }
    Some(result)
}

/// The order of two values of one type, neither NULL.
fn order(a: &Val, b: &Val) -> Ordering {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Int(a), Val::Int(b)) | (Val::Dec(a, _), Val::Dec(b, _)) => a.cmp(b),
        (Val::Float(a), Val::Float(b)) => {
            let key = |v: f64| (v.is_nan(), if v.is_nan() || v == 0.0 { 0.0 } else { v });
            key(*a).partial_cmp(&key(*b)).unwrap()
        }
        (Val::Str(a), Val::Str(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Val::Blob(a), Val::Blob(b)) => a.cmp(b),
        (Val::Ticks(a), Val::Ticks(b)) | (Val::Micros(a), Val::Micros(b)) => a.cmp(b),
        (Val::Date(a), Val::Date(b)) => a.cmp(b),
        (a, b) => panic!("{a:?} against {b:?}"),
    }
}

pub fn constant_json(ty: Ty, value: &Val) -> Value {
    let text = match value {
        Val::Null => return json!({"k": "const", "type": ty.name(), "value": null}),
        Val::Bool(v) => v.to_string(),
        Val::Int(v) | Val::Dec(v, _) => v.to_string(),
        Val::Float(v) if v.is_nan() => "nan".into(),
        #[expect(clippy::cast_possible_truncation, reason = "a FLOAT prints its own shortest text")]
        Val::Float(v) if ty == Ty::Float => (*v as f32).to_string(),
        Val::Float(v) => v.to_string(),
        Val::Str(v) => v.clone(),
        Val::Blob(v) => v.iter().map(|b| format!("{b:02X}")).collect(),
        Val::Ticks(v) | Val::Micros(v) => v.to_string(),
        Val::Date(v) => v.to_string(),
    };
    json!({"k": "const", "type": ty.name(), "value": text})
}

/// A condition.
#[derive(Debug, Clone)]
pub enum Expr {
    /// `operand op constant`, or the other way round in the JSON.
    Compare(Operand, CompareOp, Val, bool),
    Between(Operand, Val, Val, bool, bool),
    In(Operand, Vec<Val>, bool),
    IsNull(Operand, bool),
    Flag,
    /// Function, column, needle, escape.
    Text(&'static str, usize, Val, Option<&'static str>),
    Regex(usize, usize),
    Parameter,
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
}

const OPS: [(CompareOp, &str); 8] = [
    (CompareOp::Eq, "="),
    (CompareOp::NotEq, "<>"),
    (CompareOp::Lt, "<"),
    (CompareOp::LtEq, "<="),
    (CompareOp::Gt, ">"),
    (CompareOp::GtEq, ">="),
    (CompareOp::DistinctFrom, "IS DISTINCT FROM"),
    (CompareOp::NotDistinctFrom, "IS NOT DISTINCT FROM"),
];

const TEXT_FUNCTIONS: [&str; 13] = [
    "contains",
    "prefix",
    "starts_with",
    "^@",
    "suffix",
    "ends_with",
    "~~",
    "!~~",
    "~~*",
    "!~~*",
    "like_escape",
    "not_like_escape",
    "ilike_escape",
];

/// Regular expressions with what they mean.
type Regex = (&'static str, fn(&str) -> bool);
const REGEXES: [Regex; 6] = [
    ("^ab", |s| s.starts_with("ab")),
    ("b$", |s| s.ends_with('b')),
    ("k|oom", |s| s.contains('k') || s.contains("oom")),
    ("a(b|c)", |s| s.contains("ab") || s.contains("ac")),
    ("fo+_?b", |s| ["fob", "foob", "fo_b", "foo_b"].iter().any(|m| s.contains(m))),
    ("OutOf[A-Z]", |s| {
        s.match_indices("OutOf").any(|(i, m)| s[i + m.len()..].starts_with(|c: char| c.is_ascii_uppercase()))
    }),
];

const STRING_COLUMNS: [usize; 3] = [7, 8, 17];

impl Expr {
    pub fn random(random: &mut Random, data: &Data, depth: usize) -> Self {
        if depth > 0 && random.one_in(2) {
            let parts =
                |random: &mut Random| (0..random.below(4)).map(|_| Self::random(random, data, depth - 1)).collect();
            return match random.below(3) {
                0 => Self::And(parts(random)),
                1 => Self::Or(parts(random)),
                _ => Self::Not(Box::new(Self::random(random, data, depth - 1))),
            };
        }
        let operand = Operand::random(random);
        match random.below(14) {
            0..=4 => {
                let (op, _) = *random.pick(&OPS);
                Self::Compare(operand, op, constant(random, data, operand), random.one_in(2))
            }
            5 | 6 => {
                let (low, high) = (constant(random, data, operand), constant(random, data, operand));
                Self::Between(operand, low, high, random.one_in(2), random.one_in(2))
            }
            7 | 8 => {
                let length = if random.one_in(8) { 25 } else { random.below(4) + 1 };
                let list = (0..length).map(|_| constant(random, data, operand)).collect();
                Self::In(operand, list, random.one_in(2))
            }
            9 => Self::IsNull(operand, random.one_in(2)),
            10 if random.one_in(2) => Self::Flag,
            10 if random.one_in(2) => Self::Parameter,
            10 => Self::Regex(*random.pick(&STRING_COLUMNS), random.below(REGEXES.len())),
            _ => {
                let function = *random.pick(&TEXT_FUNCTIONS);
                let column = *random.pick(&STRING_COLUMNS);
                let like = function.contains('~') || function.contains("like");
                let escape = function.contains("escape").then(|| *random.pick::<&'static str>(&["!", "%", "k", ""]));
                Self::Text(function, column, needle(random, data, column, like, escape), escape)
            }
        }
    }

    pub fn json(&self) -> Value {
        let all = |parts: &[Self]| parts.iter().map(Self::json).collect::<Vec<_>>();
        match self {
            Self::Compare(operand, op, value, flipped) => {
                let name = |op| OPS.iter().find(|(o, _)| *o == op).unwrap().1;
                let (operand, value) = (operand.json(), constant_json(operand.ty(), value));
                if *flipped {
                    let flipped = match op {
                        CompareOp::Lt => CompareOp::Gt,
                        CompareOp::Gt => CompareOp::Lt,
                        CompareOp::LtEq => CompareOp::GtEq,
                        CompareOp::GtEq => CompareOp::LtEq,
                        other => *other,
                    };
                    json!({"k": "cmp", "op": name(flipped), "l": value, "r": operand})
                } else {
                    json!({"k": "cmp", "op": name(*op), "l": operand, "r": value})
                }
            }
            Self::Between(operand, low, high, low_inc, high_inc) => json!({
                "k": "between", "arg": operand.json(), "lo": constant_json(operand.ty(), low),
                "hi": constant_json(operand.ty(), high), "lo_inc": low_inc, "hi_inc": high_inc,
            }),
            Self::In(operand, list, negated) => {
                let list: Vec<Value> = list.iter().map(|v| constant_json(operand.ty(), v)).collect();
                json!({"k": if *negated { "notin" } else { "in" }, "arg": operand.json(), "list": list})
            }
            Self::IsNull(operand, negated) => {
                json!({"k": if *negated { "isnotnull" } else { "isnull" }, "arg": operand.json()})
            }
            Self::Flag => json!({"k": "col", "name": "flag", "type": "BOOLEAN"}),
            Self::Text(name, column, needle, escape) => {
                let column = Operand { column: *column, cast: None }.json();
                let mut args = vec![column, constant_json(Ty::Str, needle)];
                args.extend(escape.map(|e| constant_json(Ty::Str, &Val::Str(e.into()))));
                json!({"k": "fn", "name": name, "args": args})
            }
            Self::Regex(column, regex) => {
                let column = Operand { column: *column, cast: None }.json();
                let pattern = constant_json(Ty::Str, &Val::Str(REGEXES[*regex].0.into()));
                json!({"k": "fn", "name": "regexp_matches", "args": [column, pattern]})
            }
            Self::Parameter => json!({"k": "param"}),
            Self::And(parts) => json!({"k": "and", "args": all(parts)}),
            Self::Or(parts) => json!({"k": "or", "args": all(parts)}),
            Self::Not(part) => json!({"k": "not", "arg": part.json()}),
        }
    }

    /// The outcome for one row.
    pub fn eval(&self, data: &Data, row: usize) -> Result<Outcomes, Raised> {
        let single = |outcome| Ok(Outcomes::of(outcome));
        match self {
            Self::Compare(operand, op, value, _) => single(compare(&operand.value(data, row)?, *op, value)),
            Self::Between(operand, low, high, low_inc, high_inc) => {
                let found = operand.value(data, row)?;
                let from = compare(&found, if *low_inc { CompareOp::GtEq } else { CompareOp::Gt }, low);
                let to = compare(&found, if *high_inc { CompareOp::LtEq } else { CompareOp::Lt }, high);
                Ok(Outcomes::of(from).and(Outcomes::of(to)))
            }
            Self::In(operand, list, negated) => {
                let found = operand.value(data, row)?;
                let each = list.iter().map(|constant| Outcomes::of(compare(&found, CompareOp::Eq, constant)));
                let any = each.fold(Outcomes::FALSE, Outcomes::or);
                Ok(if *negated { any.not() } else { any })
            }
            Self::IsNull(operand, negated) => single(Some(matches!(operand.value(data, row)?, Val::Null) != *negated)),
            Self::Flag => single(match data.columns[10][row] {
                Val::Bool(v) => Some(v),
                _ => None,
            }),
            Self::Text(name, column, needle, escape) => match (&data.columns[*column][row], needle) {
                (Val::Str(value), Val::Str(needle)) => {
                    text(name, value, needle, *escape).map(|v| Outcomes::of(Some(v)))
                }
                _ => single(None),
            },
            Self::Regex(column, regex) => single(match &data.columns[*column][row] {
                Val::Str(value) => Some(REGEXES[*regex].1(value)),
                _ => None,
            }),
            Self::Parameter => Ok(Outcomes::ANY),
            Self::And(parts) => parts.iter().try_fold(Outcomes::TRUE, |all, part| Ok(all.and(part.eval(data, row)?))),
            Self::Or(parts) => parts.iter().try_fold(Outcomes::FALSE, |any, part| Ok(any.or(part.eval(data, row)?))),
            Self::Not(part) => Ok(part.eval(data, row)?.not()),
        }
    }
}

/// A constant of the operand's type: hostile, or one that occurs, or next to one.
fn constant(random: &mut Random, data: &Data, operand: Operand) -> Val {
    if random.one_in(12) {
        return Val::Null;
    }
    if data.rows > 0 && random.one_in(2) {
        let row = random.below(data.rows);
        if let Ok(value) = operand.value(data, row)
            && !matches!(value, Val::Null)
        {
            let by = i128::try_from(random.below(3)).unwrap() - 1;
            return match value {
                Val::Int(v) => match operand.ty() {
                    Ty::Int(min, max, _) => Val::Int(v.checked_add(by).unwrap_or(v).clamp(min, max)),
                    _ => Val::Int(v),
                },
                Val::Dec(v, scale) => Val::Dec(v + by, scale),
                // The other zero: equal, with other bits.
                Val::Float(v) if v == 0.0 && by != 0 => Val::Float(-v),
                Val::Ticks(v) => Val::Ticks(v.saturating_add(i64::try_from(by).unwrap())),
                other => other,
            };
        }
    }
    random.pick(&pool(operand.ty())).clone()
}

fn needle(random: &mut Random, data: &Data, column: usize, like: bool, escape: Option<&str>) -> Val {
    if random.one_in(25) {
        return Val::Null;
    }
    let all = strings();
    let from_data = data.columns[column].iter().find_map(|v| if let Val::Str(v) = v { Some(v.clone()) } else { None });
    let mut text = String::new();
    for _ in 0..1 + random.below(2) {
        let source = match &from_data {
            Some(source) if random.one_in(2) => source.clone(),
            _ => random.pick(&all).clone(),
        };
        let characters: Vec<char> = source.chars().collect();
        let start = random.below(characters.len() + 1);
        let end = start + random.below(characters.len() - start + 1);
        let mut part: String = characters[start..end].iter().collect();
        if like && random.one_in(3) {
            part = part.to_uppercase();
        }
        text.push_str(&part);
        if like {
            text.push_str(random.pick::<&str>(&["%", "_", "%", "", "%%", "!%", "k"]));
        }
    }
    if like && random.one_in(2) {
        text.insert(0, '%');
    }
    let _ = escape;
    Val::Str(text)
}

fn compare(found: &Val, op: CompareOp, constant: &Val) -> Option<bool> {
    match (found, constant, op) {
        (Val::Null, Val::Null, CompareOp::DistinctFrom) => Some(false),
        (Val::Null, Val::Null, CompareOp::NotDistinctFrom) => Some(true),
        (Val::Null, _, CompareOp::DistinctFrom) | (_, Val::Null, CompareOp::DistinctFrom) => Some(true),
        (Val::Null, _, CompareOp::NotDistinctFrom) | (_, Val::Null, CompareOp::NotDistinctFrom) => Some(false),
        (Val::Null, _, _) | (_, Val::Null, _) => None,
        (found, constant, op) => {
            let order = order(found, constant);
            Some(match op {
                CompareOp::Eq | CompareOp::NotDistinctFrom => order == Ordering::Equal,
                CompareOp::NotEq | CompareOp::DistinctFrom => order != Ordering::Equal,
                CompareOp::Lt => order == Ordering::Less,
                CompareOp::LtEq => order != Ordering::Greater,
                CompareOp::Gt => order == Ordering::Greater,
                CompareOp::GtEq => order != Ordering::Less,
            })
        }
    }
}

fn text(name: &str, value: &str, needle: &str, escape: Option<&str>) -> Result<bool, Raised> {
    let escape = escape.and_then(|e| e.bytes().next());
    let ilike = |escape: Option<u8>| {
        like(fold::lower(value).as_bytes(), fold::lower(needle).as_bytes(), escape.map(|e| e.to_ascii_lowercase()))
    };
    match name {
        "contains" => Ok(value.contains(needle)),
        "prefix" | "starts_with" | "^@" => Ok(value.starts_with(needle)),
        "suffix" | "ends_with" => Ok(value.ends_with(needle)),
        "~~" | "like_escape" => like(value.as_bytes(), needle.as_bytes(), escape),
        "!~~" | "not_like_escape" => like(value.as_bytes(), needle.as_bytes(), escape).map(|m| !m),
        "~~*" | "ilike_escape" => ilike(escape),
        "!~~*" => ilike(escape).map(|m| !m),
        other => panic!("{other}"),
    }
}

/// The matcher of DuckDB's `like.cpp`, byte by byte.
fn like(value: &[u8], pattern: &[u8], escape: Option<u8>) -> Result<bool, Raised> {
    let (mut s, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while s < value.len() {
        if p < pattern.len() {
            if Some(pattern[p]) == escape {
                if p + 1 == pattern.len() {
                    return Err(Raised);
                }
                if pattern[p + 1] == value[s] {
                    p += 2;
                    s += 1;
                    continue;
                }
            } else if pattern[p] == b'_' {
                p += 1;
                s += 1;
                while s < value.len() && value[s] & 0xc0 == 0x80 {
                    s += 1;
                }
                continue;
            } else if pattern[p] == b'%' {
                p += 1;
                while p < pattern.len() && pattern[p] == b'%' {
                    p += 1;
                }
                if p == pattern.len() {
                    return Ok(true);
                }
                retry = Some((p, s));
                continue;
            } else if pattern[p] == value[s] {
                p += 1;
                s += 1;
                continue;
            }
        }
        let Some((retry_p, retry_s)) = retry else { return Ok(false) };
        retry = Some((retry_p, retry_s + 1));
        (p, s) = (retry_p, retry_s + 1);
    }
    while p < pattern.len() {
        if Some(pattern[p]) == escape {
            if p + 1 == pattern.len() {
                return Err(Raised);
            }
            break;
        }
        if pattern[p] != b'%' {
            break;
        }
        p += 1;
    }
    Ok(p == pattern.len() && s == value.len())
}
