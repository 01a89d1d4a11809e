//! Where things are: the addresses that error bodies, pages and examples name.

/// Absolute URLs without a slash at the end.
#[derive(Clone, Debug)]
pub struct Links {
    /// Where this installation is reached from outside; examples and the API's paths begin with it.
    pub base_url: String,
    /// The documentation. An error's own section is this with `#` and the section's name.
    pub docs_url: String,
    /// How to get a key.
    pub signup_url: String,
    /// How to get more than the free quota.
    pub enterprise_url: String,
    /// Where this same installation is reached over IPv4 alone, as a scheme and a host, if the operator named it.
    pub ipv4_origin: Option<String>,
    /// The same for IPv6.
    pub ipv6_origin: Option<String>,
}
