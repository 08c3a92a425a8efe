//! Reads the description of a CTF trace (its file `metadata`), in the language TSDL of CTF 1.8.
//!
//! The description names types, and says of which fields the packets and events of each stream consist. This parser knows all
//! types that LTTng, babeltrace2, barectf and perf write. It leaves out call sites, log levels and unknown attributes, and reads
//! the text of one trace with one clock. Source: the CTF specification 1.8.3, section 7 and appendix C.

use std::sync::Arc;

use fonio_tracefs::ring_buffer::ByteOrder;
use rustc_hash::FxHashMap;

use super::types::{Clock, Count, Description, EventType, Field, Integer, Label, Name, StreamType, Type};

/// Maximum depth of types within types.
const DEPTH_MAX: u32 = 32;
/// Maximum number of bits of an integer.
const BITS_MAX: u64 = 64;
/// Maximum number of events, of streams and of fields of a structure.
const EVENTS_MAX: usize = 1 << 16;
const STREAMS_MAX: usize = 1 << 10;
const FIELDS_MAX: usize = 1 << 12;
/// Maximum number of words in the name of a type, such as `unsigned long long int`.
const WORDS_MAX: usize = 8;
/// Maximum alignment in bits.
const ALIGN_MAX: u64 = 4096;

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A word or a name, with dots and `->` within it.
    Word(String),
    Number(i128),
    Text(String),
    /// One of `{ } [ ] ( ) < > ; , = :`, or `:=` and `...`.
    Sign(&'static str),
}

const SIGNS: [&str; 14] = [":=", "...", "{", "}", "[", "]", "(", ")", "<", ">", ";", ",", "=", ":"];

/// What is wrong, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub line: u32,
    pub what: String,
}

type Parsed<T> = Result<T, Wrong>;

/// Reads a description. Fails at the first error: without the types, nothing can be read.
pub(super) fn parse(text: &str) -> Parsed<Description> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        order: ByteOrder::Little,
        scopes: vec![FxHashMap::default()],
        numbers: FxHashMap::default(),
        description: Description::default(),
        fields: 0,
    };
    // The byte order is that of all integers, and stands within the text.
    parser.order = parser.byte_order_of_trace();
    while parser.peek().is_some() {
        parser.statement()?;
    }
    Ok(parser.description)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '.' || letter == '$'
}

fn tokens(text: &str) -> Parsed<Vec<(Token, u32)>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1_u32);
    while let Some(letter) = rest.chars().next() {
        let wrong = |what: &str| Wrong { line, what: what.to_owned() };
        if letter == '\n' {
            line += 1;
            rest = &rest[1..];
        } else if letter.is_whitespace() || letter == '\0' {
            rest = &rest[letter.len_utf8()..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| wrong("a comment does not end"))?;
            line += comment[..end].matches('\n').count() as u32;
            rest = &comment[end + 2..];
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if letter == '"' {
            let mut value = String::new();
            let mut escaped = false;
            let mut end = None;
            for (at, letter) in rest[1..].char_indices() {
                match letter {
                    _ if escaped => {
                        value.push(letter);
                        escaped = false;
                    }
                    '\\' => escaped = true,
                    '"' => {
                        end = Some(at + 2);
                        break;
                    }
                    _ => value.push(letter),
                }
            }
            let end = end.ok_or_else(|| wrong("a text does not end"))?;
            tokens.push((Token::Text(value), line));
            line += rest[..end].matches('\n').count() as u32;
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push((Token::Sign(sign), line));
            rest = &rest[sign.len()..];
        } else if letter.is_ascii_digit() || letter == '-' || letter == '+' {
            let digits = letter.is_ascii_digit();
            let from = usize::from(!digits);
            // `0 ... 30` can stand without blanks.
            let end = rest[from..]
                .find(|letter: char| !letter.is_ascii_alphanumeric())
                .map_or(rest.len(), |end| from + end);
            let number = number(&rest[from..end]).ok_or_else(|| wrong("a number cannot be read"))?;
            tokens.push((Token::Number(if letter == '-' { -number } else { number }), line));
            rest = &rest[end..];
        } else if is_word(letter) {
            let mut end = 0;
            while let Some(letter) = rest[end..].chars().next() {
                if is_word(letter) && !rest[end..].starts_with("...") {
                    end += 1;
                } else if rest[end..].starts_with("->") {
                    end += 2;
                } else {
                    break;
                }
            }
            tokens.push((Token::Word(rest[..end].to_owned()), line));
            rest = &rest[end..];
        } else if letter == '*' {
            // A pointer in the name of a type.
            rest = &rest[1..];
        } else {
            return Err(wrong(&format!("`{}` is not expected", letter.escape_default())));
        }
    }
    Ok(tokens)
}

fn number(text: &str) -> Option<i128> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok().map(i128::from);
    }
    if let Some(digits) = text.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        return u64::from_str_radix(digits, 8).ok().map(i128::from);
    }
    text.parse::<u64>().ok().map(i128::from)
}

/// The value of an attribute: `size = 32;`, `name = "x";`, `map = clock.c.value;`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attribute {
    Number(i128),
    Text(String),
}

impl Attribute {
    fn word(&self) -> &str {
        match self {
            Attribute::Text(text) => text,
            Attribute::Number(_) => "",
        }
    }

    fn number(&self) -> Option<i128> {
        match self {
            Attribute::Number(number) => Some(*number),
            Attribute::Text(_) => None,
        }
    }
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    depth: u32,
    order: ByteOrder,
    /// The named types of each open block, the innermost last.
    scopes: Vec<FxHashMap<String, Arc<Type>>>,
    /// The numbers of names.
    numbers: FxHashMap<String, Name>,
    description: Description,
    /// Number of fields in all structures.
    fields: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Parsed<T> {
        let last = self.tokens.last().map_or(1, |(_, line)| *line);
        let line = self.tokens.get(self.at).map_or(last, |(_, line)| *line);
        Err(Wrong { line, what: what.into() })
    }

    fn next(&mut self) -> Parsed<Token> {
        let Some(token) = self.peek().cloned() else { return self.wrong("the text ends within a statement") };
        self.at += 1;
        Ok(token)
    }

    fn accept(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &'static str) -> Parsed<()> {
        if self.accept(sign) { Ok(()) } else { self.wrong(format!("`{sign}` is expected")) }
    }

    fn word(&mut self) -> Parsed<String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => {
                self.at -= 1;
                self.wrong("a name is expected")
            }
        }
    }

    fn name(&mut self, name: &str) -> Name {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.description.names.len() as Name;
        self.description.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Finds `byte_order = be` within the block of the trace.
    fn byte_order_of_trace(&self) -> ByteOrder {
        let words = self.tokens.windows(3);
        let mut depth = 0_i32;
        let mut is_trace = false;
        for window in words {
            match &window[0].0 {
                Token::Sign("{") => depth += 1,
                Token::Sign("}") => depth -= 1,
                Token::Word(word) if depth == 0 => is_trace = word == "trace",
                Token::Word(word) if depth == 1 && is_trace && word == "byte_order" => {
                    if let Token::Word(value) = &window[2].0 {
                        return byte_order(value).unwrap_or(ByteOrder::Little);
                    }
                }
                _ => {}
            }
        }
        ByteOrder::Little
    }

    fn statement(&mut self) -> Parsed<()> {
        if self.accept(";") {
            return Ok(());
        }
        let Some(Token::Word(word)) = self.peek() else { return self.wrong("a statement is expected") };
        match word.as_str() {
            "trace" | "env" | "clock" | "stream" | "event" | "callsite" => {
                let word = self.word()?;
                self.block(&word)?;
            }
            _ => {
                self.types()?;
            }
        }
        self.expect(";")
    }

    /// Reads `typealias`, `typedef`, or the declaration of a named type, without its semicolon. Returns whether it was one.
    fn types(&mut self) -> Parsed<()> {
        if self.is_word("typealias") {
            self.at += 1;
            let of = self.of_type()?;
            self.expect(":=")?;
            let mut words = Vec::new();
            while let Some(Token::Word(word)) = self.peek() {
                words.push(word.clone());
                self.at += 1;
            }
            return self.define(words.join(" "), of);
        }
        if self.is_word("typedef") {
            self.at += 1;
            let of = self.of_type()?;
            let (name, of) = self.declarator(of)?;
            return self.define(name, of);
        }
        self.of_type().map(|_| ())
    }

    fn define(&mut self, name: String, of: Arc<Type>) -> Parsed<()> {
        if name.is_empty() {
            return self.wrong("a type has no name");
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, of);
        }
        Ok(())
    }

    fn lookup(&self, name: &str) -> Option<Arc<Type>> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// Reads the block of a trace, clock, stream or event.
    fn block(&mut self, of: &str) -> Parsed<()> {
        self.expect("{")?;
        self.scopes.push(FxHashMap::default());
        let mut attributes: Vec<(String, Attribute)> = Vec::new();
        let mut types: Vec<(String, Arc<Type>)> = Vec::new();
        while !self.accept("}") {
            let is_type =
                ["typealias", "typedef", "struct", "enum", "variant"].iter().any(|word| self.is_word(word));
            if is_type {
                self.types()?;
                self.expect(";")?;
                continue;
            }
            let name = match self.next()? {
                Token::Word(word) => word,
                Token::Text(text) => text,
                _ => return self.wrong("an attribute is expected"),
            };
            if self.accept(":=") {
                let found = self.of_type()?;
                types.push((name, found));
            } else {
                self.expect("=")?;
                let value = self.value()?;
                attributes.push((name, value));
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        let number = |name: &str| {
            let found = attributes.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.number())
        };
        let text = |name: &str| {
            let found = attributes.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.word().to_owned()).filter(|text| !text.is_empty())
        };
        let id = |name: &str| u64::try_from(number(name).unwrap_or(0)).unwrap_or(0);
        let mut of_type = |name: &str| {
            let at = types.iter().position(|(known, _)| known == name)?;
            Some(types.swap_remove(at).1)
        };
        let description = &mut self.description;
        match of {
            "trace" => description.packet_header = of_type("packet.header"),
            "clock" if description.clock.is_none() => {
                let wide = |name: &str| number(name).and_then(|value| i64::try_from(value).ok()).unwrap_or(0);
                description.clock = Some(Clock {
                    name: text("name").unwrap_or_default(),
                    frequency: u64::try_from(number("freq").unwrap_or(1_000_000_000)).unwrap_or(0).max(1),
                    offset_seconds: wide("offset_s"),
                    offset_cycles: wide("offset"),
                });
            }
            "stream" if description.streams.len() < STREAMS_MAX => {
                let stream = StreamType {
                    packet_context: of_type("packet.context"),
                    event_header: of_type("event.header"),
                    event_context: of_type("event.context"),
                };
                description.streams.push((id("id"), stream));
            }
            "event" if description.events.len() < EVENTS_MAX => {
                let event = EventType {
                    name: text("name").unwrap_or_default(),
                    context: of_type("context"),
                    fields: of_type("fields"),
                };
                description.events.insert((id("stream_id"), id("id")), event);
            }
            "env" => {
                let texts = attributes.into_iter().filter(|(_, value)| !value.word().is_empty());
                description.environment.extend(texts.map(|(name, value)| (name, value.word().to_owned())));
            }
            _ => {}
        }
        Ok(())
    }

    fn value(&mut self) -> Parsed<Attribute> {
        match self.next()? {
            Token::Number(number) => Ok(Attribute::Number(number)),
            Token::Text(text) => {
                let mut text = text;
                // Adjacent texts are one.
                while let Some(Token::Text(more)) = self.peek() {
                    text += more;
                    self.at += 1;
                }
                Ok(Attribute::Text(text))
            }
            Token::Word(word) => Ok(Attribute::Text(word)),
            Token::Sign(_) => self.wrong("a value is expected"),
        }
    }

    fn attributes(&mut self) -> Parsed<Vec<(String, Attribute)>> {
        let mut all = Vec::new();
        if !self.accept("{") {
            return Ok(all);
        }
        while !self.accept("}") {
            let name = self.word()?;
            self.expect("=")?;
            all.push((name, self.value()?));
            self.expect(";")?;
        }
        Ok(all)
    }

    fn of_type(&mut self) -> Parsed<Arc<Type>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.wrong("types are nested too deeply");
        }
        let found = self.of_type_within();
        self.depth -= 1;
        found
    }

    fn of_type_within(&mut self) -> Parsed<Arc<Type>> {
        let word = self.word()?;
        match word.as_str() {
            "integer" => self.integer(),
            "floating_point" => self.float(),
            "string" => {
                self.attributes()?;
                Ok(Arc::new(Type::Text))
            }
            "struct" => self.structure(),
            "enum" => self.enumeration(),
            "variant" => self.variant(),
            // `const` says nothing of the data.
            "const" => self.of_type(),
            _ => {
                // A name can have several words: `unsigned long`. The last one is the declarator, unless the name is known.
                let mut name = word;
                for _ in 0..WORDS_MAX {
                    if let Some(known) = self.lookup(&name) {
                        let longer = match self.peek() {
                            Some(Token::Word(next)) => self.lookup(&format!("{name} {next}")),
                            _ => None,
                        };
                        if longer.is_none() {
                            return Ok(known);
                        }
                    }
                    match self.peek() {
                        Some(Token::Word(next)) => {
                            name = format!("{name} {next}");
                            self.at += 1;
                        }
                        _ => break,
                    }
                }
                self.wrong(format!("the type `{}` is not known", shown(&name)))
            }
        }
    }

    fn integer(&mut self) -> Parsed<Arc<Type>> {
        let attributes = self.attributes()?;
        let find = |name: &str| attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let bits = find("size").and_then(Attribute::number).and_then(|bits| u64::try_from(bits).ok());
        let Some(bits) = bits.filter(|bits| (1..=BITS_MAX).contains(bits)) else {
            return self.wrong("an integer has 1 to 64 bits");
        };
        // Sizes of whole bytes are aligned to bytes, others to bits.
        let align = match find("align").and_then(Attribute::number) {
            Some(align) => self.alignment(align)?,
            None if bits % 8 == 0 => 8,
            None => 1,
        };
        let signed = match find("signed") {
            Some(Attribute::Number(number)) => *number != 0,
            Some(Attribute::Text(word)) => word == "true" || word == "TRUE",
            None => false,
        };
        let order = find("byte_order").and_then(|value| byte_order(value.word())).unwrap_or(self.order);
        Ok(Arc::new(Type::Integer(Integer {
            bits: bits as u32,
            align,
            signed,
            order,
            is_clock: find("map").is_some_and(|value| value.word().starts_with("clock.")),
        })))
    }

    fn alignment(&self, align: i128) -> Parsed<u32> {
        match u64::try_from(align) {
            Ok(align) if align.is_power_of_two() && align <= ALIGN_MAX => Ok(align as u32),
            _ => self.wrong("an alignment must be a power of two"),
        }
    }

    fn float(&mut self) -> Parsed<Arc<Type>> {
        let attributes = self.attributes()?;
        let number = |name: &str| {
            let found = attributes.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.number()).unwrap_or(0)
        };
        let bits = number("exp_dig") + number("mant_dig");
        let Some(bits) = u32::try_from(bits).ok().filter(|bits| (1..=256).contains(bits)) else {
            return self.wrong("a floating-point number has too many bits");
        };
        let align = number("align");
        let align = if align == 0 { if bits % 8 == 0 { 8 } else { 1 } } else { self.alignment(align)? };
        Ok(Arc::new(Type::Float { bits, align }))
    }

    fn structure(&mut self) -> Parsed<Arc<Type>> {
        let name = self.optional_name()?;
        if !self.is_sign("{") {
            return self.known("struct", name);
        }
        let fields = self.fields()?;
        let mut align = fields.iter().map(|field| field.of.align()).max().unwrap_or(1);
        if self.is_word("align") {
            self.at += 1;
            self.expect("(")?;
            let Token::Number(least) = self.next()? else { return self.wrong("a number is expected") };
            align = align.max(self.alignment(least)?);
            self.expect(")")?;
        }
        let depth = self.depth_around(fields.iter().map(|field| field.of.depth()))?;
        self.named("struct", name, Type::Struct { fields: Arc::new(fields), align, depth })
    }

    fn variant(&mut self) -> Parsed<Arc<Type>> {
        let name = self.optional_name()?;
        let mut tag = None;
        if self.accept("<") {
            let path = self.word()?;
            tag = Some(self.name(last_of(&path)));
            self.expect(">")?;
        }
        if !self.is_sign("{") {
            let known = self.known("variant", name)?;
            // The tag of a named variant stands where it is used.
            return Ok(match (&*known, tag) {
                (Type::Variant { options, depth, .. }, Some(_)) => {
                    Arc::new(Type::Variant { tag, options: Arc::clone(options), depth: *depth })
                }
                _ => known,
            });
        }
        let options = Arc::new(self.fields()?);
        let depth = self.depth_around(options.iter().map(|field| field.of.depth()))?;
        self.named("variant", name, Type::Variant { tag, options, depth })
    }

    fn enumeration(&mut self) -> Parsed<Arc<Type>> {
        let name = self.optional_name()?;
        let mut of = None;
        if self.accept(":") {
            of = Some(self.of_type()?);
        }
        if !self.is_sign("{") {
            return self.known("enum", name);
        }
        self.expect("{")?;
        let mut labels = Vec::new();
        let mut next = 0_i128;
        while !self.accept("}") {
            let label = match self.next()? {
                Token::Word(word) => word,
                Token::Text(text) => text,
                _ => return self.wrong("a name of a value is expected"),
            };
            let (mut first, mut last) = (next, next);
            if self.accept("=") {
                let Token::Number(number) = self.next()? else { return self.wrong("a number is expected") };
                (first, last) = (number, number);
                if self.accept("...") {
                    let Token::Number(number) = self.next()? else {
                        return self.wrong("a number is expected");
                    };
                    last = number;
                }
            }
            if labels.len() >= FIELDS_MAX {
                return self.wrong("an enumeration has too many values");
            }
            labels.push(Label { name: self.name(&label), first, last });
            next = last + 1;
            if !self.accept(",") && !self.is_sign("}") {
                return self.wrong("`,` or `}` is expected");
            }
        }
        let of = of.or_else(|| self.lookup("int"));
        let Some(Type::Integer(of)) = of.as_deref() else {
            return self.wrong("an enumeration needs an integer");
        };
        let of = *of;
        self.named("enum", name, Type::Enum { of, labels: Arc::new(labels) })
    }

    /// Returns the depth of a type around types with these depths.
    fn depth_around(&self, within: impl Iterator<Item = u32>) -> Parsed<u32> {
        match within.max().unwrap_or(0) + 1 {
            depth if depth <= DEPTH_MAX => Ok(depth),
            _ => self.wrong("types are nested too deeply"),
        }
    }

    fn optional_name(&mut self) -> Parsed<Option<String>> {
        match self.peek() {
            Some(Token::Word(_)) => self.word().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the type that was declared as `struct NAME`.
    fn known(&mut self, kind: &str, name: Option<String>) -> Parsed<Arc<Type>> {
        let Some(name) = name else { return self.wrong(format!("a {kind} needs a name or fields")) };
        match self.lookup(&format!("{kind} {name}")) {
            Some(known) => Ok(known),
            None => self.wrong(format!("`{kind} {}` is not known", shown(&name))),
        }
    }

    fn named(&mut self, kind: &str, name: Option<String>, of: Type) -> Parsed<Arc<Type>> {
        let of = Arc::new(of);
        if let Some(name) = name {
            self.define(format!("{kind} {name}"), Arc::clone(&of))?;
        }
        Ok(of)
    }

    /// Reads the fields of a structure, or the options of a variant.
    fn fields(&mut self) -> Parsed<Vec<Field>> {
        self.expect("{")?;
        self.scopes.push(FxHashMap::default());
        let mut fields = Vec::new();
        while !self.accept("}") {
            if self.is_word("typealias") || self.is_word("typedef") {
                self.types()?;
                self.expect(";")?;
                continue;
            }
            let of = self.of_type()?;
            // A named type without a field.
            if self.accept(";") {
                continue;
            }
            loop {
                let (name, of) = self.declarator(Arc::clone(&of))?;
                self.fields += 1;
                if fields.len() >= FIELDS_MAX || self.fields > EVENTS_MAX * 16 {
                    return self.wrong("there are too many fields");
                }
                let name = self.name(&name);
                fields.push(Field { name, of });
                if !self.accept(",") {
                    break;
                }
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        Ok(fields)
    }

    /// Reads the name of a field, and its number of elements if it is an array.
    fn declarator(&mut self, of: Arc<Type>) -> Parsed<(String, Arc<Type>)> {
        let name = self.word()?;
        let mut counts = Vec::new();
        while self.accept("[") {
            let count = match self.next()? {
                Token::Number(number) => match u64::try_from(number) {
                    Ok(count) => Count::Fixed(count),
                    Err(_) => return self.wrong("a number of elements cannot be negative"),
                },
                Token::Word(path) => Count::Of(self.name(last_of(&path))),
                _ => return self.wrong("a number of elements is expected"),
            };
            self.expect("]")?;
            counts.push(count);
        }
        let mut of = of;
        for count in counts.into_iter().rev() {
            let depth = self.depth_around([of.depth()].into_iter())?;
            of = Arc::new(Type::Array { of, count, depth });
        }
        Ok((name, of))
    }
}

/// Returns the last part of `stream.event.header.id`.
fn last_of(path: &str) -> &str {
    path.rsplit(['.', '>']).next().unwrap_or(path)
}

fn byte_order(word: &str) -> Option<ByteOrder> {
    match word {
        "le" => Some(ByteOrder::Little),
        "be" | "network" => Some(ByteOrder::Big),
        _ => None,
    }
}

/// Returns a name for a message.
fn shown(name: &str) -> String {
    fonio_core::printable(fonio_core::shortened(name, 60)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let wrong = parse(text).expect_err("it is wrong");
        format!("line {}: {}", wrong.line, wrong.what)
    }

    const TEXT: &str = r#"/* CTF 1.8 */
        typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
        typealias integer { size = 32; align = 8; signed = 0; } := unsigned long;
        typealias integer { size = 5; align = 1; } := uint5_t;
        typealias integer { size = 27; align = 1; map = clock.monotonic.value; } := time_t;
        trace {
            major = 1; minor = 8; uuid = "d3ad"; byte_order = be;
            packet.header := struct { unsigned long magic; uint8_t uuid[16]; unsigned long stream_id; };
        };
        env { hostname = "a" "b"; tracer_major = 2; };
        clock { name = "monotonic"; freq = 1000; offset_s = 5; offset = -7; };
        struct header {
            enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
            variant <id> { struct { time_t timestamp; } compact; struct { unsigned long id; } extended; } v;
        } align(8);
        stream { id = 1; event.header := struct header; packet.context := struct { unsigned long packet_size; }; };
        event {
            name = "block_rq_issue"; id = 4; stream_id = 1; loglevel = 13; model.emf.uri = "http://x";
            fields := struct {
                integer { size = 32; align = 8; signed = 1; } _a, _b;
                uint8_t __cmd_length;
                integer { size = 8; align = 8; encoding = UTF8; } _cmd[ __cmd_length ], _comm[16][2];
                string _s; floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _f;
                enum { A, B = 5, "C" } : uint8_t _unused;
            };
        };
    "#;

    #[test]
    fn a_description() {
        let text = TEXT
            .replace("enum { A, B = 5, \"C\" } : uint8_t _unused;", "enum : uint8_t { A, B = 5, \"C\" } _e;");
        let found = parse(&text).expect("it is read");
        let event = &found.events[&(1, 4)];
        assert_eq!(event.name, "block_rq_issue");
        let Some(Type::Struct { fields, align: 8, .. }) = event.fields.as_deref() else {
            panic!("{event:?}")
        };
        let names: Vec<&str> = fields.iter().map(|field| found.names[field.name as usize].as_str()).collect();
        assert_eq!(names, ["_a", "_b", "__cmd_length", "_cmd", "_comm", "_s", "_f", "_e"]);
        let Type::Array { of, count: Count::Fixed(16), .. } = &*fields[4].of else { panic!("{fields:?}") };
        assert!(matches!(&**of, Type::Array { count: Count::Fixed(2), .. }));
        assert!(
            matches!(&*fields[3].of, Type::Array { count: Count::Of(name), .. } if *name == fields[2].name)
        );
        let Type::Enum { labels, .. } = &*fields[7].of else { panic!("{fields:?}") };
        assert_eq!(labels.iter().map(|label| label.first).collect::<Vec<_>>(), [0, 5, 6]);
        let Type::Integer(first) = &*fields[0].of else { panic!("{fields:?}") };
        assert_eq!((first.order, first.signed, first.bits), (ByteOrder::Big, true, 32));
        let clock = found.clock.expect("it has a clock");
        assert_eq!((clock.frequency, clock.offset_seconds, clock.offset_cycles), (1000, 5, -7));
        assert_eq!(found.environment, [("hostname".to_owned(), "ab".to_owned())]);
        let Some(Type::Struct { fields, .. }) = found.streams[0].1.event_header.as_deref() else { panic!() };
        let Type::Variant { tag: Some(tag), options, .. } = &*fields[1].of else { panic!("{fields:?}") };
        assert_eq!((*tag, options.len()), (fields[0].name, 2));
    }

    #[test]
    fn what_is_wrong() {
        let cases = [
            ("trace {\n x", "line 2: `=` is expected"),
            ("/* x", "line 1: a comment does not end"),
            ("\n\"x", "line 2: a text does not end"),
            ("struct { foo bar; } x;", "line 1: the type `foo bar` is not known"),
            ("typealias integer { size = 65; } := a;", "line 1: an integer has 1 to 64 bits"),
            (
                "typealias integer { size = 8; align = 3; } := a;",
                "line 1: an alignment must be a power of two",
            ),
            ("#", "line 1: `#` is not expected"),
            ("event { fields := struct x; };", "line 1: `struct x` is not known"),
        ];
        for (text, expected) in cases {
            assert_eq!(wrong(text), expected, "{text}");
        }
        let deep = format!("typealias {} x {} := a;", "struct { ".repeat(100), "}; ".repeat(100));
        assert!(wrong(&deep).contains("nested too deeply"), "{}", wrong(&deep));
        // Each name of a type stands for a type around the one before.
        let mut names = "typealias integer { size = 8; } := t0;".to_owned();
        for number in 1..100 {
            names += &format!("typealias struct {{ t{} x; }} := t{number};", number - 1);
        }
        assert!(wrong(&names).contains("nested too deeply"), "{}", wrong(&names));
        assert!(wrong("typealias integer { size = 8; } := t; typedef t x[1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1]\
                       [1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1];").contains("nested too deeply"));
    }
}
