//! The word tokenizer of the storage format.

/// Lower-cased runs of ASCII letters and digits, at least two long.
pub fn tokens(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|t| t.len() >= 2).map(str::to_ascii_lowercase).collect()
}
