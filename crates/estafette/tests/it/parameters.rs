//! What functions take has names: no tuple of unnamed values, and no name of one letter outside of
//! closures. Read with a parser, since a pattern would take closures and bounds for tuples.

use syn::visit::{self, Visit};
use syn::{FnArg, PatIdent, Signature, Type};

use crate::tidy::{Source, shipped, sources};

/// Functions of a line or two about a formatter, a character or numbers as such.
const LETTERS: &[&str] = &["fmt", "gcd", "is_letter", "scramble"];

/// What is wrong in a file.
#[derive(Default)]
struct Faults {
    /// The function that is being read.
    function: String,
    found: Vec<String>,
}

impl<'a> Visit<'a> for Faults {
    fn visit_signature(&mut self, signature: &'a Signature) {
        self.function = signature.ident.to_string();
        for input in &signature.inputs {
            let FnArg::Typed(input) = input else { continue };
            // A pattern such as `Path((id, name))` names the parts of one thing.
            if is_tuple(&input.ty) {
                self.found
                    .push(format!("{} takes a tuple: a struct, or two things", self.function));
            }
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_closure(&mut self, closure: &'a syn::ExprClosure) {
        // Its own parameters may be short; what it binds inside may not.
        self.visit_expr(&closure.body);
    }

    fn visit_pat_ident(&mut self, name: &'a PatIdent) {
        // A constant of one letter is somebody else's, such as a type of record.
        let is_letter = matches!(name.ident.to_string().as_bytes(), [b'a'..=b'z']);
        if is_letter && !LETTERS.contains(&self.function.as_str()) {
            self.found.push(format!("{} calls something `{}`", self.function, name.ident));
        }
        visit::visit_pat_ident(self, name);
    }
}

/// Whether a parameter is a tuple, behind however many references and in an `Option`.
fn is_tuple(kind: &Type) -> bool {
    match kind {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Reference(to) => is_tuple(&to.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let syn::PathArguments::AngleBracketed(inner) = &last.arguments else { return false };
            last.ident == "Option"
                && inner.args.iter().any(
                    |inner| matches!(inner, syn::GenericArgument::Type(inner) if is_tuple(inner)),
                )
        }),
        _ => false,
    }
}

fn faults(text: &str) -> Vec<String> {
    let mut faults = Faults::default();
    faults.visit_file(&syn::parse_file(text).expect("a file of code"));
    faults.found
}

fn all() -> Vec<Source> {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = shipped(sources(&crates));
    all.into_iter()
        .filter(|source| source.path.contains("/src/") && !source.path.ends_with("/tests.rs"))
        .collect()
}

#[test]
fn what_functions_take_has_names() {
    let files = all();
    assert!(files.len() > 300, "only {} files were found", files.len());
    let found: Vec<String> = files
        .iter()
        .flat_map(|source| {
            faults(&source.text).into_iter().map(|fault| format!("{}: {fault}", source.path))
        })
        .collect();
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

#[test]
fn tuples_and_letters_are_caught() {
    for bad in [
        "fn one((id, name): (u8, u8)) {}",
        "fn one(both: &(u8, u8)) {}",
        "fn one(both: Option<(u8, u8)>) {}",
        "fn one(a: u8) {}",
        "trait One { fn one(&self, both: (u8, u8)); }",
        "fn one() { let a = 1; }",
        "fn one() { if let Some(a) = two() {} }",
        "fn one() { two(|a| { let b = a; }) }",
    ] {
        assert_eq!(faults(bad).len(), 1, "{bad}");
    }
    for good in [
        "fn one(told: &(impl Fn(&str) + Sync), none: ()) {}",
        "fn one(keep: Option<&(dyn Fn(u8) -> bool + Sync)>, rows: &[(u8, u8)]) {}",
        "fn one() -> u8 { two(|a, b| a + b) }",
        "fn one(Path((id, name)): Path<(u8, u8)>) {}",
        "fn fmt(f: &mut Formatter) {}",
    ] {
        assert!(faults(good).is_empty(), "{good}: {:?}", faults(good));
    }
}
