//! Functions that are conditions: text matching, and a few of DuckDB's internal ones.

use serde_json::Value;

use super::regex::required_text;
use super::types::SqlType;
use super::{Operand, Pullback, Reason, not};
use crate::predicate::text::{Like, parse_like};
use crate::predicate::{BlockPredicate, CompareOp, Scalar, TextPattern};
use crate::stats::tokens;

/// Whether a function of this name is a condition that [`lower`] knows.
pub fn is_condition(name: &str) -> bool {
    matches!(
        name,
        "contains"
            | "prefix"
            | "starts_with"
            | "^@"
            | "suffix"
            | "ends_with"
            | "~~"
            | "!~~"
            | "~~*"
            | "!~~*"
            | "like_escape"
            | "not_like_escape"
            | "ilike_escape"
            | "not_ilike_escape"
            | "regexp_matches"
            | "regexp_full_match"
            | "has_token"
            | "constant_or_null"
            | "json_exists"
    )
}

/// `name(args)` as a condition.
pub fn lower(name: &str, args: &[Value]) -> Result<BlockPredicate, Reason> {
    match name {
        "contains" => search(name, args, |column, needle| Ok(matching(column, TextPattern::contains(needle)))),
        "prefix" | "starts_with" | "^@" => {
            search(name, args, |column, needle| Ok(matching(column, TextPattern::prefix(needle))))
        }
        "suffix" | "ends_with" => {
            search(name, args, |column, needle| Ok(matching(column, TextPattern::suffix(needle))))
        }
        "~~" | "like_escape" => like(name, args, false),
        "!~~" | "not_like_escape" => like(name, args, false).map(not),
        "~~*" | "ilike_escape" => like(name, args, true),
        "!~~*" | "not_ilike_escape" => like(name, args, true).map(not),
        "regexp_matches" | "regexp_full_match" => regexp(name, args),
        "has_token" => search(name, args, |column, word| {
            if !tokens::is_token(word) {
                return Err(format!("'{word}' is not a single token of two or more ASCII letters and digits"));
            }
            Ok(BlockPredicate::HasToken { column: column.to_owned(), token: word.to_ascii_lowercase() })
        }),
        "constant_or_null" => match args {
            [value, columns @ ..] => match Operand::new(value)? {
                Operand::Constant(SqlType::Boolean, Scalar::Bool(value)) => {
                    super::constant_or_null(Some(value), columns)
                }
                Operand::Constant(_, Scalar::Null) => super::constant_or_null(None, columns),
                _ => Err("constant_or_null of a value that is not BOOLEAN".into()),
            },
            [] => Err("malformed expression: constant_or_null without arguments".into()),
        },
        "json_exists" => super::paths::JsonPath::exists(args),
        other => Err(format!("the function {other}")),
    }
}

fn matching(column: &str, pattern: TextPattern) -> BlockPredicate {
    BlockPredicate::Text { column: column.to_owned(), pattern }
}

/// The string column in first place, unconverted and of binary collation.
fn string_column<'a>(name: &str, node: &'a Value) -> Result<&'a str, Reason> {
    match Operand::new(node)? {
        Operand::Column(column) if column.collated => Err(format!("column \"{}\" has a collation", column.name)),
        Operand::Column(column)
            if column.target == SqlType::Varchar && matches!(column.pullback, Pullback::Identity) =>
        {
            Ok(column.name)
        }
        Operand::Path(_) => Err(format!("{name} of a value inside a JSON column")),
        _ => Err(format!("{name} of something other than a VARCHAR column")),
    }
}

/// A constant string, `None` for NULL.
fn string_constant(name: &str, node: &Value) -> Result<Option<String>, Reason> {
    match Operand::new(node)? {
        Operand::Constant(_, Scalar::Null) => Ok(None),
        Operand::Constant(SqlType::Varchar, Scalar::Str(text)) => Ok(Some(text)),
        _ => Err(format!("{name} with something other than a constant string")),
    }
}

/// `name(column, 'needle')`. With a NULL needle the outcome is NULL.
fn search(
    name: &str,
    args: &[Value],
    condition: impl Fn(&str, &str) -> Result<BlockPredicate, Reason>,
) -> Result<BlockPredicate, Reason> {
    let [column, needle] = args else {
        return Err(format!("{name} with {} arguments", args.len()));
    };
    let column = string_column(name, column)?;
    match string_constant(name, needle)? {
        Some(needle) => condition(column, &needle),
        None => Ok(BlockPredicate::Constant(None)),
    }
}

fn like(name: &str, args: &[Value], case_insensitive: bool) -> Result<BlockPredicate, Reason> {
    let (column, pattern, escape) = match args {
        [column, pattern] => (column, pattern, None),
        [column, pattern, escape] => (column, pattern, Some(string_constant(name, escape)?)),
        _ => return Err(format!("{name} with {} arguments", args.len())),
    };
    let column = string_column(name, column)?;
    let escape = match &escape {
        None => None,
        Some(None) => return Ok(BlockPredicate::Constant(None)),
        Some(Some(escape)) => Some(escape.as_str()),
    };
    let Some(pattern) = string_constant(name, pattern)? else {
        return Ok(BlockPredicate::Constant(None));
    };
    Ok(match parse_like(&pattern, escape, case_insensitive)? {
        Like::Equals(text) => {
            BlockPredicate::Compare { column: column.to_owned(), op: CompareOp::Eq, value: Scalar::Str(text) }
        }
        Like::Pattern(pattern) => matching(column, pattern),
    })
}

fn regexp(name: &str, args: &[Value]) -> Result<BlockPredicate, Reason> {
    let (column, pattern, options) = match args {
        [column, pattern] => (column, pattern, String::new()),
        [column, pattern, options] => {
            let options = string_constant(name, options)?.ok_or("regular expression options are NULL")?;
            (column, pattern, options)
        }
        _ => return Err(format!("{name} with {} arguments", args.len())),
    };
    let column = string_column(name, column)?;
    match string_constant(name, pattern)? {
        Some(pattern) => required_text(column, &pattern, &options, name == "regexp_full_match"),
        None => Ok(BlockPredicate::Constant(None)),
    }
}
