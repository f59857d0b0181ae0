//! Names of C++ as compilers mangle them by the Itanium C++ ABI (<https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling>), in the words in which LLVM's tools write them.

mod encoding;
mod expressions;
mod float;
mod names;
mod node;
mod operators;
mod parser;
mod print;
mod print_expression;
mod print_halves;
mod templates;
mod types;
mod unresolved;

use super::Bounded;
use node::{Id, Node};
use parser::Parser;
use print::Printer;

/// Writes a mangled name; nothing where it is none, or nests too deep, or is too long when it is written.
pub(super) fn write(name: &str, out: &mut Bounded) -> Option<()> {
    let mut parser = Parser::of(name);
    let id = whole(&mut parser)?;
    let mut printer = Printer {
        nodes: &parser.nodes,
        busy: vec![false; parser.nodes.len()],
        out,
        pack: None,
        is_in_arguments: false,
        parentheses: 0,
        depth: 0,
    };
    printer.all(id).ok()
}

fn whole(parser: &mut Parser<'_>) -> Option<Id> {
    // Of Apple's, with another underscore.
    if parser.take("_Z") || parser.take("__Z") {
        let function = parser.encoding()?;
        let suffix = parser.rest;
        return match suffix.starts_with('.') {
            true => Some(parser.add(Node::Clone(function, suffix))),
            false => suffix.is_empty().then_some(function),
        };
    }
    if !parser.take("___Z") && !parser.take("____Z") {
        return None;
    }
    let function = parser.encoding()?;
    if !parser.take("_block_invoke") {
        return None;
    }
    let is_numbered = parser.take("_");
    let number = parser.digits();
    if is_numbered && number.is_empty() || !(parser.rest.is_empty() || parser.starts(".")) {
        return None;
    }
    Some(parser.add(Node::Prefixed(
        "invocation function for block in ",
        function,
    )))
}

#[cfg(test)]
mod tests;
