//! From DuckDB's bound expressions, as JSON, to predicates.
//!
//! Each node is an object with a kind `"k"`. Types are the texts of DuckDB's `LogicalType::ToString`.
//!
//! ```text
//! {"k":"col","name":"a","type":"BIGINT","collation":"nocase"?}       {"k":"const","type":"BIGINT","value":"5"|null}
//! {"k":"cmp","op":"<","l":N,"r":N}                                    {"k":"between","arg":N,"lo":N,"hi":N,"lo_inc":b,"hi_inc":b}
//! {"k":"and","args":[N]}  {"k":"or","args":[N]}  {"k":"not","arg":N}  {"k":"isnull","arg":N}  {"k":"isnotnull","arg":N}
//! {"k":"in","arg":N,"list":[N]}  {"k":"notin","arg":N,"list":[N]}     {"k":"cast","arg":N,"type":"BIGINT","try":b}
//! {"k":"fn","name":"contains","args":[N]}  {"k":"param"}              {"k":"other","text":"..."}
//! ```
//!
//! Every rule matches a whole shape; what no rule matches becomes [`BlockPredicate::Unknown`] for that branch alone, with the
//! reason. The result is implied by the expression and may say less, never more.

mod casts;
mod functions;
mod paths;
mod regex;
mod types;

use serde_json::Value;

use super::simplify::{not_null_or_null, null_or_false};
use super::{BlockPredicate, CompareOp, Outcomes, Scalar};
use casts::Pullback;
use types::SqlType;

/// Expressions nested deeper than this are unknown from there on.
const MAX_DEPTH: usize = 64;

/// Why a part could not be lowered; the text of [`BlockPredicate::Unknown`].
type Reason = String;

/// Lowers an expression. Never fails: what is malformed, unsupported or too deep is unknown, with the reason.
pub fn lower_json(json: &str) -> BlockPredicate {
    match serde_json::from_str(json) {
        Ok(node) => lower(&node, 0).simplify(),
        Err(error) => BlockPredicate::Unknown(format!("malformed expression: {error}")),
    }
}

/// A node as a condition.
fn lower(node: &Value, depth: usize) -> BlockPredicate {
    if depth > MAX_DEPTH {
        return BlockPredicate::Unknown("the expression is nested too deeply".into());
    }
    condition(node, depth).unwrap_or_else(BlockPredicate::Unknown)
}

fn condition(node: &Value, depth: usize) -> Result<BlockPredicate, Reason> {
    let all =
        |name| -> Result<Vec<_>, Reason> { Ok(list(node, name)?.iter().map(|part| lower(part, depth + 1)).collect()) };
    match kind(node)? {
        "and" => all("args").map(BlockPredicate::And),
        "or" => all("args").map(BlockPredicate::Or),
        "not" => Ok(not(lower(field(node, "arg")?, depth + 1))),
        "cmp" => {
            let op = operator(text(node, "op")?)?;
            comparison(op, field(node, "l")?, field(node, "r")?, depth)
        }
        "between" => {
            let (arg, low, high) = (field(node, "arg")?, field(node, "lo")?, field(node, "hi")?);
            let from = if flag(node, "lo_inc")? { CompareOp::GtEq } else { CompareOp::Gt };
            let to = if flag(node, "hi_inc")? { CompareOp::LtEq } else { CompareOp::Lt };
            let side = |op, bound| comparison(op, arg, bound, depth).unwrap_or_else(BlockPredicate::Unknown);
            Ok(BlockPredicate::And(vec![side(from, low), side(to, high)]))
        }
        "in" => membership(field(node, "arg")?, list(node, "list")?),
        "notin" => membership(field(node, "arg")?, list(node, "list")?).map(not),
        "isnull" => null_test(field(node, "arg")?),
        "isnotnull" => null_test(field(node, "arg")?).map(not),
        "fn" => functions::lower(text(node, "name")?, list(node, "args")?),
        "col" => match Operand::new(node)? {
            Operand::Column(Column { name, source: SqlType::Boolean, .. }) => {
                Ok(BlockPredicate::Compare { column: name.to_owned(), op: CompareOp::Eq, value: Scalar::Bool(true) })
            }
            _ => Err("a column that is not BOOLEAN stands as a condition".into()),
        },
        "const" => match Operand::new(node)? {
            Operand::Constant(_, Scalar::Null) => Ok(BlockPredicate::Constant(None)),
            Operand::Constant(_, Scalar::Bool(value)) => Ok(BlockPredicate::Constant(Some(value))),
            _ => Err("a constant that is not BOOLEAN stands as a condition".into()),
        },
        "cast" => Err("a conversion stands as a condition".into()),
        "param" => Err(PARAMETER.into()),
        "other" => Err(other_text(node)),
        other => Err(format!("an expression of kind \"{other}\"")),
    }
}

const PARAMETER: &str = "the value of a prepared statement's parameter is not known yet";

/// One side of a comparison.
enum Operand<'a> {
    Column(Column<'a>),
    Constant(SqlType, Scalar),
    /// The text at a path of a JSON column.
    Path(paths::JsonPath<'a>),
}

/// A column, possibly converted.
struct Column<'a> {
    name: &'a str,
    /// Its own type.
    source: SqlType,
    /// The type after the conversion.
    target: SqlType,
    pullback: Pullback,
    /// It compares by another order than that of its bytes.
    collated: bool,
}

impl<'a> Operand<'a> {
    fn new(node: &'a Value) -> Result<Self, Reason> {
        match kind(node)? {
            "col" => {
                let source = SqlType::parse(text(node, "type")?);
                let collated = node.get("collation").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
                let name = text(node, "name")?;
                Ok(Self::Column(Column { name, source, target: source, pullback: Pullback::Identity, collated }))
            }
            "cast" => {
                let (target, can_fail_silently) = (SqlType::parse(text(node, "type")?), flag(node, "try")?);
                match Self::new(field(node, "arg")?)? {
                    Self::Column(column) if column.source == column.target => {
                        let pullback = Pullback::new(column.source, target, can_fail_silently)?;
                        Ok(Self::Column(Column { target, pullback, ..column }))
                    }
                    Self::Column(_) => Err("a column is converted more than once".into()),
                    Self::Constant(..) | Self::Path(_) => Err("a conversion of something other than a column".into()),
                }
            }
            "const" => {
                let type_name = text(node, "type")?;
                let sql_type = SqlType::parse(type_name);
                let value = match field(node, "value")? {
                    Value::Null => sql_type.constant(None),
                    Value::String(value) => sql_type.constant(Some(value)),
                    _ => None,
                };
                match value {
                    Some(value) => Ok(Self::Constant(sql_type, value)),
                    None => Err(format!("a constant of type {type_name}")),
                }
            }
            "fn" => paths::JsonPath::extracted_text(text(node, "name")?, list(node, "args")?).map(Self::Path),
            "param" => Err(PARAMETER.into()),
            "other" => Err(other_text(node)),
            kind => Err(format!("an expression of kind \"{kind}\" is compared")),
        }
    }
}

/// The text of a node of kind `other`.
fn other_text(node: &Value) -> Reason {
    node.get("text").and_then(Value::as_str).unwrap_or("an expression that is not analysed").to_owned()
}

fn comparison(op: CompareOp, left: &Value, right: &Value, depth: usize) -> Result<BlockPredicate, Reason> {
    // `(a < 5) = true` and the like: one side is a condition, the other a truth value.
    for (node, other) in [(left, right), (right, left)] {
        if is_condition(node)
            && let Ok(Operand::Constant(_, value)) = Operand::new(other)
        {
            return truth_comparison(lower(node, depth + 1), op, &value);
        }
    }
    match (Operand::new(left)?, Operand::new(right)?) {
        (Operand::Column(column), Operand::Constant(constant_type, value)) => {
            compare_column(&column, op, constant_type, &value)
        }
        (Operand::Constant(constant_type, value), Operand::Column(column)) => {
            compare_column(&column, op.flipped(), constant_type, &value)
        }
        (Operand::Path(path), Operand::Constant(_, value)) | (Operand::Constant(_, value), Operand::Path(path)) => {
            path.compare(op, &value)
        }
        (Operand::Constant(left_type, left), Operand::Constant(right_type, right)) => {
            if left.is_null() {
                return outcome(op.of_null(&right));
            }
            if right.is_null() {
                return outcome(op.with_null());
            }
            if !left_type.compares_with(right_type) {
                return Err("constants of different types are compared".into());
            }
            let order = left.compare(&right).ok_or("constants that cannot be compared")?;
            Ok(BlockPredicate::Constant(Some(op.holds(order))))
        }
        _ => Err("two columns are compared".into()),
    }
}

/// A set of one outcome as a constant.
fn outcome(outcomes: Outcomes) -> Result<BlockPredicate, Reason> {
    Ok(BlockPredicate::Constant(match outcomes {
        Outcomes::TRUE => Some(true),
        Outcomes::FALSE => Some(false),
        _ => None,
    }))
}

/// Whether a node is a condition in itself rather than a value.
fn is_condition(node: &Value) -> bool {
    matches!(kind(node), Ok("cmp" | "and" | "or" | "not" | "isnull" | "isnotnull" | "in" | "notin" | "between"))
        || matches!((kind(node), text(node, "name")), (Ok("fn"), Ok(name)) if functions::is_condition(name))
}

fn truth_comparison(condition: BlockPredicate, op: CompareOp, value: &Scalar) -> Result<BlockPredicate, Reason> {
    match (op, value) {
        (op, Scalar::Null) if !op.is_distinct_operator() => Ok(BlockPredicate::Constant(None)),
        (CompareOp::Eq, Scalar::Bool(true)) | (CompareOp::NotEq, Scalar::Bool(false)) => Ok(condition),
        (CompareOp::Eq, Scalar::Bool(false)) | (CompareOp::NotEq, Scalar::Bool(true)) => Ok(not(condition)),
        _ => Err("a condition is compared with a truth value".into()),
    }
}

fn compare_column(
    column: &Column<'_>,
    op: CompareOp,
    constant_type: SqlType,
    constant: &Scalar,
) -> Result<BlockPredicate, Reason> {
    if constant.is_null() {
        return Ok(match op {
            CompareOp::NotDistinctFrom => is_null(column.name),
            CompareOp::DistinctFrom => not(is_null(column.name)),
            _ => BlockPredicate::Constant(None),
        });
    }
    column.check(constant_type)?;
    column.pullback.compare(column.name, op, constant)
}

impl Column<'_> {
    /// Whether comparisons with a constant of this type are understood.
    fn check(&self, constant_type: SqlType) -> Result<(), Reason> {
        if self.collated {
            return Err(format!("column \"{}\" has a collation", self.name));
        }
        if !self.target.compares_with(constant_type) {
            return Err(format!("column \"{}\" is compared with a constant of another type", self.name));
        }
        Ok(())
    }
}

fn membership(arg: &Value, list: &[Value]) -> Result<BlockPredicate, Reason> {
    let column = match Operand::new(arg)? {
        Operand::Column(column) => column,
        Operand::Path(path) => return path.in_list(list),
        Operand::Constant(..) => return Err("a constant is looked up among columns".into()),
    };
    // Constants that one value converts to stay in the list; ranges and unknowns stand beside it.
    let mut values = Vec::with_capacity(list.len());
    let mut others = Vec::new();
    for node in list {
        match Operand::new(node) {
            Ok(Operand::Constant(_, Scalar::Null)) => values.push(Scalar::Null),
            Ok(Operand::Constant(constant_type, constant)) => {
                column.check(constant_type)?;
                match column.pullback.single_value(&constant) {
                    Some(value) => values.push(value),
                    None => others.push(
                        column
                            .pullback
                            .compare(column.name, CompareOp::Eq, &constant)
                            .unwrap_or_else(BlockPredicate::Unknown),
                    ),
                }
            }
            Ok(_) => others.push(BlockPredicate::Unknown("the list holds something other than constants".into())),
            Err(reason) => others.push(BlockPredicate::Unknown(reason)),
        }
    }
    if !values.is_empty() {
        others.push(BlockPredicate::InSet { column: column.name.to_owned(), values });
    }
    Ok(match others.len() {
        0 => null_or_false(column.name.to_owned()),
        _ => BlockPredicate::Or(others),
    })
}

fn null_test(arg: &Value) -> Result<BlockPredicate, Reason> {
    match Operand::new(arg)? {
        // A conversion with a pullback is NULL exactly where the column is.
        Operand::Column(column) => Ok(is_null(column.name)),
        Operand::Constant(_, value) => Ok(BlockPredicate::Constant(Some(value.is_null()))),
        Operand::Path(path) => Ok(path.is_null()),
    }
}

fn is_null(column: &str) -> BlockPredicate {
    BlockPredicate::IsNull { column: column.to_owned() }
}

fn not(part: BlockPredicate) -> BlockPredicate {
    BlockPredicate::Not(Box::new(part))
}

/// `value` where all of the columns have one, NULL elsewhere.
fn constant_or_null(value: Option<bool>, columns: &[Value]) -> Result<BlockPredicate, Reason> {
    let Some(value) = value else {
        return Ok(BlockPredicate::Constant(None));
    };
    let mut parts = Vec::new();
    for node in columns {
        match Operand::new(node)? {
            Operand::Column(column) => parts.push(not_null_or_null(column.name.to_owned())),
            _ => return Err("constant_or_null of something other than columns".into()),
        }
    }
    let all = BlockPredicate::And(parts);
    Ok(if value { all } else { not(all) })
}

fn operator(text: &str) -> Result<CompareOp, Reason> {
    Ok(match text {
        "=" => CompareOp::Eq,
        "<>" | "!=" => CompareOp::NotEq,
        "<" => CompareOp::Lt,
        "<=" => CompareOp::LtEq,
        ">" => CompareOp::Gt,
        ">=" => CompareOp::GtEq,
        "IS DISTINCT FROM" => CompareOp::DistinctFrom,
        "IS NOT DISTINCT FROM" => CompareOp::NotDistinctFrom,
        other => return Err(format!("the operator {other}")),
    })
}

fn kind(node: &Value) -> Result<&str, Reason> {
    text(node, "k")
}

fn field<'a>(node: &'a Value, name: &str) -> Result<&'a Value, Reason> {
    node.get(name).ok_or_else(|| format!("malformed expression: no \"{name}\""))
}

fn text<'a>(node: &'a Value, name: &str) -> Result<&'a str, Reason> {
    field(node, name)?.as_str().ok_or_else(|| format!("malformed expression: \"{name}\" is not a string"))
}

fn flag(node: &Value, name: &str) -> Result<bool, Reason> {
    field(node, name)?.as_bool().ok_or_else(|| format!("malformed expression: \"{name}\" is not a truth value"))
}

fn list<'a>(node: &'a Value, name: &str) -> Result<&'a [Value], Reason> {
    match field(node, name)? {
        Value::Array(items) => Ok(items),
        _ => Err(format!("malformed expression: \"{name}\" is not a list")),
    }
}

#[cfg(test)]
mod tests;
