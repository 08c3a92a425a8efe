pub fn router() -> axum::Router<crate::service::Service> { axum::Router::new() }
