//! The plugin as it is served.

use harness::TestApp;
use reqwest::{Method, header};

#[tokio::test]
async fn the_plugin_needs_no_token_and_carries_its_own_source() {
    let app = TestApp::start().await;
    let plain = include_str!("../../python/src/galvo/plugin.py");
    for path in ["/api/v2/analytics/preload", "//api/v2/analytics/preload"] {
        let response = app.anonymous(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert!(
            response.headers()[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/x-python"),
            "{path}"
        );
        let served = response.text().await.unwrap();
        let (first, rest) = served.split_once('\n').unwrap();
        assert_eq!(rest, plain, "{path}");
        let literal = first.strip_prefix("SOURCE = ").unwrap();
        assert_eq!(serde_json::from_str::<String>(literal).unwrap(), plain, "{path}");
    }
    app.stop().await;
}
