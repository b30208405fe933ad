//! Random batches with hostile values.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::Int8Type;

/// SplitMix64: deterministic, seedable by the case number.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// The SQL types of the columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ty {
    Bool,
    /// Smallest and largest value, and the name.
    Int(i128, i128, &'static str),
    Float,
    Double,
    /// Scale and the name.
    Dec(u8, &'static str),
    Str,
    Blob,
    /// Nanoseconds per unit, and the name.
    Time(i64, &'static str),
    Date,
    TimeOfDay,
}

impl Ty {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOLEAN",
            Self::Int(_, _, name) | Self::Dec(_, name) | Self::Time(_, name) => name,
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::Str => "VARCHAR",
            Self::Blob => "BLOB",
            Self::Date => "DATE",
            Self::TimeOfDay => "TIME",
        }
    }
}

pub const TINYINT: Ty = Ty::Int(-128, 127, "TINYINT");
pub const INTEGER: Ty = Ty::Int(i32::MIN as i128, i32::MAX as i128, "INTEGER");
pub const BIGINT: Ty = Ty::Int(i64::MIN as i128, i64::MAX as i128, "BIGINT");
pub const UBIGINT: Ty = Ty::Int(0, u64::MAX as i128, "UBIGINT");
pub const HUGEINT: Ty = Ty::Int(i128::MIN, i128::MAX, "HUGEINT");
pub const DECIMAL: Ty = Ty::Dec(2, "DECIMAL(10,2)");
pub const TIMESTAMP_S: Ty = Ty::Time(1_000_000_000, "TIMESTAMP_S");
pub const TIMESTAMP_MS: Ty = Ty::Time(1_000_000, "TIMESTAMP_MS");
pub const TIMESTAMP: Ty = Ty::Time(1_000, "TIMESTAMP");
pub const TIMESTAMP_NS: Ty = Ty::Time(1, "TIMESTAMP_NS");
pub const TIMESTAMPTZ: Ty = Ty::Time(1_000, "TIMESTAMP WITH TIME ZONE");

/// Every column that predicates ask about. `missing` is in no batch, `allnull` never holds a value.
pub const COLUMNS: [(&str, Ty); 20] = [
    ("i8", TINYINT),
    ("i32", INTEGER),
    ("i64", BIGINT),
    ("u64", UBIGINT),
    ("f32", Ty::Float),
    ("f64", Ty::Double),
    ("dec", DECIMAL),
    ("s", Ty::Str),
    ("dict", Ty::Str),
    ("bin", Ty::Blob),
    ("flag", Ty::Bool),
    ("ts_s", TIMESTAMP_S),
    ("ts_ms", TIMESTAMP_MS),
    ("ts", TIMESTAMP),
    ("ts_ns", TIMESTAMP_NS),
    ("tz", TIMESTAMPTZ),
    ("d", Ty::Date),
    ("allnull", Ty::Str),
    ("missing", BIGINT),
    ("t", Ty::TimeOfDay),
];

/// A value in the terms of its SQL type.
#[derive(Debug, Clone)]
pub enum Val {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Dec(i128, u8),
    Str(String),
    Blob(Vec<u8>),
    /// Ticks of the type's unit.
    Ticks(i64),
    Date(i32),
    Micros(i64),
}

pub fn strings() -> Vec<String> {
    let mut all: Vec<String> = [
        "",
        "a",
        "ab",
        "abc",
        "b",
        "k",
        "K",
        "\u{212a}",
        "wal\u{212a}er",
        "Walker",
        "walker",
        "\u{130}",
        "title",
        "T\u{130}TLE",
        "ma\u{17f}s",
        "log-line_42 é",
        "OutOfMemoryError",
        "OutOfMemory",
        "oom",
        "e\u{301}",
        "\u{10ffff}",
        "a\u{10ffff}",
        "%",
        "_",
        "50%",
        "foo_bar",
        "fooXbar",
        "foo bar",
        "é",
        "É",
        "z",
        "\0",
        "ab\0",
        "a.b",
        "2024-01-01",
        "error: k",
        "ERROR",
        "\u{131}",
    ]
    .map(String::from)
    .to_vec();
    all.extend([255, 256, 257].map(|n| "x".repeat(n)));
    all
}

/// The hostile values of a type.
pub fn pool(ty: Ty) -> Vec<Val> {
    match ty {
        Ty::Bool => vec![Val::Bool(false), Val::Bool(true)],
        Ty::Int(min, max, _) => {
            let near = |v: i128| [v.checked_sub(1), Some(v), v.checked_add(1)];
            [0, 5, 1 << 24, 1 << 53, -(1 << 53), i64::MIN.into(), i64::MAX.into(), u64::MAX.into(), 127, -128, min, max]
                .into_iter()
                .flat_map(near)
                .flatten()
                .filter(|v| (min..=max).contains(v))
                .map(Val::Int)
                .collect()
        }
        Ty::Float => [
            f32::NAN,
            -f32::NAN,
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN,
            0.1,
            1.5,
            -1.5,
            16_777_216.0,
            5.0,
        ]
        .map(|v| Val::Float(f64::from(v)))
        .to_vec(),
        Ty::Double => [
            f64::NAN,
            -f64::NAN,
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            0.1,
            1.5,
            -1.5,
            9_007_199_254_740_992.0,
            9_223_372_036_854_775_807.0,
            18_446_744_073_709_551_615.0,
            5.0,
            127.5,
            f64::MIN_POSITIVE,
        ]
        .map(Val::Float)
        .to_vec(),
        Ty::Dec(scale, _) => [0, 1, -1, 50, 99, 100, 150, 500, -500, 9_999_999_999, -9_999_999_999]
            .into_iter()
            .map(|v| Val::Dec(v, scale))
            .collect(),
        Ty::Str => strings().into_iter().map(Val::Str).collect(),
        Ty::Blob => [vec![], vec![0], vec![0x7f], vec![0xff], vec![0xff, 0xff], vec![0xff; 257], b"ab".to_vec()]
            .map(Val::Blob)
            .to_vec(),
        Ty::Time(nanos, _) => {
            let day = 86_400_000_000_000 / nanos;
            [
                0,
                499,
                500,
                1_000,
                1_500,
                999_999,
                day,
                -day,
                10 * day,
                i64::MAX / 1_000,
                i64::MAX / 86_400,
                -i64::MAX,
                i64::MAX,
            ]
            .into_iter()
            .flat_map(|v: i64| [v.checked_sub(1), Some(v), v.checked_add(1)])
            .flatten()
            .map(Val::Ticks)
            .collect()
        }
        Ty::Date => [
            i32::MIN,
            -i32::MAX,
            1 - i32::MAX,
            -106_752,
            -106_751_992,
            -1,
            0,
            1,
            2,
            10,
            106_751,
            106_751_991,
            i32::MAX - 1,
            i32::MAX,
        ]
        .map(Val::Date)
        .to_vec(),
        Ty::TimeOfDay => [0, 1, 86_399_999_999, 86_400_000_000].map(Val::Micros).to_vec(),
    }
}

/// The rows of a batch, column by column in the order of [`COLUMNS`] (all NULL for `allnull` and `missing`), and the batch itself.
pub struct Data {
    pub rows: usize,
    pub columns: Vec<Vec<Val>>,
    pub batch: RecordBatch,
}

impl Data {
    pub fn random(random: &mut Random) -> Self {
        let rows = if random.one_in(30) { 0 } else { 1 + random.below(7) };
        let mut columns = Vec::new();
        for (name, ty) in COLUMNS {
            // Few distinct values per column, so that bounds and sets are tight; often neighbours.
            let all = pool(ty);
            let (start, width) = (random.below(all.len()), 1 + random.below(3));
            let some: Vec<Val> = (0..width)
                .map(
                    |i| if random.one_in(3) { random.pick(&all).clone() } else { all[(start + i) % all.len()].clone() },
                )
                .collect();
            let null_in = *random.pick(&[1, 3, 1000, 1000]);
            let absent = matches!(name, "allnull" | "missing");
            let values: Vec<Val> = (0..rows)
                .map(|_| if absent || random.one_in(null_in) { Val::Null } else { random.pick(&some).clone() })
                .collect();
            columns.push(values);
        }
        let arrays = COLUMNS.iter().zip(&columns).filter(|((name, _), _)| *name != "missing");
        let arrays: Vec<_> =
            arrays.map(|((name, ty), values)| (*name, array(*ty, *name == "dict", values), true)).collect();
        let batch = RecordBatch::try_from_iter_with_nullable(arrays).unwrap();
        Self { rows, columns, batch }
    }
}

fn array(ty: Ty, dictionary: bool, values: &[Val]) -> ArrayRef {
    let int = |v: &Val| if let Val::Int(v) = v { Some(*v) } else { None };
    let float = |v: &Val| if let Val::Float(v) = v { Some(*v) } else { None };
    let text = |v: &Val| if let Val::Str(v) = v { Some(v.clone()) } else { None };
    let ticks = |v: &Val| if let Val::Ticks(v) = v { Some(*v) } else { None };
    match ty {
        Ty::Bool => Arc::new(
            values.iter().map(|v| if let Val::Bool(v) = v { Some(*v) } else { None }).collect::<BooleanArray>(),
        ),
        TINYINT => Arc::new(values.iter().map(|v| int(v).map(|v| i8::try_from(v).unwrap())).collect::<Int8Array>()),
        INTEGER => Arc::new(values.iter().map(|v| int(v).map(|v| i32::try_from(v).unwrap())).collect::<Int32Array>()),
        UBIGINT => Arc::new(values.iter().map(|v| int(v).map(|v| u64::try_from(v).unwrap())).collect::<UInt64Array>()),
        Ty::Int(..) => {
            Arc::new(values.iter().map(|v| int(v).map(|v| i64::try_from(v).unwrap())).collect::<Int64Array>())
        }
        #[expect(clippy::cast_possible_truncation, reason = "the pool holds floats")]
        Ty::Float => Arc::new(values.iter().map(|v| float(v).map(|v| v as f32)).collect::<Float32Array>()),
        Ty::Double => Arc::new(values.iter().map(float).collect::<Float64Array>()),
        Ty::Dec(scale, _) => {
            let array: Decimal128Array =
                values.iter().map(|v| if let Val::Dec(v, _) = v { Some(*v) } else { None }).collect();
            Arc::new(array.with_precision_and_scale(10, i8::try_from(scale).unwrap()).unwrap())
        }
        Ty::Str if dictionary => {
            let texts: Vec<Option<String>> = values.iter().map(text).collect();
            Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int8Type>>())
        }
        Ty::Str => Arc::new(values.iter().map(text).collect::<StringArray>()),
        Ty::Blob => Arc::new(
            values.iter().map(|v| if let Val::Blob(v) = v { Some(v.clone()) } else { None }).collect::<BinaryArray>(),
        ),
        TIMESTAMP_S => Arc::new(values.iter().map(ticks).collect::<TimestampSecondArray>()),
        TIMESTAMP_MS => Arc::new(values.iter().map(ticks).collect::<TimestampMillisecondArray>()),
        TIMESTAMP_NS => Arc::new(values.iter().map(ticks).collect::<TimestampNanosecondArray>()),
        Ty::Time(_, name) => {
            let array: TimestampMicrosecondArray = values.iter().map(ticks).collect();
            if name == "TIMESTAMP" { Arc::new(array) } else { Arc::new(array.with_timezone("UTC")) }
        }
        Ty::Date => {
            Arc::new(values.iter().map(|v| if let Val::Date(v) = v { Some(*v) } else { None }).collect::<Date32Array>())
        }
        Ty::TimeOfDay => Arc::new(
            values
                .iter()
                .map(|v| if let Val::Micros(v) = v { Some(*v) } else { None })
                .collect::<Time64MicrosecondArray>(),
        ),
    }
}
