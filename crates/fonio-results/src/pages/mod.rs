pub fn router() -> axum::Router<crate::service::Service> { axum::Router::new() }
pub async fn no_page() -> axum::http::StatusCode { axum::http::StatusCode::NOT_FOUND }
