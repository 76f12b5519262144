//! Enums whose variants have names in data files and reports.

/// Defines an enum with a name for each variant. Serde and `name` both use it. The enum derives `Serialize` or
/// `Deserialize`.
///
/// ```ignore
/// names! {
///     /// Whether a door is open.
///     #[derive(Debug, Clone, Copy, Deserialize)]
///     pub enum DoorState {
///         /// Anyone can pass.
///         Open = "open",
///         /// Nobody can pass.
///         LockedUp = "locked-up",
///     }
/// }
/// ```
macro_rules! names {
    (
        $(#[$of_enum:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$of_enum])*
        $visibility enum $type {
            $($(#[$of_variant])* #[serde(rename = $name)] $variant,)+
        }

        impl $type {
            /// The name in data files and reports.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

pub(crate) use names;
