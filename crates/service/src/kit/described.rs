//! Enums in the API description: a name, and the words that there are.

/// Describes a type that is a word on the wire: `described!(Type as "Name": "What it is.", words)`.
macro_rules! described {
    ($type:ty as $name:literal: $about:literal, $words:expr) => {
        $crate::kit::described::described!($type as $about, $name, $words);
    };
    ($type:ty as $about:literal, $name:expr, $words:expr) => {
        #[cfg(feature = "describe")]
        impl ::utoipa::PartialSchema for $type {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                ::utoipa::openapi::ObjectBuilder::new()
                    .schema_type(::utoipa::openapi::Type::String)
                    .description(Some($about))
                    .enum_values(Some($words))
                    .into()
            }
        }

        #[cfg(feature = "describe")]
        impl ::utoipa::ToSchema for $type {
            fn name() -> ::std::borrow::Cow<'static, str> {
                $name.into()
            }
        }
    };
}

/// The same for words that have no type of their own: makes one that only names them.
macro_rules! described_words {
    ($vis:vis $type:ident: $about:literal, $words:expr) => {
        #[doc = $about]
        #[derive(Debug)]
        #[cfg_attr(
            not(feature = "describe"),
            expect(dead_code, reason = "only descriptions name it")
        )]
        $vis struct $type;

        $crate::kit::described::described!($type as $about, stringify!($type), $words);
    };
}

pub(crate) use {described, described_words};
