//! From the buffers of a block to Arrow arrays.
//!
//! The arrays are built by Arrow's validating constructors: a wrong length, an offset outside its data, invalid UTF-8 or a
//! dictionary index out of range is an error here and never reaches a caller. Buffers that are not aligned for their type are
//! copied, the others are used as they are, even when they lie in a memory-mapped file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayDataBuilder, ArrayRef, BufferSpec, DictionaryArray, PrimitiveArray, UnionArray, layout,
    make_array, new_empty_array, new_null_array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Field, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type, UnionMode,
};
use arrow_ipc::MetadataVersion;

use super::compression::decompress;
use super::footer::{BatchLayout, Node};
use crate::format::ColumnPart;

/// Dictionaries by id.
pub type Dictionaries = HashMap<i64, ArrayRef>;

/// A position in the flat lists of a [`BatchLayout`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    node: usize,
    buffer: usize,
    variadic: usize,
}

/// How the arrays of a schema lie in a block.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// The block's lists.
    pub layout: &'a BatchLayout,
    /// Unions of metadata version 4 and older have a validity buffer.
    pub version: MetadataVersion,
}

impl Shape<'_> {
    fn node(&self, at: &mut Cursor) -> Result<Node, String> {
        let node = self.layout.nodes.get(at.node).copied().ok_or("the message has fewer arrays than the schema")?;
        at.node += 1;
        Ok(node)
    }

    /// The index of the next buffer; [`Shape::walk`] and [`Decoder::buffer`] check that it exists.
    fn buffers(at: &mut Cursor, count: usize) -> Range<usize> {
        let start = at.buffer;
        at.buffer = at.buffer.saturating_add(count);
        start..at.buffer
    }

    fn variadic(&self, at: &mut Cursor) -> Result<usize, String> {
        let count = self.layout.variadic.get(at.variadic).copied();
        at.variadic += 1;
        // Validity and views come before the data buffers.
        count.and_then(|c| c.checked_add(2)).ok_or_else(|| "a view array has no count of its data buffers".to_owned())
    }

    /// Buffers of an array itself, without its children.
    fn own_buffers(&self, data_type: &DataType, at: &mut Cursor) -> Result<usize, String> {
        use DataType::{
            Binary, BinaryView, FixedSizeList, LargeBinary, LargeListView, LargeUtf8, ListView, Null, RunEndEncoded,
            Struct, Union, Utf8, Utf8View,
        };
        Ok(match data_type {
            Null | RunEndEncoded(..) => 0,
            Struct(_) | FixedSizeList(..) => 1,
            Utf8 | Binary | LargeUtf8 | LargeBinary | ListView(_) | LargeListView(_) => 3,
            Utf8View | BinaryView => self.variadic(at)?,
            Union(_, mode) => {
                let validity = usize::from(self.version < MetadataVersion::V5);
                validity + if *mode == UnionMode::Dense { 2 } else { 1 }
            }
            _ => 2,
        })
    }

    /// Whether the first buffer of an array is a validity bitmap that says nothing: without nulls it is neither fetched nor used.
    fn idle_validity(&self, data_type: &DataType, node: Node) -> bool {
        node.nulls == 0 && !matches!(data_type, DataType::Null | DataType::RunEndEncoded(..) | DataType::Union(..))
    }

    /// Passes over one field and adds the indices of the buffers that decoding it needs to `needed`; of a struct those of the
    /// fields `parts`, of all its fields if there are none.
    pub fn walk(
        &self,
        field: &Field,
        parts: &[ColumnPart],
        at: &mut Cursor,
        needed: &mut Vec<usize>,
    ) -> Result<(), String> {
        let node = self.node(at)?;
        let own = self.own_buffers(field.data_type(), at)?;
        let own = Self::buffers(at, own);
        if at.buffer > self.layout.buffers.len() {
            return Err("the message has fewer buffers than the schema".to_owned());
        }
        needed.extend(own.skip(usize::from(self.idle_validity(field.data_type(), node))));
        for (index, child) in children(field.data_type()).into_iter().enumerate() {
            match wanted(field.data_type(), parts, index) {
                Some(parts) => self.walk(child, &parts, at, needed)?,
                None => self.walk(child, &[], at, &mut Vec::new())?,
            }
        }
        Ok(())
    }
}

/// What is wanted of child `index` of a column of which `parts` are: some fields (all, if there are none), or nothing. Only structs
/// have fields that can be left out.
fn wanted(data_type: &DataType, parts: &[ColumnPart], index: usize) -> Option<Vec<ColumnPart>> {
    if parts.is_empty() || !matches!(data_type, DataType::Struct(_)) {
        return Some(Vec::new());
    }
    ColumnPart::by_column(parts).remove(&index)
}

/// A struct type as its decoded children make it: those that were left out are NULL.
fn with_children(data_type: &DataType, children: &[ArrayRef]) -> DataType {
    let DataType::Struct(fields) = data_type else { return data_type.clone() };
    let field = |(field, child): (&Arc<Field>, &ArrayRef)| {
        let nullable = field.is_nullable() || child.null_count() > 0;
        field.as_ref().clone().with_data_type(child.data_type().clone()).with_nullable(nullable)
    };
    DataType::Struct(fields.iter().zip(children).map(field).collect())
}

/// The children of a type, in the order of their arrays in a message.
fn children(data_type: &DataType) -> Vec<&Field> {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union};
    match data_type {
        List(f) | LargeList(f) | ListView(f) | LargeListView(f) | FixedSizeList(f, _) | Map(f, _) => vec![f],
        Struct(fields) => fields.iter().map(AsRef::as_ref).collect(),
        Union(fields, _) => fields.iter().map(|(_, f)| f.as_ref()).collect(),
        RunEndEncoded(ends, values) => vec![ends, values],
        _ => Vec::new(),
    }
}

/// The ids of the dictionaries that a field needs, its children's included.
pub fn dictionary_ids(field: &Field, out: &mut Vec<i64>) {
    if let DataType::Dictionary(_, values) = field.data_type() {
        out.extend(dictionary_id(field));
        dictionary_ids(&Field::new("values", values.as_ref().clone(), true), out);
    }
    for child in children(field.data_type()) {
        dictionary_ids(child, out);
    }
}

/// The id of a dictionary field.
#[expect(deprecated, reason = "the only place where the Arrow IPC reader leaves the id of the schema message")]
pub fn dictionary_id(field: &Field) -> Option<i64> {
    field.dict_id()
}

/// Decodes fields of one block.
pub struct Decoder<'a> {
    /// Where things are.
    pub shape: Shape<'a>,
    /// The fetched buffers by their index in the layout; those of columns that are not wanted are absent.
    pub buffers: &'a [Option<Buffer>],
    /// The dictionaries that the wanted columns need.
    pub dictionaries: &'a Dictionaries,
}

impl Decoder<'_> {
    /// Decodes the field whose arrays and buffers begin at `at`. Of a struct only the fields `parts` are decoded, unless there are
    /// none; the others come as NULL, and where the schema forbids that the type of the array differs from it.
    pub fn field(&self, field: &Field, parts: &[ColumnPart], at: &mut Cursor) -> Result<ArrayRef, String> {
        let data_type = field.data_type();
        let node = self.shape.node(at)?;
        let own = self.shape.own_buffers(data_type, at)?;
        let own = Shape::buffers(at, own);
        let mut buffers = Vec::with_capacity(own.len());
        let mut own = own;
        if self.shape.idle_validity(data_type, node) && own.next().is_some() {
            buffers.push(Buffer::from(Vec::<u8>::new()));
        }
        for index in own {
            buffers.push(self.buffer(index)?);
        }
        match data_type {
            DataType::Dictionary(key, values) => self.dictionary(field, key, values, node, &buffers),
            DataType::Union(fields, mode) => {
                let children = self.children(data_type, &[], at)?;
                let buffers =
                    if self.shape.version < MetadataVersion::V5 { buffers.get(1..) } else { Some(&buffers[..]) };
                let mut buffers = buffers.unwrap_or_default().iter();
                let types = typed::<i8>(buffers.next(), node.len)?;
                let offsets = match mode {
                    UnionMode::Dense => Some(typed::<i32>(buffers.next(), node.len)?),
                    UnionMode::Sparse => None,
                };
                let union = UnionArray::try_new(fields.clone(), types, offsets, children).map_err(|e| e.to_string())?;
                Ok(Arc::new(union))
            }
            _ => {
                let children = self.children(data_type, parts, at)?;
                let mut builder = ArrayData::builder(with_children(data_type, &children))
                    .len(node.len)
                    .child_data(children.into_iter().map(|c| c.into_data()).collect());
                if !matches!(data_type, DataType::Null | DataType::RunEndEncoded(..)) {
                    let mut buffers = buffers.into_iter();
                    let validity = buffers.next();
                    let specs = layout(data_type).buffers;
                    let values = buffers.enumerate().map(|(i, buffer)| whole_values(buffer, specs.get(i))).collect();
                    builder = with_validity(builder, node, validity).buffers(values);
                }
                build(builder)
            }
        }
    }

    fn children(&self, data_type: &DataType, parts: &[ColumnPart], at: &mut Cursor) -> Result<Vec<ArrayRef>, String> {
        let child = |(index, child): (usize, &Field)| match wanted(data_type, parts, index) {
            Some(parts) => self.field(child, &parts, at),
            None => {
                let length = self.shape.layout.nodes.get(at.node).map_or(0, |node| node.len);
                self.shape.walk(child, &[], at, &mut Vec::new())?;
                Ok(new_null_array(child.data_type(), length))
            }
        };
        children(data_type).into_iter().enumerate().map(child).collect()
    }

    fn buffer(&self, index: usize) -> Result<Buffer, String> {
        let buffer = self.buffers.get(index).ok_or("the message has fewer buffers than the schema")?;
        let buffer = buffer.as_ref().ok_or("a buffer was not fetched")?;
        match self.shape.layout.codec {
            None => Ok(buffer.clone()),
            Some(codec) => decompress(codec, buffer),
        }
    }

    fn dictionary(
        &self,
        field: &Field,
        key: &DataType,
        values_type: &DataType,
        node: Node,
        buffers: &[Buffer],
    ) -> Result<ArrayRef, String> {
        let id = dictionary_id(field).ok_or("a dictionary column has no dictionary id")?;
        // A dictionary may be left out when every value is NULL.
        let values = self.dictionaries.get(&id).cloned().unwrap_or_else(|| new_empty_array(values_type));
        let keys = with_validity(ArrayData::builder(key.clone()).len(node.len), node, buffers.first().cloned())
            .buffers(
                buffers
                    .iter()
                    .skip(1)
                    .zip(&layout(key).buffers)
                    .map(|(buffer, spec)| whole_values(buffer.clone(), Some(spec)))
                    .collect(),
            );
        let keys = build(keys)?;
        match key {
            DataType::Int8 => dictionary_array::<Int8Type>(&keys, values),
            DataType::Int16 => dictionary_array::<Int16Type>(&keys, values),
            DataType::Int32 => dictionary_array::<Int32Type>(&keys, values),
            DataType::Int64 => dictionary_array::<Int64Type>(&keys, values),
            DataType::UInt8 => dictionary_array::<UInt8Type>(&keys, values),
            DataType::UInt16 => dictionary_array::<UInt16Type>(&keys, values),
            DataType::UInt32 => dictionary_array::<UInt32Type>(&keys, values),
            DataType::UInt64 => dictionary_array::<UInt64Type>(&keys, values),
            other => Err(format!("{other} cannot be the key type of a dictionary")),
        }
    }
}

/// Shares `values` between all blocks, so that a caller can recognise the dictionary by its address.
fn dictionary_array<K: ArrowDictionaryKeyType>(keys: &ArrayRef, values: ArrayRef) -> Result<ArrayRef, String> {
    let keys: &PrimitiveArray<K> =
        keys.as_any().downcast_ref().ok_or("dictionary keys of another type than the schema says")?;
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys.clone(), values).map_err(|e| e.to_string())?))
}

/// Cuts a buffer to a whole number of values: Arrow's validation views it as a slice of them, and panics over a rest.
fn whole_values(buffer: Buffer, spec: Option<&BufferSpec>) -> Buffer {
    match spec {
        Some(BufferSpec::FixedWidth { byte_width, .. }) if *byte_width > 0 => {
            let rest = buffer.len() % byte_width;
            if rest == 0 { buffer } else { buffer.slice_with_length(0, buffer.len() - rest) }
        }
        _ => buffer,
    }
}

fn with_validity(builder: ArrayDataBuilder, node: Node, validity: Option<Buffer>) -> ArrayDataBuilder {
    builder.null_count(node.nulls).null_bit_buffer(validity.filter(|_| node.nulls > 0))
}

fn build(builder: ArrayDataBuilder) -> Result<ArrayRef, String> {
    builder.align_buffers(true).build().map(make_array).map_err(|e| e.to_string())
}

/// The first `len` values of a buffer, aligned.
fn typed<T: arrow::datatypes::ArrowNativeType>(buffer: Option<&Buffer>, len: usize) -> Result<ScalarBuffer<T>, String> {
    let buffer = buffer.ok_or("the message has fewer buffers than the schema")?;
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= buffer.len());
    let bytes = bytes.ok_or_else(|| format!("a buffer of {} bytes is too short for {len} values", buffer.len()))?;
    let buffer = buffer.slice_with_length(0, bytes);
    let aligned = buffer.as_ptr().align_offset(align_of::<T>()) == 0;
    Ok(if aligned { buffer } else { Buffer::from_slice_ref(buffer.as_slice()) }.into())
}
