//! Values inside JSON columns, as far as the path says that there must be one.

use serde_json::Value;

use super::types::SqlType;
use super::{Operand, Reason, not};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};

/// `column->>'path'` for a path of member names.
pub struct JsonPath<'a> {
    column: &'a str,
    path: Vec<String>,
}

impl<'a> JsonPath<'a> {
    /// The operand `name(args)`, if it extracts text at a path of member names.
    pub fn extracted_text(name: &str, args: &'a [Value]) -> Result<Self, Reason> {
        match (name, args) {
            ("->>" | "json_extract_string" | "json_extract_path_text", [column, path]) => Self::new(name, column, path),
            _ => Err(format!("the function {name}")),
        }
    }

    /// `json_exists(column, 'path')`.
    pub fn exists(args: &'a [Value]) -> Result<BlockPredicate, Reason> {
        match args {
            [column, path] => Self::new("json_exists", column, path).map(|path| path.has_value()),
            _ => Err(format!("json_exists with {} arguments", args.len())),
        }
    }

    fn new(name: &str, column: &'a Value, path: &Value) -> Result<Self, Reason> {
        let column = match Operand::new(column)? {
            Operand::Column(column) if column.source == SqlType::Json && column.target == SqlType::Json => column.name,
            _ => return Err(format!("{name} of something other than a JSON column")),
        };
        match Operand::new(path)? {
            Operand::Constant(SqlType::Varchar, Scalar::Str(text)) => match members(&text) {
                Some(path) => Ok(Self { column, path }),
                None => Err(format!("the JSON path {text}")),
            },
            _ => Err(format!("{name} with something other than a constant path")),
        }
    }

    fn has_value(&self) -> BlockPredicate {
        BlockPredicate::DynamicPathExists { column: self.column.to_owned(), path: self.path.clone() }
    }

    /// A condition that is NULL where the path leads nowhere, and is not looked into otherwise.
    fn strict(&self, reason: &str) -> BlockPredicate {
        BlockPredicate::And(vec![self.has_value(), BlockPredicate::Unknown(reason.to_owned())])
    }

    /// `column->>'path' op value`, either way round.
    pub fn compare(&self, op: CompareOp, value: &Scalar) -> Result<BlockPredicate, Reason> {
        match (op, value) {
            (op, _) if op.is_distinct_operator() => Err("a DISTINCT comparison inside a JSON column".into()),
            (_, Scalar::Null) => Ok(BlockPredicate::Constant(None)),
            (CompareOp::Eq, Scalar::Str(text)) => Ok(BlockPredicate::DynamicPathEquals {
                column: self.column.to_owned(),
                path: self.path.clone(),
                value: text.clone(),
            }),
            _ => Ok(self.strict("a comparison inside a JSON column")),
        }
    }

    /// `column->>'path' IN (list)`. An empty path makes it NULL unless the list is empty.
    pub fn in_list(&self, list: &[Value]) -> Result<BlockPredicate, Reason> {
        if list.is_empty() {
            return Err("an empty list".into());
        }
        Ok(self.strict("a list of values inside a JSON column"))
    }

    /// `column->>'path' IS NULL`: also where the path leads to a JSON null.
    pub fn is_null(&self) -> BlockPredicate {
        not(self.strict("a JSON null counts as NULL"))
    }
}

/// The member names of `$.a."b c"`, or of a plain key that no dialect of paths reads otherwise. `None` for wildcards, array
/// indices, pointers and anything unusual.
fn members(path: &str) -> Option<Vec<String>> {
    let plain = |name: &str| {
        !name.is_empty()
            && !name.bytes().all(|b| b.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    let Some(mut rest) = path.strip_prefix('$') else {
        let key = path.split('.').all(plain);
        return key.then(|| vec![path.to_owned()]);
    };
    let mut names = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix('.')?;
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        let quoted_is_simple = rest.starts_with('"') && !name.is_empty() && !name.contains(['\\', '*']);
        if !quoted_is_simple && !plain(name) {
            return None;
        }
        names.push(name.to_owned());
        rest = after;
    }
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_member_names() {
        let names = |path| members(path).map(|names| names.join("|"));
        assert_eq!(names("$.a.b"), Some("a|b".into()));
        assert_eq!(names("$.\"http.method\".x"), Some("http.method|x".into()));
        assert_eq!(names("http.method"), Some("http.method".into()));
        for odd in [
            "$", "", "$.a[0]", "$.*", "$..a", "/a/b", "a/b", "0", "$.0", "$.\"a", "$.\"a\"b", "$[0]", "a*", "$.\"\"",
            "#",
        ] {
            assert_eq!(names(odd), None, "{odd}");
        }
    }
}
